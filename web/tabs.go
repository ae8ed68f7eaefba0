package web

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
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
func linkOf(c echo.Context) views.Link {
	return views.Link{Path: c.Request().URL.Path, Query: c.QueryParams()}.Without("tree", "dock")
}
