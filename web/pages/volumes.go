package pages

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/views"
	poolview "quantix/views/pool"
	"quantix/web/form"
	"quantix/web/render"
)

type volumeForm struct {
	Name        string `form:"name"`
	Format      string `form:"format"`
	Size        string `form:"size"`
	Unit        string `form:"unit"`
	Host        string `form:"host"`
	Full        string `form:"full"`
	Overcommit  string `form:"overcommit"`
	Confirm     string `form:"confirm"`
	URL         string `form:"url"`
	Checksum    string `form:"checksum"`
	ChecksumURL string `form:"checksumUrl"`
	File        string `form:"file"`
}

func (in volumeForm) view() poolview.VolumeForm {
	return poolview.VolumeForm{
		Name: in.Name, Format: in.Format, Size: in.Size, Unit: in.Unit, Host: in.Host, Confirm: in.Confirm, Full: in.Full != "", Overcommit: in.Overcommit != "",
		URL: in.URL, Checksum: in.Checksum, ChecksumURL: in.ChecksumURL, File: in.File,
	}
}

// VolumeInPath returns the pool's volume that the request's path and query name.
func VolumeInPath(c echo.Context) storage.VolumeID {
	return storage.VolumeID{PoolID: fleet.PoolID(c.Param("id")), Volume: c.QueryParam("volume"), HostID: fleet.HostID(c.QueryParam("host"))}
}

// stayOnVolumesTab returns the response after task t was queued: a message on the pool's volumes tab.
func (s *Site) stayOnVolumesTab(c echo.Context, t fleet.Task, err error) (form.Response, error) {
	back := views.TabPath(views.PoolPath(fleet.PoolID(c.Param("id"))), "volumes")
	return form.StayOnPage(back, t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

func (s *Site) ShowNewVolumeForm(c echo.Context, a fleet.Actor, in volumeForm, how form.Display) error {
	return s.showNewVolumeDialog(c, a, in, how, poolview.NewVolumeForm)
}

func (s *Site) ShowDownloadVolumeForm(c echo.Context, a fleet.Actor, in volumeForm, how form.Display) error {
	return s.showNewVolumeDialog(c, a, in, how, poolview.DownloadVolumeForm)
}

func (s *Site) DownloadVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	order := storage.NewDownload{
		URL: strings.TrimSpace(in.URL), Checksum: strings.TrimSpace(in.Checksum), ChecksumURL: strings.TrimSpace(in.ChecksumURL), Name: strings.TrimSpace(in.Name), HostID: fleet.HostID(in.Host),
	}
	t, err := s.Control.FetchVolume(c.Request().Context(), a, fleet.PoolID(c.Param("id")), order)
	return s.stayOnVolumesTab(c, t, err)
}

// showNewVolumeDialog shows the dialog of a new volume. scripts are the scripts needed if the dialog is shown as a
// page.
func (s *Site) showNewVolumeDialog(c echo.Context, a fleet.Actor, in volumeForm, how form.Display, dialog func(poolview.VolumePage) templ.Component, scripts ...string) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetPool(ctx, a, fleet.PoolID(c.Param("id")))
	if err != nil {
		return err
	}
	p := poolview.VolumePage{Pool: v, In: in.view(), Errors: how.Errors}
	if p.Starts, err = s.Control.StartImages(ctx, a); err != nil {
		return err
	}
	for _, i := range p.Starts {
		if !how.WasRefused() && string(i.ID) == c.QueryParam("start") {
			p.Start, p.In.URL, p.In.Name, p.In.Checksum, p.In.ChecksumURL = i.Image, i.URL, i.File, i.Checksum, i.ChecksumURL
		}
	}
	if !v.Spec.Shared {
		if p.Hosts, err = query.ReadAllPages(ctx, a, fleet.Query{}, func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.PoolHost], error) {
			return s.Control.PoolHosts(ctx, a, v.ID, q)
		}); err != nil {
			return err
		}
		if len(p.Hosts) == 1 && !how.WasRefused() {
			p.In.Host = string(p.Hosts[0].HostID)
		}
	}
	f := poolPageLayout(v)
	f.Scripts = scripts
	return s.ShowPageWithStatus(c, how.Status, a, f, dialog(p))
}

