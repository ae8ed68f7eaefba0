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
	"quantix/views/kit"
	"quantix/views/shell"
	templateview "quantix/views/template"
	"quantix/web/api"
)

func (s *Server) listTemplates(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter templates", Placeholder: "system:debian project:web published:yes"}
	p := &templateview.ListPage{List: s.newList(c, "templates", "name", templateview.Columns, f), Actor: a}
	if p.Templates, err = fillList(c, a, &p.List, queryFromURL(c), s.Control.ListTemplates); err != nil {
		return err
	}
	return s.showList(c, a, shell.PageLayout{Title: "Templates"}, p.List, templateview.List(p))
}

func (s *Server) exportTemplates(c echo.Context, _ fleet.Actor) error {
	return exportCSV(s, c, "templates.csv", queryFromURL(c), s.Control.ListTemplates, templateview.CSV)
}

func templatePageLayout(v fleet.TemplateView) shell.PageLayout {
	return shell.PageLayout{Title: v.Name, ObjectKeys: []string{string(fleet.SubjectTemplate(v.ID))}}
}

func templateIDOf(c echo.Context) fleet.TemplateID { return fleet.TemplateID(c.Param("id")) }

// templatePage shows a template. One tab has the form that publishes the template to a project.
func (s *Server) templatePage(c echo.Context, a fleet.Actor, _ grantForm, how formDisplay) error {
	tab, err := requestedTab(c, templateview.Tabs(), "template")
	if err != nil {
		return err
	}
	return s.showTemplate(c, a, tab, how)
}

func (s *Server) showTemplateGrants(c echo.Context, a fleet.Actor, _ grantForm, how formDisplay) error {
	return s.showTemplate(c, a, "grants", how)
}

