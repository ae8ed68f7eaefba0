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
	"quantix/internal/template"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	templateview "quantix/views/template"
	"quantix/web/form"
	"quantix/web/options"
	"quantix/web/render"
)

func (s *Site) ListTemplates(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter templates", Placeholder: "system:debian project:web published:yes"}
	p := &templateview.ListPage{List: s.NewList(c, "templates", "name", templateview.Columns, f), Actor: a}
	if p.Templates, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListTemplates); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Templates"}, p.List, templateview.List(p))
}

func (s *Site) ExportTemplatesCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "templates.csv", render.QueryFromURL(c), s.Control.ListTemplates, templateview.CSV)
}

func templatePageLayout(v template.View) shell.PageLayout {
	return shell.PageLayout{Title: v.Name, ObjectKeys: []string{string(template.Subject(v.ID))}}
}

func templateIDFromPath(c echo.Context) fleet.TemplateID { return fleet.TemplateID(c.Param("id")) }

// TemplatePage shows a template. One tab has the form that publishes the template to a project.
func (s *Site) TemplatePage(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	tab, err := requestedTab(c, templateview.Tabs(), "template")
	if err != nil {
		return err
	}
	return s.showTemplate(c, a, tab, how)
}

func (s *Site) ShowTemplateGrants(c echo.Context, a fleet.Actor, _ grantForm, how form.Display) error {
	return s.showTemplate(c, a, "grants", how)
}

func (s *Site) showTemplate(c echo.Context, a fleet.Actor, tab string, how form.Display) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetTemplate(ctx, a, templateIDFromPath(c))
	if err != nil {
		return err
	}
	p := templateview.Page{Actor: a, Link: render.LinkToCurrentPage(c), Tab: tab, Template: v, Now: time.Now(), Errors: how.Errors}
	if tab == "grants" && policy.May(a, policy.InfraChange, "") {
		projects := options.Query{
			Kind: "template-grants", ParentID: string(v.ID), Chosen: []string{templateview.GrantToAllProjects}, FormAddress: "/templates/" + string(v.ID) + "?tab=grants", ShowAll: c.QueryParam("all") != "",
		}
		if p.Projects, err = s.Options.Choices(ctx, a, projects); err != nil {
			return err
		}
	}
	if tab != "grants" {
		var pools []fleet.PoolID
		for _, x := range v.Versions {
			pools = append(pools, x.Spec.Pools()...)
		}
		slices.Sort(pools)
		if p.Pools, err = s.Control.PoolNames(ctx, a, slices.Compact(pools)); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, templatePageLayout(v), templateview.TemplatePage(p))
}

// SetTemplateGrant publishes a template to a project, or withdraws it from the project.
func (s *Site) SetTemplateGrant(c echo.Context, a fleet.Actor, in grantForm) (form.Response, error) {
	set := s.Control.GrantTemplate
	if in.Revoke != "" {
		set = s.Control.RevokeTemplate
	}
	id := templateIDFromPath(c)
	err := setGrant(c, a, set, id, in.Project)
	return form.Redraw(views.TabPath(views.TemplatePath(id), "grants"), func(c echo.Context) error { return s.ShowTemplateGrants(c, a, in, form.FirstDisplay) }), err
}

type templateForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
	Confirm     string `form:"confirm"`
}

func (in templateForm) view() templateview.FormValues {
	return templateview.FormValues{
		Name: in.Name, Description: in.Description, Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch, Confirm: in.Confirm,
	}
}

func (in templateForm) os() fleet.OSFacts {
	return form.NewOSFacts(in.Family, in.System, in.Release, in.Arch)
}

// TemplateDialog returns the handler that shows a dialog about the template in the path, or about the version in the
// query.
func (s *Site) TemplateDialog(show func(templateview.Form) templ.Component) form.Renderer[templateForm] {
	return func(c echo.Context, a fleet.Actor, in templateForm, how form.Display) error {
		v, err := s.Control.GetTemplate(c.Request().Context(), a, templateIDFromPath(c))
		if err != nil {
			return err
		}
		// An empty project ID means that the template belongs to a project that the user may not see.
		if err := policy.CheckOwner(a, v.ProjectID); err != nil {
			return err
		}
		f := templateview.Form{Template: v, In: in.view(), Errors: how.Errors}
		if !how.WasRefused() {
			f.In = templateview.FormValues{Name: v.Name, Description: v.Description, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch}
		}
		if id := c.QueryParam("version"); id != "" {
			if f.Version = v.Version(fleet.TemplateVersionID(id)); f.Version == nil {
				return fleet.Errorf(fleet.NotFound, "The template has no such version.")
			}
		}
		return s.ShowPageWithStatus(c, how.Status, a, templatePageLayout(v), show(f))
	}
}

// ConfirmDeleteTemplateVersion shows the dialog that deletes the version in the query, which must exist.
func (s *Site) ConfirmDeleteTemplateVersion(c echo.Context, a fleet.Actor, in templateForm, how form.Display) error {
	if c.QueryParam("version") == "" {
		return fleet.Errorf(fleet.NotFound, "The template has no such version.")
	}
	return s.TemplateDialog(templateview.DeleteVersionDialog)(c, a, in, how)
}

func (s *Site) EditTemplate(c echo.Context, a fleet.Actor, in templateForm) (form.Response, error) {
	name, description, os := strings.TrimSpace(in.Name), strings.TrimSpace(in.Description), in.os()
	err := s.Control.EditTemplate(c.Request().Context(), a, templateIDFromPath(c), control.EditTemplate{Name: &name, Description: &description, OS: &os})
	return form.StayOnPage(views.TemplatePath(templateIDFromPath(c)), "Saved."), err
}

func (s *Site) DeleteTemplate(c echo.Context, a fleet.Actor, in templateForm) (form.Response, error) {
	_, err := s.Control.DeleteTemplate(c.Request().Context(), a, templateIDFromPath(c), in.Confirm)
	return form.RedirectTo("/templates"), err
}

type deprecateVersionForm struct {
	Version    string `form:"version"`
	Deprecated string `form:"deprecated"`
}

func (s *Site) SetTemplateVersionDeprecated(c echo.Context, a fleet.Actor, in deprecateVersionForm) (form.Response, error) {
	of := control.TemplateVersion{TemplateID: templateIDFromPath(c), VersionID: fleet.TemplateVersionID(in.Version)}
	text := "VMs can be created from the version again."
	if in.Deprecated != "" {
		text = "The version is deprecated: no VM can be created from it."
	}
	return form.StayOnPage(views.TemplatePath(of.TemplateID), text), s.Control.DeprecateTemplateVersion(c.Request().Context(), a, of, in.Deprecated != "")
}

func (s *Site) DeleteTemplateVersion(c echo.Context, a fleet.Actor, in templateForm) (form.Response, error) {
	of := control.TemplateVersion{TemplateID: templateIDFromPath(c), VersionID: fleet.TemplateVersionID(c.QueryParam("version"))}
	_, err := s.Control.DeleteTemplateVersion(c.Request().Context(), a, of, in.Confirm)
	return form.StayOnPage(views.TemplatePath(of.TemplateID), "The version is deleted."), err
}

// TemplateMenu returns the handler of the template's action menu.
func (s *Site) TemplateMenu() func(echo.Context, fleet.Actor) error {
	return actionMenu(s, s.Control.GetTemplate, templatePageLayout, templateview.Actions)
}
