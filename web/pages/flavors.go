package pages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/flavors"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	flavorview "quantix/views/flavor"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
)

// ListFlavors shows the flavors that the actor may see.
func (s *Site) ListFlavors(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.ListFlavors(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Flavors"}, flavorview.List(flavorview.ListPage{Actor: a, Flavors: all}))
}

// flavorForm is a submitted form of a flavor.
type flavorForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	CPUs        string `form:"cpus"`
	Memory      string `form:"memoryMiB"` // GiB
	Disk        string `form:"diskBytes"` // GiB
	Generation  string `form:"generation"`
}

func (in flavorForm) spec() (flavor.Definition, error) {
	var checks fleet.Checks
	spec := flavor.Definition{Name: strings.TrimSpace(in.Name), Description: in.Description, CPUs: form.ParseField(&checks, "cpus", in.CPUs, form.ParseNumber)}
	spec.MemoryMiB = int(form.ParseField(&checks, "memoryMiB", in.Memory, form.ParseDiskSize) >> 20)
	spec.DiskBytes = form.ParseField(&checks, "diskBytes", in.Disk, form.ParseDiskSize)
	if checks.Err() == nil {
		return spec, nil
	}
	var rest fleet.Checks // the form shows all errors at once
	spec.Check(&rest)
	return spec, form.JoinErrors(&checks, rest.Err())
}

func (in flavorForm) typed(how form.Display) flavorview.Form {
	return flavorview.Form{
		Name: in.Name, Description: in.Description, CPUs: in.CPUs, Memory: in.Memory, Disk: in.Disk, Generation: form.ParseGeneration(in.Generation), Errors: how.Errors,
	}
}

// ShowNewFlavorForm shows the form of a new flavor.
func (s *Site) ShowNewFlavorForm(c echo.Context, a fleet.Actor, in flavorForm, how form.Display) error {
	p := flavorview.Page{Actor: a, Form: in.typed(how)}
	if !how.WasRefused() {
		p.Form = flavorview.NewForm(flavor.Flavor{Definition: flavor.Definition{CPUs: 2, MemoryMiB: 2048}})
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New flavor"}, flavorview.FormPage(p))
}

func (s *Site) CreateFlavor(c echo.Context, a fleet.Actor, in flavorForm) (form.Response, error) {
	spec, err := in.spec()
	if err != nil {
		return nil, err
	}
	v, err := s.Control.CreateFlavor(c.Request().Context(), a, spec)
	return form.RedirectTo(views.FlavorPath(v.ID)), err
}

func flavorIDFromPath(c echo.Context) flavor.ID { return flavor.ID(c.Param("id")) }

func flavorLayout(f flavor.Flavor) shell.PageLayout { return shell.PageLayout{Title: f.Name} }

// FlavorPage shows a flavor with its form.
func (s *Site) FlavorPage(c echo.Context, a fleet.Actor) error {
	return s.ShowFlavorForm(c, a, flavorForm{}, form.FirstDisplay)
}

// ShowFlavorForm shows the page of a flavor, with the form as stored or as typed.
func (s *Site) ShowFlavorForm(c echo.Context, a fleet.Actor, in flavorForm, how form.Display) error {
	p, err := s.readFlavorPage(c, a)
	if err != nil {
		return err
	}
	if how.WasRefused() {
		p.Form = in.typed(how)
	}
	return s.ShowPageWithStatus(c, how.Status, a, flavorLayout(p.Flavor), flavorview.FormPage(p))
}

// ShowFlavorGrants shows the page of a flavor, with the result of a change of its grants.
func (s *Site) ShowFlavorGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	p, err := s.readFlavorPage(c, a)
	if err != nil {
		return err
	}
	p.GrantErrors = how.Errors
	return s.ShowPageWithStatus(c, how.Status, a, flavorLayout(p.Flavor), flavorview.FormPage(p))
}

func (s *Site) readFlavorPage(c echo.Context, a fleet.Actor) (p flavorview.Page, err error) {
	ctx := c.Request().Context()
	v, err := s.Control.GetFlavor(ctx, a, flavorIDFromPath(c))
	if err != nil {
		return p, err
	}
	p = flavorview.Page{Actor: a, Flavor: v, Form: flavorview.NewForm(v)}
	if !policy.May(a, policy.InfraChange, "") {
		return p, nil
	}
	p.Projects, err = s.Options.Choices(ctx, a, options.Query{
		Kind: "flavor-grants", ParentID: string(v.ID), Chosen: []string{flavorview.GrantToAllProjects}, FormAddress: views.FlavorPath(v.ID), ShowAll: c.QueryParam("all") != "",
	})
	return p, err
}

func (s *Site) EditFlavor(c echo.Context, a fleet.Actor, in flavorForm) (form.Response, error) {
	spec, err := in.spec()
	if err != nil {
		return nil, err
	}
	id := flavorIDFromPath(c)
	_, err = s.Control.UpdateFlavor(c.Request().Context(), a, id, flavors.FlavorChange{Definition: spec, IfGeneration: form.ParseGeneration(in.Generation)})
	return form.RedirectTo(views.FlavorPath(id)), err
}

// SetFlavorGrant publishes a flavor to a project, or withdraws it from the project.
func (s *Site) SetFlavorGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantFlavor
	if in.Revoke != "" {
		set = s.Control.RevokeFlavor
	}
	id := flavorIDFromPath(c)
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.FlavorPath(id), func(c echo.Context) error { return s.ShowFlavorGrants(c, a, in, form.FirstDisplay) }), err
}

func (s *Site) ConfirmDeleteFlavor() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetFlavor, flavorLayout, flavorview.DeleteDialog)
}

func (s *Site) DeleteFlavor(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/flavors"), s.Control.DeleteFlavor(c.Request().Context(), a, flavorIDFromPath(c))
}
