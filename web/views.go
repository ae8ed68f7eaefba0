package web

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
)

// viewForm is what the menu of a list's views sends. Query is of the list as it is shown.
type viewForm struct {
	Name  string `form:"name"`
	Query string `form:"query"`
}

// kept is what the form's list keeps of the address that it came from.
func (in viewForm) kept(list string) string {
	address, _ := url.ParseQuery(in.Query) // what cannot be read is left out
	query, _ := fleet.ViewQuery(list, address)
	return query
}

// viewsPage is the menu of a list's views, with the form that keeps one more.
func (s *Server) viewsPage(c echo.Context, a fleet.Actor, in viewForm, how asked) error {
	p := kit.SavedViewsPage{List: c.Param("list"), Name: in.Name, Errors: how.errors, Focus: how.again()}
	if how.again() {
		p.Query = in.kept(p.List)
	} else {
		p.Query, _ = fleet.ViewQuery(p.List, c.QueryParams())
	}
	return s.showViews(c, a, how.status, p)
}

// showViews answers with the views of a list: its menu, or a page of their own.
func (s *Server) showViews(c echo.Context, a fleet.Actor, status int, p kit.SavedViewsPage) (err error) {
	if p.Views, err = s.Control.ListViews(c.Request().Context(), a, p.List); err != nil {
		return err
	}
	if isHX(c) {
		return s.write(c, status, kit.ViewsMenu(p))
	}
	return s.showAs(c, status, a, shell.Frame{Title: "Saved views"}, kit.SavedViews(p))
}

func (s *Server) saveView(c echo.Context, a fleet.Actor, in viewForm) (end, error) {
	view, err := s.Control.SaveView(c.Request().Context(), a, c.Param("list"), in.Name, in.Query)
	return s.viewsChanged(a, c.Param("list"), view.Query), err
}

func (s *Server) deleteView(c echo.Context, a fleet.Actor, in viewForm) (end, error) {
	view, err := s.Control.DeleteView(c.Request().Context(), a, fleet.ViewID(c.Param("id")))
	return s.viewsChanged(a, view.List, in.kept(view.List)), err
}

// viewsChanged gives the menu anew; without scripts it leads back to the list as it was shown.
func (s *Server) viewsChanged(a fleet.Actor, list, query string) end {
	return redraw(views.ListAddress(list, query), func(c echo.Context) error {
		return s.showViews(c, a, http.StatusOK, kit.SavedViewsPage{List: list, Query: query, Focus: true})
	})
}
