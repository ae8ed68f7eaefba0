package pages

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// requestedTab returns the requested tab of an object's page. The first tab is the default.
func requestedTab(c echo.Context, all []string, resource string) (string, error) {
	tab := c.QueryParam("tab")
	switch {
	case tab == "":
		return all[0], nil
	case !slices.Contains(all, tab):
		return "", fleet.Errorf(fleet.NotFound, "The page of a %s has no view %q.", resource, tab)
	}
	return tab, nil
}

// readHostStatuses returns the requested page of an object's host statuses, with the number of hosts by severity
// (tones). For an invalid filter it returns no error; the result then contains the reason.
func readHostStatuses[T any](c echo.Context, tones fleet.SeverityCounts, list func(fleet.Query) (fleet.Page[T], error)) (kit.HostStatuses[T], error) {
	q := render.QueryFromURL(c)
	q.Sort, q.Limit = "", kit.MaxHostStatusesShown
	page, err := list(q)
	wrong, err := render.SplitFilterError(err)
	return kit.HostStatuses[T]{Items: page.Items, SeverityCounts: tones, Prev: page.Prev, Next: page.Next, Filter: q.Filter, Error: wrong}, err
}

// objectGetter reads the object with an id. It returns NotFound for an object that the actor may not see.
type objectGetter[ID ~string, T any] func(ctx context.Context, a fleet.Actor, id ID) (T, error)

// actionMenu returns the handler of an object's action menu. acts returns the menu's actions.
func actionMenu[ID ~string, T any](s *Site, get objectGetter[ID, T], frame func(T) shell.PageLayout, acts func(fleet.Actor, T) []kit.ActionButton) func(echo.Context, fleet.Actor) error {
	return func(c echo.Context, a fleet.Actor) error {
		object, err := get(c.Request().Context(), a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		return s.WriteFragment(c, a, frame(object).Title, kit.MenuItems(acts(a, object)))
	}
}
