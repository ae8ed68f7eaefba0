package web

import (
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/control"
	"quantix/internal/fleet"
	imageview "quantix/views/image"
	"quantix/views/shell"
)

var startFrame = shell.Frame{Title: "Well-known images"}

func (s *Server) listStartImages(c echo.Context, a fleet.Actor) (err error) {
	ctx, all := c.Request().Context(), c.QueryParam("all") != ""
	p := imageview.StartPage{Actor: a, Link: linkOf(c), Now: time.Now()}
	if p.Images, err = s.Control.StartImages(ctx, a); err != nil {
		return err
	}
	if target(c) == "" { // a refresh redraws only the rows, not the form above them
		if p.Pools, err = s.choose(ctx, a, pick{typ: "pools", page: imageview.StartPath(), all: all}); err != nil {
			return err
		}
		if p.Hosts, err = s.choose(ctx, a, pick{typ: "hosts", page: imageview.StartPath(), all: all}); err != nil {
			return err
		}
	} else if p.Pools.Options, err = s.poolOptions(ctx, a, pick{}); err != nil {
		return err
	}
	return s.show(c, a, startFrame, imageview.Start(p))
}

type pullForm struct {
	Entry  string `form:"entry"`
	Pool   string `form:"pool"`
	Host   string `form:"host"`
	Public string `form:"public"`
}

func (s *Server) pullStartImage(c echo.Context, a fleet.Actor, in pullForm) (end, error) {
	_, t, err := s.Control.PullStartImage(c.Request().Context(), a, fleet.StartImageID(in.Entry), control.Pull{
		PoolID: fleet.PoolID(in.Pool), HostID: fleet.HostID(in.Host), Public: in.Public != "",
	})
	return stay(imageview.StartPath(), t.Title()+" "+t.SubjectName+": queued on "+t.HostName+"."), err
}

type startForm struct {
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

func (in startForm) os() fleet.OSFacts {
	return imageForm{Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch}.os()
}

func startIn(c echo.Context) fleet.StartImageID { return fleet.StartImageID(c.Param("id")) }

// askOfStart returns the handler that shows a dialog about an entry of the image catalog; for a new entry the form is
// empty.
func (s *Server) askOfStart(show func(imageview.StartForm) templ.Component) asking[startForm] {
	return func(c echo.Context, a fleet.Actor, in startForm, how formState) error {
		f := imageview.StartForm{In: imageview.StartIn(in), Errors: how.errors}
		if id := startIn(c); id != "" {
			v, err := s.Control.StartImage(c.Request().Context(), a, id)
			if err != nil {
				return err
			}
			f.Entry = v.StartImage
			if !how.again() {
				f.In = imageview.StartIn{
					Name: v.Name, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch, URL: v.URL, File: v.File, Checksum: v.Checksum, ChecksumURL: v.ChecksumURL,
				}
			}
		} else if !how.again() {
			f.In.Family, f.In.Arch = "linux", "x86_64"
		}
		return s.showAs(c, how.status, a, startFrame, show(f))
	}
}

func (s *Server) addStartImage(c echo.Context, a fleet.Actor, in startForm) (end, error) {
	_, err := s.Control.AddStartImage(c.Request().Context(), a, control.NewStartImage{
		Name: in.Name, OS: in.os(), URL: in.URL, File: in.File, Checksum: in.Checksum, ChecksumURL: in.ChecksumURL,
	})
	return stay(imageview.StartPath(), strings.TrimSpace(in.Name)+" is in the catalog."), err
}

func (s *Server) editStartImage(c echo.Context, a fleet.Actor, in startForm) (end, error) {
	os := in.os()
	err := s.Control.EditStartImage(c.Request().Context(), a, startIn(c), control.EditStartImage{
		Name: &in.Name, OS: &os, URL: &in.URL, File: &in.File, Checksum: &in.Checksum, ChecksumURL: &in.ChecksumURL,
	})
	return stay(imageview.StartPath(), "Saved."), err
}

func (s *Server) removeStartImage(c echo.Context, a fleet.Actor, _ startForm) (end, error) {
	return stay(imageview.StartPath(), "Removed from the catalog."), s.Control.RemoveStartImage(c.Request().Context(), a, startIn(c))
}

func (s *Server) restoreStartImages(c echo.Context, a fleet.Actor, _ none) (end, error) {
	n, err := s.Control.RestoreStartImages(c.Request().Context(), a)
	text := "The catalog already contains all original entries, unchanged."
	if n > 0 {
		text = "The original entries are restored."
	}
	return stay(imageview.StartPath(), text), err
}
