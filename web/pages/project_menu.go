package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// maxMenuProjects is the maximum number of projects that the menu shows without a search field.
const maxMenuProjects = 12

// ShowProjectMenu shows the projects that lists can be filtered by: in the top bar's menu, and as a page without
// scripts.
func (s *Site) ShowProjectMenu(c echo.Context, a fleet.Actor) error {
	all, err := query.ReadAllPages(c.Request().Context(), a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	p := shell.ProjectSwitcher{
		Back: linkIfFilterableByProject(c.QueryParam("back")), Project: fleet.ProjectID(c.QueryParam("project")),
		Text: strings.TrimSpace(c.QueryParam("q")), AllShown: len(all) <= maxMenuProjects,
	}
	part := strings.ToLower(p.Text)
	p.Projects = slices.DeleteFunc(all, func(x fleet.Project) bool { return !strings.Contains(x.Name, part) })
	switch {
	case render.HTMXTarget(c) == "switch-links":
		return s.WritePage(c, http.StatusOK, shell.ProjectSwitcherLinks(p))
	case render.IsHTMXRequest(c):
		return s.WritePage(c, http.StatusOK, shell.ProjectSwitcherList(p))
	}
	const title = "Choose a project"
	return s.ShowPage(c, a, shell.PageLayout{Title: title, Project: p.Project}, shell.FragmentPage(title, shell.ProjectSwitcherList(p)))
}

// linkIfFilterableByProject returns the address as a link if it is a list that can be filtered by project, else the
// zero Link.
func linkIfFilterableByProject(address string) kit.Link {
	u, err := url.Parse(render.LocalPathOrRoot(address))
	if err != nil || !shell.HasProjectFilter(u.Path) {
		return kit.Link{}
	}
	return kit.Link{Path: u.Path, Query: u.Query()}
}
