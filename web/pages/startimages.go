package pages

import (
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	imageview "quantix/views/image"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

var catalogPageLayout = shell.PageLayout{Title: "Well-known images"}

func (s *Site) ListCatalog(c echo.Context, a fleet.Actor) (err error) {
	ctx, all := c.Request().Context(), c.QueryParam("all") != ""
	p := imageview.CatalogPage{Actor: a, Link: render.LinkToCurrentPage(c), Now: time.Now()}
	if p.Images, err = s.Control.StartImages(ctx, a); err != nil {
		return err
	}
	if render.HTMXTarget(c) == "" { // a refresh redraws only the rows, not the form above them
		if p.Pools, err = s.Options.Choices(ctx, a, options.Query{Kind: "pools", FormAddress: imageview.CatalogPath(), ShowAll: all}); err != nil {
			return err
		}
		if p.Hosts, err = s.Options.Choices(ctx, a, options.Query{Kind: "hosts", FormAddress: imageview.CatalogPath(), ShowAll: all}); err != nil {
			return err
		}
	} else if p.Pools.Options, err = s.Options.PoolOptions(ctx, a, options.Query{}); err != nil {
		return err
	}
	return s.ShowPage(c, a, catalogPageLayout, imageview.CatalogList(p))
}

type pullCatalogEntryForm struct {
	Entry  string `form:"entry"`
	Pool   string `form:"pool"`
	Host   string `form:"host"`
	Public string `form:"public"`
}

func (s *Site) PullCatalogEntry(c echo.Context, a fleet.Actor, in pullCatalogEntryForm) (form.Response, error) {
	_, t, err := s.Control.PullStartImage(c.Request().Context(), a, fleet.StartImageID(in.Entry), control.PullDestination{
		PoolID: fleet.PoolID(in.Pool), HostID: fleet.HostID(in.Host), Public: in.Public != "",
	})
	return form.StayOnPage(imageview.CatalogPath(), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

type catalogEntryForm struct {
	Name        string `form:"name"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
	URL         string `form:"url"`
	File        string `form:"file"`
	Checksum    string `form:"checksum"`
	ChecksumURL string `form:"checksumUrl"`
}

func (in catalogEntryForm) os() fleet.OSFacts {
	return imageForm{Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch}.os()
}

func catalogEntryIDFromPath(c echo.Context) fleet.StartImageID {
	return fleet.StartImageID(c.Param("id"))
}

// CatalogEntryDialog returns the handler that shows a dialog about an entry of the image catalog; for a new entry the
// form is empty.
func (s *Site) CatalogEntryDialog(show func(imageview.CatalogForm) templ.Component) form.Renderer[catalogEntryForm] {
	return func(c echo.Context, a fleet.Actor, in catalogEntryForm, how form.Display) error {
		f := imageview.CatalogForm{In: imageview.CatalogValues(in), Errors: how.Errors}
		if id := catalogEntryIDFromPath(c); id != "" {
			v, err := s.Control.StartImage(c.Request().Context(), a, id)
			if err != nil {
				return err
			}
			f.Entry = v.Image
			if !how.WasRefused() {
				f.In = imageview.CatalogValues{
					Name: v.Name, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch, URL: v.URL, File: v.File, Checksum: v.Checksum, ChecksumURL: v.ChecksumURL,
				}
			}
		} else if !how.WasRefused() {
			f.In.Family, f.In.Arch = "linux", "x86_64"
		}
		return s.ShowPageWithStatus(c, how.Status, a, catalogPageLayout, show(f))
	}
}

func (s *Site) AddCatalogEntry(c echo.Context, a fleet.Actor, in catalogEntryForm) (form.Response, error) {
	_, err := s.Control.AddStartImage(c.Request().Context(), a, control.NewStartImage{
		Name: in.Name, OS: in.os(), URL: in.URL, File: in.File, Checksum: in.Checksum, ChecksumURL: in.ChecksumURL,
	})
	return form.StayOnPage(imageview.CatalogPath(), strings.TrimSpace(in.Name)+" is in the catalog."), err
}

func (s *Site) EditCatalogEntry(c echo.Context, a fleet.Actor, in catalogEntryForm) (form.Response, error) {
	os := in.os()
	err := s.Control.EditStartImage(c.Request().Context(), a, catalogEntryIDFromPath(c), control.EditStartImage{
		Name: &in.Name, OS: &os, URL: &in.URL, File: &in.File, Checksum: &in.Checksum, ChecksumURL: &in.ChecksumURL,
	})
	return form.StayOnPage(imageview.CatalogPath(), "Saved."), err
}

func (s *Site) RemoveCatalogEntry(c echo.Context, a fleet.Actor, _ catalogEntryForm) (form.Response, error) {
	return form.StayOnPage(imageview.CatalogPath(), "Removed from the catalog."), s.Control.RemoveStartImage(c.Request().Context(), a, catalogEntryIDFromPath(c))
}

func (s *Site) RestoreCatalog(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	n, err := s.Control.RestoreStartImages(c.Request().Context(), a)
	text := "The catalog already contains all original entries, unchanged."
	if n > 0 {
		text = "The original entries are restored."
	}
	return form.StayOnPage(imageview.CatalogPath(), text), err
}
