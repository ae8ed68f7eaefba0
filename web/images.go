package web

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	imageview "quantix/views/image"
	"quantix/views/kit"
	"quantix/views/shell"
)

func (s *Server) listImages(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter images", Placeholder: "os:debian published:yes name:web*"}
	p := &imageview.ListPage{List: s.listOf(c, "images", "name", imageview.Columns, f), Actor: a}
	if p.Images, err = fillList(c, a, &p.List, queryOf(c), s.Control.ListImages); err != nil {
		return err
	}
	return s.showList(c, a, shell.Frame{Title: "Images"}, p.List, imageview.List(p))
}

var imageHead = []string{"id", "name", "owner", "os", "version", "format", "capacityBytes", "sha256", "publishedTo", "created"}

func imageRow(v fleet.ImageView) []string {
	newest := fleet.ImageVersion{}
	if n := v.Newest(); n != nil {
		newest = *n
	}
	return []string{
		string(v.ID), v.Name, imageview.Owner(v), v.OS.Words(), strconv.Itoa(newest.Number), newest.Format, strconv.FormatInt(newest.CapacityBytes, 10), newest.SHA256,
		v.Published(), v.CreatedAt.UTC().Format(time.RFC3339),
	}
}

func (s *Server) exportImages(c echo.Context, a fleet.Actor) error {
	return exportCSV(s, c, a, "images.csv", queryOf(c), s.Control.ListImages, imageHead, imageRow)
}

func imageFrame(v fleet.ImageView) shell.Frame {
	return shell.Frame{Title: v.Name, Here: []string{string(fleet.SubjectImage(v.ID))}}
}

// imagePage shows an image. One tab has the form that publishes the image to a project.
func (s *Server) imagePage(c echo.Context, a fleet.Actor, _ grantForm, how formState) error {
	tab, err := tabOf(c, imageview.Tabs(), "image")
	if err != nil {
		return err
	}
	return s.showImage(c, a, tab, how)
}

func (s *Server) showImageGrants(c echo.Context, a fleet.Actor, _ grantForm, how formState) error {
	return s.showImage(c, a, "grants", how)
}

func (s *Server) showImage(c echo.Context, a fleet.Actor, tab string, how formState) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetImage(ctx, a, fleet.ImageID(c.Param("id")))
	if err != nil {
		return err
	}
	p := imageview.Page{Actor: a, Link: linkOf(c), Tab: tab, Image: v, Now: time.Now(), Errors: how.errors}
	if tab == "grants" && policy.May(a, policy.InfraChange, "") {
		projects := optionQuery{
			typ: "image-grants", parentID: string(v.ID), chosen: []string{imageview.GrantAll}, page: "/images/" + string(v.ID) + "?tab=grants", all: c.QueryParam("all") != "",
		}
		if p.Projects, err = s.selectOptions(ctx, a, projects); err != nil {
			return err
		}
	}
	return s.showPageWithStatus(c, how.status, a, imageFrame(v), imageview.Show(p))
}

// setImageGrant publishes an image to a project, or withdraws it.
func (s *Server) setImageGrant(c echo.Context, a fleet.Actor, in grantForm) (formResponse, error) {
	set := s.Control.GrantImage
	if in.Revoke != "" {
		set = s.Control.RevokeImage
	}
	id := fleet.ImageID(c.Param("id"))
	err := set(c.Request().Context(), a, id, grantedProject(in.Project))
	return redrawForm(views.TabPath(views.ImagePath(id), "grants"), func(c echo.Context) error { return s.showImageGrants(c, a, in, firstShown) }), err
}

type imageForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Owner       string `form:"owner"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
	Public      string `form:"public"`
	Files       string `form:"files"`
	From        string `form:"from"`
	Pool        string `form:"pool"`
	Host        string `form:"host"`
	Volume      string `form:"volume"`
	URL         string `form:"url"`
	Checksum    string `form:"checksum"`
	ChecksumURL string `form:"checksumUrl"`
	VM          string `form:"vm"`
	Disk        string `form:"disk"`
	Version     string `form:"version"`
	Confirm     string `form:"confirm"`
}

func (in imageForm) view() imageview.FormValues {
	return imageview.FormValues{
		Name: in.Name, Description: in.Description, Owner: in.Owner, Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch, Public: in.Public != "", Files: in.Files != "",
		From: in.From, Pool: in.Pool, Host: in.Host, Volume: in.Volume, URL: in.URL, Checksum: in.Checksum, ChecksumURL: in.ChecksumURL, VM: in.VM, Disk: in.Disk, Version: in.Version, Confirm: in.Confirm,
	}
}

func (in imageForm) os() fleet.OSFacts {
	return fleet.OSFacts{Family: in.Family, Name: strings.TrimSpace(in.System), Version: strings.TrimSpace(in.Release), Arch: strings.TrimSpace(in.Arch)}
}

// source returns the typed source of an image version. It ignores fields of the kinds of source that are not chosen.
func (in imageForm) source(checks *fleet.Checks) control.ImageSource {
	out := control.ImageSource{PoolID: fleet.PoolID(in.Pool), HostID: fleet.HostID(in.Host), Volume: strings.TrimSpace(in.Volume)}
	switch in.From {
	case "url":
		out.URL, out.Checksum, out.ChecksumURL = strings.TrimSpace(in.URL), strings.TrimSpace(in.Checksum), strings.TrimSpace(in.ChecksumURL)
		if out.URL == "" {
			checks.Add("source.url", "Give the address of the image.")
		}
	case "vm":
		out.VMID = fleet.VMID(strings.TrimSpace(in.VM))
		if text := strings.TrimSpace(in.Disk); text != "" {
			out.Disk = parseField(checks, "source.disk", text, numberOf)
		}
		if out.VMID == "" {
			checks.Add("source.vmId", "Give the UUID of the VM: its page shows it.")
		}
	default:
		if out.Volume == "" {
			checks.Add("source.volume", "Give the name of the file.")
		}
	}
	if out.PoolID == "" {
		checks.Add("source.poolId", "Choose the pool.")
	}
	return out
}

// imageChoices reads the options for the selects of an image form.
func (s *Server) imageChoices(c echo.Context, a fleet.Actor, f *imageview.Form) (err error) {
	ctx, all, page := c.Request().Context(), c.QueryParam("all") != "", c.Request().URL.String()
	if f.Pools, err = s.selectOptions(ctx, a, optionQuery{typ: "pools", chosen: []string{f.In.Pool}, page: page, all: all}); err != nil {
		return err
	}
	if f.Hosts, err = s.selectOptions(ctx, a, optionQuery{typ: "hosts", chosen: []string{f.In.Host}, page: page, all: all}); err != nil {
		return err
	}
	f.Projects, err = s.selectOptions(ctx, a, optionQuery{typ: "projects", chosen: []string{f.In.Owner}, page: page, all: all})
	f.Projects.Options = slices.Concat([]kit.Option{{Text: "The fleet"}}, f.Projects.Options)
	return err
}

func (s *Server) showImageForm(c echo.Context, a fleet.Actor, in imageForm, how formState) error {
	starts, err := s.Control.StartImages(c.Request().Context(), a)
	if err != nil {
		return err
	}
	f := imageview.Form{In: in.view(), Errors: how.errors, Starts: starts}
	if !how.wasRefused() {
		f.In.From, f.In.Public = "url", true
		for _, i := range f.Starts {
			if string(i.ID) == c.QueryParam("start") {
				f.In.Name, f.In.URL, f.In.Volume, f.In.Checksum, f.In.ChecksumURL = i.Name, i.URL, i.File, i.Checksum, i.ChecksumURL
				f.In.Family, f.In.System, f.In.Release, f.In.Arch = i.OS.Family, i.OS.Name, i.OS.Version, i.OS.Arch
			}
		}
		if pool := c.QueryParam("pool"); pool != "" {
			f.In.From, f.In.Pool, f.In.Volume, f.In.Host = "file", pool, c.QueryParam("volume"), c.QueryParam("host")
			f.In.Name = f.In.Volume
		}
		if vm := c.QueryParam("vm"); vm != "" {
			f.In.From, f.In.VM, f.In.Disk = "vm", vm, "1"
		}
	}
	if err := s.imageChoices(c, a, &f); err != nil {
		return err
	}
	return s.showPageWithStatus(c, how.status, a, shell.Frame{Title: "New image"}, imageview.New(f))
}

func (s *Server) createImage(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	var checks fleet.Checks
	source := in.source(&checks)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id, _, err := s.Control.AddImage(c.Request().Context(), a, control.NewImage{
		Name: strings.TrimSpace(in.Name), ProjectID: fleet.ProjectID(in.Owner), Description: strings.TrimSpace(in.Description), OS: in.os(), Public: in.Public != "", Source: source,
	})
	return redirect(views.ImagePath(id)), err
}

// imageDialog returns the handler that shows a dialog about one image. fill, which may be nil, prepares the form when
// it is first shown.
func (s *Server) imageDialog(show func(imageview.Form) templ.Component, fill func(c echo.Context, f *imageview.Form) error) formRenderer[imageForm] {
	return func(c echo.Context, a fleet.Actor, in imageForm, how formState) error {
		v, err := s.Control.GetImage(c.Request().Context(), a, fleet.ImageID(c.Param("id")))
		if err != nil {
			return err
		}
		if v.ProjectID == "" || !policy.May(a, policy.VMChange, v.ProjectID) {
			if err := policy.Check(a, policy.InfraChange, ""); err != nil {
				return err
			}
		}
		f := imageview.Form{Image: v, In: in.view(), Errors: how.errors}
		if !how.wasRefused() {
			f.In = imageview.FormValues{Name: v.Name, Description: v.Description, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch, From: "url"}
		}
		if fill != nil {
			if err := fill(c, &f); err != nil {
				return err
			}
		}
		f.Member = !policy.May(a, policy.InfraChange, "")
		if !f.Member {
			if err := s.imageChoices(c, a, &f); err != nil {
				return err
			}
		}
		return s.showPageWithStatus(c, how.status, a, imageFrame(v), show(f))
	}
}

func imageIDOf(c echo.Context) fleet.ImageID { return fleet.ImageID(c.Param("id")) }

func (s *Server) addImageVersion(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	var checks fleet.Checks
	source := in.source(&checks)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	t, err := s.Control.AddImageVersion(c.Request().Context(), a, imageIDOf(c), source)
	return stayOnPage(views.ImagePath(imageIDOf(c)), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

func (s *Server) copyImage(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	t, err := s.Control.CopyImage(c.Request().Context(), a, imageIDOf(c), control.NewCopy{VersionID: fleet.ImageVersionID(in.Version), PoolID: fleet.PoolID(in.Pool), HostID: fleet.HostID(in.Host)})
	text := "The pool already holds a file with the same content, which is now the copy."
	if t.ID != "" {
		text = t.Title() + " " + t.SubjectName + ": queued on " + t.HostName + "."
	}
	return stayOnPage(views.ImagePath(imageIDOf(c)), text), err
}

func (s *Server) editImage(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	name, description, os := strings.TrimSpace(in.Name), strings.TrimSpace(in.Description), in.os()
	err := s.Control.EditImage(c.Request().Context(), a, imageIDOf(c), control.EditImage{Name: &name, Description: &description, OS: &os})
	return stayOnPage(views.ImagePath(imageIDOf(c)), "Saved."), err
}

func (s *Server) deleteImage(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	_, err := s.Control.DeleteImage(c.Request().Context(), a, imageIDOf(c), in.Confirm, in.Files != "")
	return redirect("/images"), err
}

type copyForm struct {
	Pool   string `form:"pool"`
	Volume string `form:"volume"`
	Host   string `form:"host"`
}

func (in copyForm) imageCopy(c echo.Context) control.ImageCopy {
	return control.ImageCopy{ImageID: imageIDOf(c), PoolID: fleet.PoolID(in.Pool), Volume: in.Volume, HostID: fleet.HostID(in.Host)}
}

func (s *Server) verifyCopy(c echo.Context, a fleet.Actor, in copyForm) (formResponse, error) {
	t, err := s.Control.VerifyCopy(c.Request().Context(), a, in.imageCopy(c))
	return stayOnPage(views.ImagePath(imageIDOf(c)), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

func (s *Server) forgetCopy(c echo.Context, a fleet.Actor, in copyForm) (formResponse, error) {
	return stayOnPage(views.ImagePath(imageIDOf(c)), in.Volume+" is removed from the library; the file stays."), s.Control.ForgetCopy(c.Request().Context(), a, in.imageCopy(c))
}

// copyInQuery returns the image copy in the request's query.
func copyInQuery(c echo.Context) control.ImageCopy {
	return copyForm{c.QueryParam("pool"), c.QueryParam("volume"), c.QueryParam("host")}.imageCopy(c)
}

// fillCopy sets the form's copy to delete from the query. It fails with NotFound if the image has no such copy.
func fillCopy(c echo.Context, f *imageview.Form) error {
	at := copyInQuery(c)
	for _, v := range f.Image.Versions {
		for _, o := range v.Copies {
			if o.PoolID == at.PoolID && o.Volume == at.Volume && o.HostID == at.HostID {
				f.Copy = o
				return nil
			}
		}
	}
	return fleet.Errorf(fleet.NotFound, "The image no longer has this copy.")
}

func (s *Server) deleteCopy(c echo.Context, a fleet.Actor, in imageForm) (formResponse, error) {
	at := copyInQuery(c)
	_, err := s.Control.DeleteCopy(c.Request().Context(), a, at, in.Confirm)
	return stayOnPage(views.ImagePath(imageIDOf(c)), at.Volume+" is being deleted."), err
}
