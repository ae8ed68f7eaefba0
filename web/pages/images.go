package pages

import (
	"slices"
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
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

func (s *Site) ListImages(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter images", Placeholder: "system:debian published:yes name:web*"}
	p := &imageview.ListPage{List: s.NewList(c, "images", "name", imageview.Columns, f), Actor: a}
	if p.Images, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListImages); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Images"}, p.List, imageview.List(p))
}

func (s *Site) ExportImagesCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "images.csv", render.QueryFromURL(c), s.Control.ListImages, imageview.CSV)
}

func imagePageLayout(v fleet.ImageView) shell.PageLayout {
	return shell.PageLayout{Title: v.Name, ObjectKeys: []string{string(fleet.SubjectImage(v.ID))}}
}

// ImagePage shows an image. One tab has the form that publishes the image to a project.
func (s *Site) ImagePage(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	tab, err := requestedTab(c, imageview.Tabs(), "image")
	if err != nil {
		return err
	}
	return s.showImage(c, a, tab, how)
}

func (s *Site) ShowImageGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	return s.showImage(c, a, "grants", how)
}

func (s *Site) showImage(c echo.Context, a fleet.Actor, tab string, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetImage(ctx, a, fleet.ImageID(c.Param("id")))
	if err != nil {
		return err
	}
	p := imageview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Image: v, Now: time.Now(), Errors: how.Errors}
	if tab == "grants" && policy.May(a, policy.InfraChange, "") {
		projects := options.Query{
			Kind: "image-grants", ParentID: string(v.ID), Chosen: []string{imageview.GrantToAllProjects}, FormAddress: "/images/" + string(v.ID) + "?tab=grants", ShowAll: c.QueryParam("all") != "",
		}
		if p.Projects, err = s.Options.Choices(ctx, a, projects); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, imagePageLayout(v), imageview.ImagePage(p))
}

// SetImageGrant publishes an image to a project, or withdraws it from the project.
func (s *Site) SetImageGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantImage
	if in.Revoke != "" {
		set = s.Control.RevokeImage
	}
	id := fleet.ImageID(c.Param("id"))
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.TabPath(views.ImagePath(id), "grants"), func(c echo.Context) error { return s.ShowImageGrants(c, a, in, form.FirstDisplay) }), err
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
	return form.NewOSFacts(in.Family, in.System, in.Release, in.Arch)
}

// source returns the typed source of an image version. It ignores the fields of other kinds of sources, which the form
// also sends.
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
			out.Disk = form.ParseField(checks, "source.disk", text, form.ParseNumber)
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

// readImageFormChoices reads the options for the selects of an image form.
func (s *Site) readImageFormChoices(c echo.Context, a fleet.Actor, f *imageview.Form) (err error) {
	ctx, all, page := c.Request().Context(), c.QueryParam("all") != "", c.Request().URL.String()
	if f.Pools, err = s.Options.Choices(ctx, a, options.Query{Kind: "pools", Chosen: []string{f.In.Pool}, FormAddress: page, ShowAll: all}); err != nil {
		return err
	}
	if f.Hosts, err = s.Options.Choices(ctx, a, options.Query{Kind: "hosts", Chosen: []string{f.In.Host}, FormAddress: page, ShowAll: all}); err != nil {
		return err
	}
	f.Projects, err = s.Options.Choices(ctx, a, options.Query{Kind: "projects", Chosen: []string{f.In.Owner}, FormAddress: page, ShowAll: all})
	f.Projects.Options = slices.Concat([]kit.Option{{Text: "The fleet"}}, f.Projects.Options)
	return err
}

