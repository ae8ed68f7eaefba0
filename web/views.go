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

func (s *Server) viewsPage(c echo.Context, a fleet.Actor) error {
	list := c.Param("list")
	query, _ := fleet.ViewQuery(list, c.QueryParams())
	return s.showViews(c, a, http.StatusOK, kit.SavedViewsPage{List: list, Query: query})
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

func (s *Server) saveView(c echo.Context, a fleet.Actor) error {
	in, err := decode[viewForm](c)
	if err != nil {
		return err
	}
	list := c.Param("list")
	view, err := s.Control.SaveView(c.Request().Context(), a, list, in.Name, in.Query)
	if e, status, ok := formErrors(err); ok {
		p := kit.SavedViewsPage{List: list, Query: in.kept(list), Name: in.Name, Errors: e, Focus: true}
		return s.showViews(c, a, formStatus(c, status), p)
	}
	if err != nil {
		return err
	}
	return s.viewsChanged(c, a, list, view.Query)
}

func (s *Server) deleteView(c echo.Context, a fleet.Actor) error {
	in, err := decode[viewForm](c)
	if err != nil {
		return err
	}
	view, err := s.Control.DeleteView(c.Request().Context(), a, fleet.ViewID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.viewsChanged(c, a, view.List, in.kept(view.List))
}

// viewsChanged gives the menu anew; without scripts it leads back to the list as it was shown.
func (s *Server) viewsChanged(c echo.Context, a fleet.Actor, list, query string) error {
	if isHX(c) {
		return s.showViews(c, a, http.StatusOK, kit.SavedViewsPage{List: list, Query: query, Focus: true})
	}
	return c.Redirect(http.StatusSeeOther, views.ListAddress(list, query))
}
