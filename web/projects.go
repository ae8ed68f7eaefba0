package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/browse"
	"quantix/internal/control/people"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

func (s *Server) listProjects(c echo.Context, a fleet.Actor) error {
	projects, err := browse.Every(c.Request().Context(), a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	return s.show(c, a, views.Frame{Title: "Projects"}, views.Projects(views.ProjectsPage{Actor: a, Projects: projects}))
}

func projectFrame(p fleet.Project) views.Frame {
	return views.Frame{Title: p.Name, Project: p.ID, ProjectName: p.Name, Here: []string{"project:" + string(p.ID)}}
}

func (s *Server) projectPage(c echo.Context, a fleet.Actor) error {
	return s.showProject(c, a, http.StatusOK, views.MemberForm{Role: string(fleet.RoleMember)})
}

func (s *Server) showProject(c echo.Context, a fleet.Actor, status int, f views.MemberForm) error {
	ctx, id := c.Request().Context(), fleet.ProjectID(c.Param("id"))
	project, err := s.Control.GetProject(ctx, a, id)
	if err != nil {
		return err
	}
	members, err := s.Control.ListMembers(ctx, a, id)
	if err != nil {
		return err
	}
	p := views.ProjectPage{Actor: a, Project: project, Add: f}
	for _, m := range members {
		p.Members = append(p.Members, views.MemberRow{UserID: m.UserID, Name: m.Name, Role: m.Role})
	}
	if policy.May(a, policy.Manage, "") {
		users := pick{noun: "members", of: string(id), now: []string{f.User}, page: "/projects/" + string(id), all: c.QueryParam("all") != ""}
		if p.Add.Users, err = s.choose(ctx, a, users); err != nil {
			return err
		}
	}
	return s.showAs(c, status, a, projectFrame(project), views.Project(p))
}

type memberForm struct {
	User string `form:"user"`
	Role string `form:"role"`
}

// setMember gives a role in the project; an empty one takes it away.
func (s *Server) setMember(c echo.Context, a fleet.Actor) error {
	in, err := decode[memberForm](c)
	if err != nil {
		return err
	}
	id := fleet.ProjectID(c.Param("id"))
	err = s.Control.SetMember(c.Request().Context(), a, id, fleet.UserID(in.User), fleet.Role(in.Role))
	if e, status, ok := formErrors(err); ok {
		return s.showProject(c, a, formStatus(c, status), views.MemberForm{User: in.User, Role: in.Role, Errors: e})
	}
	if err != nil {
		return err
	}
	if target(c) == "" {
		return c.Redirect(http.StatusSeeOther, views.ProjectPath(id))
	}
	return s.projectPage(c, a)
}

type projectForm struct {
	Name        string `form:"name"`
	Description string `form:"description"`
}

func (s *Server) newProject(c echo.Context, a fleet.Actor) error {
	return s.show(c, a, views.Frame{Title: "New project"}, views.ProjectEdit(views.ProjectForm{}))
}

func (s *Server) createProject(c echo.Context, a fleet.Actor) error {
	return s.saveProject(c, a, "", func(ctx context.Context, in people.ProjectInput) (fleet.Project, error) {
		return s.Control.CreateProject(ctx, a, in)
	})
}

func (s *Server) editProjectPage(c echo.Context, a fleet.Actor) error {
	p, err := s.Control.GetProject(c.Request().Context(), a, fleet.ProjectID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.show(c, a, projectFrame(p), views.ProjectEdit(views.ProjectForm{ID: p.ID, Name: p.Name, Description: p.Description}))
}

func (s *Server) editProject(c echo.Context, a fleet.Actor) error {
	id := fleet.ProjectID(c.Param("id"))
	return s.saveProject(c, a, id, func(ctx context.Context, in people.ProjectInput) (fleet.Project, error) {
		return s.Control.UpdateProject(ctx, a, id, in)
	})
}

func (s *Server) saveProject(c echo.Context, a fleet.Actor, id fleet.ProjectID, save func(context.Context, people.ProjectInput) (fleet.Project, error)) error {
	in, err := decode[projectForm](c)
	if err != nil {
		return err
	}
	p, err := save(c.Request().Context(), people.ProjectInput{Name: strings.TrimSpace(in.Name), Description: in.Description})
	if e, status, ok := formErrors(err); ok {
		f := views.ProjectForm{ID: id, Name: in.Name, Description: in.Description, Errors: e}
		return s.showAs(c, formStatus(c, status), a, views.Frame{Title: "Project"}, views.ProjectEdit(f))
	}
	if err != nil {
		return err
	}
	return s.leave(c, views.ProjectPath(p.ID))
}

func (s *Server) deleteProjectPage(c echo.Context, a fleet.Actor) error {
	return s.askDeleteProject(c, a, http.StatusOK, views.Errors{})
}

func (s *Server) askDeleteProject(c echo.Context, a fleet.Actor, status int, e views.Errors) error {
	p, err := s.Control.GetProject(c.Request().Context(), a, fleet.ProjectID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, projectFrame(p), views.ProjectDelete(p, e))
}

func (s *Server) deleteProject(c echo.Context, a fleet.Actor) error {
	err := s.Control.DeleteProject(c.Request().Context(), a, fleet.ProjectID(c.Param("id")))
	if e, status, ok := formErrors(err); ok {
		return s.askDeleteProject(c, a, formStatus(c, status), e)
	}
	if err != nil {
		return err
	}
	return s.leave(c, "/projects")
}