func (s *Site) ShowImageForm(c echo.Context, a fleet.Actor, in imageForm, how form.Display) error {
	starts, err := s.Control.StartImages(c.Request().Context(), a)
	if err != nil {
		return err
	}
	f := imageview.Form{In: in.view(), Errors: how.Errors, Starts: starts}
	if !how.WasRefused() {
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
	if err := s.readImageFormChoices(c, a, &f); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New image"}, imageview.NewImageForm(f))
}

func (s *Site) CreateImage(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	var checks fleet.Checks
	source := in.source(&checks)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	id, _, err := s.Control.AddImage(c.Request().Context(), a, control.NewImage{
		Name: strings.TrimSpace(in.Name), ProjectID: fleet.ProjectID(in.Owner), Description: strings.TrimSpace(in.Description), OS: in.os(), Public: in.Public != "", Source: source,
	})
	return form.RedirectTo(views.ImagePath(id)), err
}

// ImageDialog returns the handler that shows a dialog about one image. fill prepares the form when it is first shown;
// it may be nil.
func (s *Site) ImageDialog(show func(imageview.Form) templ.Component, fill func(c echo.Context, f *imageview.Form) error) form.Renderer[imageForm] {
	return func(c echo.Context, a fleet.Actor, in imageForm, how form.Display) error {
		v, err := s.Control.GetImage(c.Request().Context(), a, fleet.ImageID(c.Param("id")))
		if err != nil {
			return err
		}
		if v.ProjectID == "" || !policy.May(a, policy.VMChange, v.ProjectID) {
			if err := policy.Check(a, policy.InfraChange, ""); err != nil {
				return err
			}
		}
		f := imageview.Form{Image: v, In: in.view(), Errors: how.Errors}
		if !how.WasRefused() {
			f.In = imageview.FormValues{Name: v.Name, Description: v.Description, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch, From: "url"}
		}
		if fill != nil {
			if err := fill(c, &f); err != nil {
				return err
			}
		}
		f.Member = !policy.May(a, policy.InfraChange, "")
		if !f.Member {
			if err := s.readImageFormChoices(c, a, &f); err != nil {
				return err
			}
		}
		return s.ShowPageWithStatus(c, how.Status, a, imagePageLayout(v), show(f))
	}
}

func imageIDFromPath(c echo.Context) fleet.ImageID { return fleet.ImageID(c.Param("id")) }

func (s *Site) AddImageVersion(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	var checks fleet.Checks
	source := in.source(&checks)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	t, err := s.Control.AddImageVersion(c.Request().Context(), a, imageIDFromPath(c), source)
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

func (s *Site) CopyImageToPool(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	t, err := s.Control.CopyImage(c.Request().Context(), a, imageIDFromPath(c), control.NewCopy{VersionID: fleet.ImageVersionID(in.Version), PoolID: fleet.PoolID(in.Pool), HostID: fleet.HostID(in.Host)})
	text := "The pool already holds a file with the same content, which is now the copy."
	if t.ID != "" {
		text = t.Title() + " " + t.SubjectName + ": queued on " + t.HostName + "."
	}
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), text), err
}

func (s *Site) EditImage(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	name, description, os := strings.TrimSpace(in.Name), strings.TrimSpace(in.Description), in.os()
	err := s.Control.EditImage(c.Request().Context(), a, imageIDFromPath(c), control.EditImage{Name: &name, Description: &description, OS: &os})
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), "Saved."), err
}

func (s *Site) DeleteImage(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	_, err := s.Control.DeleteImage(c.Request().Context(), a, imageIDFromPath(c), in.Confirm, in.Files != "")
	return form.RedirectTo("/images"), err
}

type imageCopyForm struct {
	Pool   string `form:"pool"`
	Volume string `form:"volume"`
	Host   string `form:"host"`
}

func (in imageCopyForm) imageCopy(c echo.Context) control.ImageCopy {
	return control.ImageCopy{ImageID: imageIDFromPath(c), PoolID: fleet.PoolID(in.Pool), Volume: in.Volume, HostID: fleet.HostID(in.Host)}
}

func (s *Site) VerifyImageCopy(c echo.Context, a fleet.Actor, in imageCopyForm) (form.Response, error) {
	t, err := s.Control.VerifyCopy(c.Request().Context(), a, in.imageCopy(c))
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

func (s *Site) ForgetImageCopy(c echo.Context, a fleet.Actor, in imageCopyForm) (form.Response, error) {
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), in.Volume+" is removed from the library; the file stays."), s.Control.RemoveCopyFromLibrary(c.Request().Context(), a, in.imageCopy(c))
}

// imageCopyInQuery returns the image copy in the request's query.
func imageCopyInQuery(c echo.Context) control.ImageCopy {
	return imageCopyForm{c.QueryParam("pool"), c.QueryParam("volume"), c.QueryParam("host")}.imageCopy(c)
}

// FillImageCopyFromQuery sets the form's copy to delete from the query. It fails with NotFound if the image has no such
// copy.
func FillImageCopyFromQuery(c echo.Context, f *imageview.Form) error {
	at := imageCopyInQuery(c)
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

func (s *Site) DeleteImageCopy(c echo.Context, a fleet.Actor, in imageForm) (form.Response, error) {
	at := imageCopyInQuery(c)
	_, err := s.Control.DeleteCopy(c.Request().Context(), a, at, in.Confirm)
	return form.StayOnPage(views.ImagePath(imageIDFromPath(c)), at.Volume+" is being deleted."), err
}

// ImageMenu returns the handler of the image's action menu.
func (s *Site) ImageMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetImage, imagePageLayout, imageview.Actions)
}
