package pages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/static/docs"
	"quantix/views/home"
	"quantix/views/shell"
)

const (
	maxSuggestions   = 4 // results per resource type below the search box
	maxSearchResults = 8 // results per resource type on the search page
)

func (s *Site) searchAll(c echo.Context, a fleet.Actor, limit int) (home.SearchPage, error) {
	p := home.SearchPage{Text: strings.TrimSpace(c.QueryParam("q"))}
	if p.Text == "" {
		return p, nil
	}
	var err error
	if p.Hits, err = s.Control.Search(c.Request().Context(), a, p.Text, limit); err != nil {
		return p, err
	}
	p.Help = docs.Open().Search(p.Text, limit)
	return p, nil
}

func (s *Site) SearchPage(c echo.Context, a fleet.Actor) error {
	p, err := s.searchAll(c, a, maxSearchResults)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Search"}, home.SearchResults(p))
}

func (s *Site) SuggestSearchResults(c echo.Context, a fleet.Actor) error {
	p, err := s.searchAll(c, a, maxSuggestions)
	if err != nil {
		return err
	}
	return s.WriteFragment(c, a, "Search", home.SearchSuggestions(p))
}

// CompleteFilter suggests completions of a list's filter. The query parameter q is the filter's text up to the caret.
func (s *Site) CompleteFilter(c echo.Context, a fleet.Actor) error {
	list, err := s.Control.Complete(c.Request().Context(), a, c.QueryParam("noun"), c.QueryParam("q"))
	if err != nil {
		return err
	}
	out := make([]home.FilterCompletion, len(list))
	for i, x := range list {
		out[i] = home.FilterCompletion(x)
	}
	return s.WriteFragment(c, a, "Filter", home.FilterCompletions(out))
}
