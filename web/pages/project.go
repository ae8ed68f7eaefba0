package pages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	peopleview "quantix/views/people"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/options"
)

func projectPageLayout(p fleet.Project) shell.PageLayout {
	return shell.PageLayout{Title: p.Name, Project: p.ID, ProjectName: p.Name, ObjectKeys: []string{"project:" + string(p.ID)}}
}

type memberForm struct {
	User string `form:"user"`
	Role string `form:"role"`
}

// ProjectPage shows a project, with the form that adds a member.
func (s *Site) ProjectPage(c echo.Context, a fleet.Actor, in memberForm, how form.Display) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return err
	}
	members, err := s.Control.ListMembers(ctx, a, id)
	if err != nil {
		return err
	}
	p := peopleview.ProjectPage{Actor: a, Project: project, MemberForm: peopleview.MemberForm{User: in.User, Role: in.Role, Errors: how.Errors}}
	if !how.WasRefused() {
		p.MemberForm.Role = string(fleet.RoleMember)
	}
	for _, m := range members {
		p.Members = append(p.Members, peopleview.MemberRow{UserID: m.UserID, Name: m.Name, Role: m.Role})
	}
	if policy.May(a, policy.Manage, "") {
		users := options.Query{Kind: "members", ParentID: string(id), Chosen: []string{in.User}, FormAddress: "/projects/" + string(id), ShowAll: c.QueryParam("all") != ""}
		if p.MemberForm.Users, err = s.Options.Choices(ctx, a, users); err != nil {
			return err
		}
	}
	return s.ShowPageWithStatus(c, how.Status, a, projectPageLayout(project), peopleview.ProjectBody(p))
}

// SetMember sets a user's role in the project. An empty role removes the member.
func (s *Site) SetMember(c echo.Context, a fleet.Actor, in memberForm) (form.Response, error) {
	id := fleet.ProjectID(c.Param("id"))
	err := s.Control.SetMember(c.Request().Context(), a, id, fleet.UserID(in.User), fleet.Role(in.Role))
	return form.Redraw(views.ProjectPath(id), func(c echo.Context) error { return s.ProjectPage(c, a, memberForm{}, form.FirstDisplay) }), err
}

type projectForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
	Pool        string `form:"defaultPoolId"`
	Network     string `form:"defaultNetworkId"`
}

func (in projectForm) input() identity.ProjectInput {
	return identity.ProjectInput{
		Name: strings.TrimSpace(in.Name), Description: in.Description, DefaultPoolID: fleet.PoolID(in.Pool), DefaultNetworkID: fleet.NetworkID(in.Network),
	}
}

// ShowProjectForm shows the form of the project in the path, or of a new project.
func (s *Site) ShowProjectForm(c echo.Context, a fleet.Actor, in projectForm, how form.Display) error {
	ctx, id, f := c.Request().Context(), fleet.ProjectID(c.Param("id")), shell.PageLayout{Title: "New project"}
	if id != "" {
		p, err := s.Control.GetProject(ctx, a, id)
		if err != nil {
			return err
		}
		f = projectPageLayout(p)
		if !how.WasRefused() {
			in = projectForm{p.Name, p.Description, string(p.DefaultPoolID), string(p.DefaultNetworkID)}
		}
	}
	out := peopleview.ProjectForm{ID: id, Name: in.Name, Description: in.Description, Pool: in.Pool, Network: in.Network, Errors: how.Errors}
	page, all := views.ProjectPath(id, "edit"), c.QueryParam("all") != ""
	var err error
	if out.Pools, err = s.Options.Choices(ctx, a, options.Query{Kind: "default-pools", ParentID: string(id), Chosen: []string{in.Pool}, FormAddress: page, ShowAll: all}); err == nil {
		out.Networks, err = s.Options.Choices(ctx, a, options.Query{Kind: "default-networks", ParentID: string(id), Chosen: []string{in.Network}, FormAddress: page, ShowAll: all})
	}
	if err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, f, peopleview.ProjectEditForm(out))
}

func (s *Site) CreateProject(c echo.Context, a fleet.Actor, in projectForm) (form.Response, error) {
	p, err := s.Control.CreateProject(c.Request().Context(), a, in.input())
	return form.RedirectTo(views.ProjectPath(p.ID)), err
}

func (s *Site) EditProject(c echo.Context, a fleet.Actor, in projectForm) (form.Response, error) {
	p, err := s.Control.UpdateProject(c.Request().Context(), a, fleet.ProjectID(c.Param("id")), in.input())
	return form.RedirectTo(views.ProjectPath(p.ID)), err
}

func (s *Site) ConfirmDeleteProject() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetProject, projectPageLayout, peopleview.ProjectDeleteDialog)
}

func (s *Site) DeleteProject(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/projects"), s.Control.DeleteProject(c.Request().Context(), a, fleet.ProjectID(c.Param("id")))
}
