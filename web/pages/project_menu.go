package pages

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

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
	p := shell.ProjectSwitcher{
		Back: linkIfFilterableByProject(c.QueryParam("back")), Project: fleet.ProjectID(c.QueryParam("project")), Text: strings.TrimSpace(c.QueryParam("q")),
	}
	if err := s.fillProjectSwitcher(c, a, &p); err != nil {
		return err
	}
	switch {
	case render.HTMXTarget(c) == "switch-links":
		return s.WritePage(c, http.StatusOK, shell.ProjectSwitcherLinks(p))
	case render.IsHTMXRequest(c):
		return s.WritePage(c, http.StatusOK, shell.ProjectSwitcherList(p))
	}
	const title = "Choose a project"
	return s.ShowPage(c, a, shell.PageLayout{Title: title, Project: p.Project}, shell.FragmentPage(title, shell.ProjectSwitcherList(p)))
}

// fillProjectSwitcher reads the projects that the menu shows. There may be ten thousand of them.
func (s *Site) fillProjectSwitcher(c echo.Context, a fleet.Actor, p *shell.ProjectSwitcher) error {
	ctx, q := c.Request().Context(), fleet.Query{Limit: shell.MaxProjectsShown}
	if strings.ContainsAny(p.Text, `"\`) {
		return nil // no project has such a name
	}
	if p.Text != "" {
		q.Filter = strconv.Quote(p.Text)
	}
	page, err := s.Control.ListProjects(ctx, a, q)
	if err != nil {
		return err
	}
	p.Projects, p.More = page.Items, page.Next != ""
	p.AllShown = p.Text == "" && len(p.Projects) <= maxMenuProjects
	if p.Text != "" || p.AllShown {
		return nil
	}
	for _, id := range render.RecentProjects(c) {
		project, err := s.Control.GetProject(ctx, a, id)
		switch code := fleet.CodeOf(err); {
		case err == nil:
			p.Recent = append(p.Recent, project)
		case code != fleet.NotFound && code != fleet.Forbidden: // a project that was deleted, or that the user left
			return err
		}
	}
	return nil
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