func (s *Server) showTemplate(c echo.Context, a fleet.Actor, tab string, how formDisplay) error {
	ctx := c.Request().Context()
	v, err := s.Control.GetTemplate(ctx, a, templateIDOf(c))
	if err != nil {
		return err
	}
	p := templateview.Page{Actor: a, Link: linkToCurrentPage(c), Tab: tab, Template: v, Now: time.Now(), Errors: how.errors}
	if tab == "grants" && policy.May(a, policy.InfraChange, "") {
		projects := optionQuery{
			kind: "template-grants", parentID: string(v.ID), chosen: []string{templateview.GrantToAllProjects}, formAddress: "/templates/" + string(v.ID) + "?tab=grants", showAll: c.QueryParam("all") != "",
		}
		if p.Projects, err = s.selectOptions(ctx, a, projects); err != nil {
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
	return s.showPageWithStatus(c, how.status, a, templatePageLayout(v), templateview.TemplatePage(p))
}

// setTemplateGrant publishes a template to a project, or withdraws it.
func (s *Server) setTemplateGrant(c echo.Context, a fleet.Actor, in grantForm) (formResponse, error) {
	set := s.Control.GrantTemplate
	if in.Revoke != "" {
		set = s.Control.RevokeTemplate
	}
	id := templateIDOf(c)
	err := set(c.Request().Context(), a, id, api.GrantProjectID(in.Project))
	return redrawForm(views.TabPath(views.TemplatePath(id), "grants"), func(c echo.Context) error { return s.showTemplateGrants(c, a, in, firstDisplay) }), err
}

type templateForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Family      string `form:"family"`
	System      string `form:"system"`
	Release     string `form:"release"`
	Arch        string `form:"arch"`
	To          string `form:"to"`
	Disks       string `form:"disks"`
	Note        string `form:"note"`
	Confirm     string `form:"confirm"`
}

func (in templateForm) view() templateview.FormValues {
	return templateview.FormValues{
		Name: in.Name, Description: in.Description, Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch, To: in.To, Note: in.Note, Confirm: in.Confirm,
		OfImages: in.Disks == "images",
	}
}

func (in templateForm) os() fleet.OSFacts {
	return imageForm{Family: in.Family, System: in.System, Release: in.Release, Arch: in.Arch}.os()
}

// showTemplateForm shows the form that creates a template from the VM in the path.
func (s *Server) showTemplateForm(c echo.Context, a fleet.Actor, in templateForm, how formDisplay) error {
	p, err := s.readVMPage(c, a, "")
	if err != nil {
		return err
	}
	if err := policy.Check(a, policy.VMChange, p.VM.ProjectID); err != nil {
		return err
	}
	f := templateview.Form{VM: p.VM, In: in.view(), Errors: how.errors}
	if !how.wasRefused() {
		ok, _ := p.VM.AllowsTemplate()
		f.In.OfImages = !ok
	}
	// A new version belongs to a template of the same project. The form offers the first few hundred templates; the API
	// accepts all ids.
	own, err := s.Control.ListTemplates(c.Request().Context(), a, fleet.Query{Filter: "project:" + strconv.Quote(p.VM.ProjectName), Limit: 200})
	if err != nil {
		return err
	}
	for _, v := range own.Items {
		if v.ProjectID == p.VM.ProjectID {
			f.OwnTemplates = append(f.OwnTemplates, v)
		}
	}
	return s.showPageWithStatus(c, how.status, a, vmPageLayout(p.VM), templateview.CreateForm(f))
}

func (s *Server) createTemplate(c echo.Context, a fleet.Actor, in templateForm) (formResponse, error) {
	ctx := c.Request().Context()
	of := control.TemplateSource{VMID: fleet.VMID(c.Param("id")), OfImages: in.Disks == "images", Note: strings.TrimSpace(in.Note)}
	if to := fleet.TemplateID(in.To); to != "" {
		_, err := s.Control.AddTemplateVersion(ctx, a, to, of)
		return redirectTo(views.TemplatePath(to)), err
	}
	id, _, err := s.Control.AddTemplate(ctx, a, control.NewTemplate{
		Name: strings.TrimSpace(in.Name), Description: strings.TrimSpace(in.Description), OS: in.os(), TemplateSource: of,
	})
	return redirectTo(views.TemplatePath(id)), err
}

// templateDialog returns the handler that shows a dialog about the template in the path, or about the version in the
// query.
func (s *Server) templateDialog(show func(templateview.Form) templ.Component) formRenderer[templateForm] {
	return func(c echo.Context, a fleet.Actor, in templateForm, how formDisplay) error {
		v, err := s.Control.GetTemplate(c.Request().Context(), a, templateIDOf(c))
		if err != nil {
			return err
		}
		right := policy.VMChange
		if v.ProjectID == "" { // the template belongs to a project that the user may not see
			right = policy.InfraChange
		}
		if err := policy.Check(a, right, v.ProjectID); err != nil {
			return err
		}
		f := templateview.Form{Template: v, In: in.view(), Errors: how.errors}
		if !how.wasRefused() {
			f.In = templateview.FormValues{Name: v.Name, Description: v.Description, Family: v.OS.Family, System: v.OS.Name, Release: v.OS.Version, Arch: v.OS.Arch}
		}
		if id := c.QueryParam("version"); id != "" {
			if f.Version = v.Version(fleet.TemplateVersionID(id)); f.Version == nil {
				return fleet.Errorf(fleet.NotFound, "The template has no such version.")
			}
		}
		return s.showPageWithStatus(c, how.status, a, templatePageLayout(v), show(f))
	}
}

// confirmDeleteTemplateVersion shows the dialog that deletes the version in the query, which must exist.
func (s *Server) confirmDeleteTemplateVersion(c echo.Context, a fleet.Actor, in templateForm, how formDisplay) error {
	if c.QueryParam("version") == "" {
		return fleet.Errorf(fleet.NotFound, "The template has no such version.")
	}
	return s.templateDialog(templateview.DeleteVersionDialog)(c, a, in, how)
}

func (s *Server) editTemplate(c echo.Context, a fleet.Actor, in templateForm) (formResponse, error) {
	name, description, os := strings.TrimSpace(in.Name), strings.TrimSpace(in.Description), in.os()
	err := s.Control.EditTemplate(c.Request().Context(), a, templateIDOf(c), control.EditTemplate{Name: &name, Description: &description, OS: &os})
	return stayOnPage(views.TemplatePath(templateIDOf(c)), "Saved."), err
}

func (s *Server) deleteTemplate(c echo.Context, a fleet.Actor, in templateForm) (formResponse, error) {
	_, err := s.Control.DeleteTemplate(c.Request().Context(), a, templateIDOf(c), in.Confirm)
	return redirectTo("/templates"), err
}

type deprecateForm struct {
	Version    string `form:"version"`
	Deprecated string `form:"deprecated"`
}

func (s *Server) deprecateVersion(c echo.Context, a fleet.Actor, in deprecateForm) (formResponse, error) {
	of := control.TemplateVersion{TemplateID: templateIDOf(c), VersionID: fleet.TemplateVersionID(in.Version)}
	text := "VMs can be created from the version again."
	if in.Deprecated != "" {
		text = "The version is deprecated: no VM can be created from it."
	}
	return stayOnPage(views.TemplatePath(of.TemplateID), text), s.Control.DeprecateTemplateVersion(c.Request().Context(), a, of, in.Deprecated != "")
}

func (s *Server) deleteTemplateVersion(c echo.Context, a fleet.Actor, in templateForm) (formResponse, error) {
	of := control.TemplateVersion{TemplateID: templateIDOf(c), VersionID: fleet.TemplateVersionID(c.QueryParam("version"))}
	_, err := s.Control.DeleteTemplateVersion(c.Request().Context(), a, of, in.Confirm)
	return stayOnPage(views.TemplatePath(of.TemplateID), "The version is deleted."), err
}
