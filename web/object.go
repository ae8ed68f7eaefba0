package web

import (
	"context"
	"slices"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
)

// tabOf reads which view of an object's page is asked for; the first of all is its own.
func tabOf(c echo.Context, all []string, noun string) (string, error) {
	tab := c.QueryParam("tab")
	switch {
	case tab == "":
		return all[0], nil
	case !slices.Contains(all, tab):
		return "", fleet.Errorf(fleet.NotFound, "The page of a %s has no view %q.", noun, tab)
	}
	return tab, nil
}

// linkOf is the address of an object's page as it is shown.
func linkOf(c echo.Context) kit.Link {
	return kit.Link{Path: c.Request().URL.Path, Query: c.QueryParams()}.Without("tree", "dock")
}

// statusesOf is the page of a matrix that the address asks for, under counters of all its cells. A filter that cannot be understood is no
// error: the page explains it.
func statusesOf[T any](c echo.Context, tones fleet.SeverityCounts, list func(fleet.Query) (fleet.Page[T], error)) (kit.HostStatuses[T], error) {
	q := queryOf(c)
	q.Sort, q.Limit = "", kit.HostStatusesShown
	page, err := list(q)
	wrong, err := wrongFilter(err)
	return kit.HostStatuses[T]{Items: page.Items, SeverityCounts: tones, Prev: page.Prev, Next: page.Next, Filter: q.Filter, Error: wrong}, err
}

// getting reads the object with that id, for those who may see it.
type getting[ID ~string, T any] func(ctx context.Context, a fleet.Actor, id ID) (T, error)

// menu is the route of an object's menu: what acts say can be asked of it.
func menu[ID ~string, T any](s *Server, get getting[ID, T], frame func(T) shell.Frame, acts func(fleet.Actor, T) []kit.Act) handler {
	return func(c echo.Context, a fleet.Actor) error {
		object, err := get(c.Request().Context(), a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		return s.part(c, a, frame(object).Title, kit.Acts(acts(a, object)))
	}
}

// confirm is the dialog that asks whether something shall be done to the object: mostly, whether it shall go.
func confirm[ID ~string, T any](s *Server, get getting[ID, T], frame func(T) shell.Frame, dialog func(T, kit.Errors) templ.Component) asking[none] {
	return func(c echo.Context, a fleet.Actor, _ none, how asked) error {
		object, err := get(c.Request().Context(), a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		return s.showAs(c, how.status, a, frame(object), dialog(object, how.errors))
	}
}
