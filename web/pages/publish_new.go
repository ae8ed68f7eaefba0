package pages

import (
	"context"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/web/api"
	"quantix/web/form"
)

// publishForm are the fields of the forms of new pools and networks that publish them to projects.
type publishForm struct {
	To       string   `form:"publish"`
	Projects []string `form:"publishProject"`
	Names    string   `form:"publishNames"`
}

// setGrant calls set, which publishes an object to the project that a form chooses, or withdraws it.
func setGrant[I ~string](c echo.Context, a fleet.Actor, set func(context.Context, fleet.Actor, I, fleet.ProjectID) error, id I, project string) error {
	if project == "" {
		var checks fleet.Checks
		checks.Add("project", "Choose a project, or all projects.")
		return checks.Err()
	}
	return set(c.Request().Context(), a, id, api.ParseGrantProjectID(project))
}

// maxPublishBoxes is up to how many projects have checkboxes. With more projects, the form asks for names.
const maxPublishBoxes = 20

// publishFields returns the fields of the form as typed.
func (s *Site) publishFields(ctx context.Context, a fleet.Actor, in publishForm, noun string, how form.Display) (kit.PublishForm, error) {
	f := kit.PublishForm{Noun: noun, To: in.To, Names: in.Names, Chosen: map[string]bool{}, Error: how.Errors.ForFieldOrBelow("publish")}
	for _, id := range in.Projects {
		f.Chosen[id] = true
	}
	projects, err := s.Control.ListProjects(ctx, a, fleet.Query{Limit: maxPublishBoxes})
	if err != nil || projects.Next != "" {
		return f, err
	}
	for _, p := range projects.Items {
		f.Projects = append(f.Projects, kit.Option{Value: string(p.ID), Text: p.Name})
	}
	return f, nil
}

// publishTo returns the projects that the form chooses.
func (s *Site) publishTo(ctx context.Context, a fleet.Actor, in publishForm) ([]string, error) {
	switch in.To {
	case kit.GrantToAllProjects:
		return []string{kit.GrantToAllProjects}, nil
	case kit.PublishToSome:
	default:
		return nil, nil
	}
	var checks fleet.Checks
	out := slices.Clone(in.Projects)
	for name := range strings.SplitSeq(in.Names, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		found, err := s.projectNamed(ctx, a, name)
		if err != nil {
			return nil, err
		}
		if found == "" {
			checks.Add("publish", "There is no project “%s”.", name)
			continue
		}
		out = append(out, string(found))
	}
	if len(out) == 0 && checks.Err() == nil {
		checks.Add("publish", "Choose at least one project, or another choice.")
	}
	return out, checks.Err()
}

func (s *Site) projectNamed(ctx context.Context, a fleet.Actor, name string) (fleet.ProjectID, error) {
	if strings.ContainsAny(name, `"\`) {
		return "", nil
	}
	page, err := s.Control.ListProjects(ctx, a, fleet.Query{Filter: `name:"` + name + `"`, Limit: 50})
	for _, p := range page.Items {
		if strings.EqualFold(p.Name, name) {
			return p.ID, err
		}
	}
	return "", err
}