func (s *Site) CreateVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	var checks fleet.Checks
	order := storage.NewVolume{
		Name: strings.TrimSpace(in.Name), Format: in.Format, SizeBytes: form.ParseField(&checks, "sizeBytes", in.Size, form.ParseDiskSize), Full: in.Full != "",
		HostID: fleet.HostID(in.Host), Overcommit: in.Overcommit != "",
	}
	// a size that cannot be parsed is 0 here, which control refuses
	t, err := s.Control.CreateVolume(c.Request().Context(), a, fleet.PoolID(c.Param("id")), order)
	return s.stayOnVolumesTab(c, t, form.JoinErrors(&checks, err))
}

// VolumeDialog returns the handler that shows a dialog about an existing volume.
func (s *Site) VolumeDialog(dialog func(poolview.VolumePage) templ.Component) form.Renderer[volumeForm] {
	return func(c echo.Context, a fleet.Actor, in volumeForm, how form.Display) error {
		ctx := c.Request().Context()
		v, err := s.Control.GetPool(ctx, a, fleet.PoolID(c.Param("id")))
		if err != nil {
			return err
		}
		of := VolumeInPath(c)
		on, err := s.Control.VolumeOn(ctx, a, of)
		if err != nil {
			return err
		}
		p := poolview.VolumePage{Pool: v, Volume: on.VolumeUse(), Host: of.HostID, In: in.view(), Errors: how.Errors}
		if !how.WasRefused() {
			p.In.Name = "copy-of-" + on.Name
			p.In.Size, p.In.Unit = form.DiskSizeText(on.CapacityBytes)
			switch path.Base(c.Path()) {
			case "rename":
				p.In.Name = on.Name
			case "convert":
				p.In.Name = strings.TrimSuffix(on.Name, path.Ext(on.Name)) + ".qcow2"
			}
		}
		return s.ShowPageWithStatus(c, how.Status, a, poolPageLayout(v), dialog(p))
	}
}

func (s *Site) GrowVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	var checks fleet.Checks
	size := form.ParseField(&checks, "sizeBytes", in.Size, form.ParseDiskSizeIn(in.Unit))
	if err := checks.Err(); err != nil {
		return nil, err
	}
	t, err := s.Control.GrowVolume(c.Request().Context(), a, VolumeInPath(c), size, in.Overcommit != "")
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) CloneVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	t, err := s.Control.CloneVolume(c.Request().Context(), a, VolumeInPath(c), strings.TrimSpace(in.Name), in.Overcommit != "")
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) ConvertVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	t, err := s.Control.ConvertVolume(c.Request().Context(), a, VolumeInPath(c), strings.TrimSpace(in.Name), in.Overcommit != "")
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) RenameVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	t, err := s.Control.RenameVolume(c.Request().Context(), a, VolumeInPath(c), strings.TrimSpace(in.Name))
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) WipeVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	t, err := s.Control.WipeVolume(c.Request().Context(), a, VolumeInPath(c), in.Confirm)
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) DeleteVolume(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	t, err := s.Control.DeleteVolume(c.Request().Context(), a, VolumeInPath(c), in.Confirm)
	return s.stayOnVolumesTab(c, t, err)
}

func (s *Site) ShowUploadVolumeForm(c echo.Context, a fleet.Actor, in volumeForm, how form.Display) error {
	return s.showNewVolumeDialog(c, a, in, how, poolview.UploadVolumeForm, render.UploadScript)
}

// CreateVolumeUpload creates the upload; the script of the form's page then sends the file.
func (s *Site) CreateVolumeUpload(c echo.Context, a fleet.Actor, in volumeForm) (form.Response, error) {
	var checks fleet.Checks
	size, err := strconv.ParseInt(in.Size, 10, 64)
	if err != nil || in.File == "" {
		checks.Add("sizeBytes", "Choose the file to upload.")
		return nil, checks.Err()
	}
	u, err := s.Control.CreateUpload(c.Request().Context(), a, fleet.PoolID(c.Param("id")), control.NewUpload{
		Name: strings.TrimSpace(in.Name), HostID: fleet.HostID(in.Host), SizeBytes: size, Checksum: strings.TrimSpace(in.Checksum), File: in.File,
	})
	back := views.TabPath(views.PoolPath(fleet.PoolID(c.Param("id"))), "volumes")
	return form.StayOnPage(back, "Uploading "+u.Volume+" to "+u.HostName+"."), err
}
