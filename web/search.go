package web

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views/home"
	"quantix/views/shell"
)

const (
	suggested = 4 // results per resource type below the search box
	searched  = 8 // results per resource type on the search page
)

func (s *Server) lookUp(c echo.Context, a fleet.Actor, limit int) (home.SearchPage, error) {
	p := home.SearchPage{Text: strings.TrimSpace(c.QueryParam("q"))}
	if p.Text == "" {
		return p, nil
	}
	var err error
	if p.Found, err = s.Control.Search(c.Request().Context(), a, p.Text, limit); err != nil {
		return p, err
	}
	p.Help = docs.Open().Search(p.Text, limit)
	return p, nil
}

func (s *Server) searchPage(c echo.Context, a fleet.Actor) error {
	p, err := s.lookUp(c, a, searched)
	if err != nil {
		return err
	}
	return s.show(c, a, shell.Frame{Title: "Search"}, home.Search(p))
}

func (s *Server) suggest(c echo.Context, a fleet.Actor) error {
	p, err := s.lookUp(c, a, suggested)
	if err != nil {
		return err
	}
	return s.part(c, a, "Search", home.Suggestions(p))
}

// complete suggests completions of a list's filter. The query parameter q is the filter's text up to the caret.
func (s *Server) complete(c echo.Context, a fleet.Actor) error {
	list, err := s.Control.Complete(c.Request().Context(), a, c.QueryParam("noun"), c.QueryParam("q"))
	if err != nil {
		return err
	}
	out := make([]home.Completion, len(list))
	for i, x := range list {
		out[i] = home.Completion(x)
	}
	return s.part(c, a, "Filter", home.Completions(out))
}
