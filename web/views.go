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

// viewForm is the form of a list's saved views. Query is the URL query of the list as shown.
type viewForm struct {
	Name  string `form:"name"`
	Query string `form:"query"`
}

// savedQuery returns the part of Query that a saved view stores.
func (in viewForm) savedQuery(list string) string {
	address, _ := url.ParseQuery(in.Query) // unreadable parts are ignored
	query, _ := fleet.ViewQuery(list, address)
	return query
}

// viewsPage shows the menu of a list's saved views, with the form that saves another one.
func (s *Server) viewsPage(c echo.Context, a fleet.Actor, in viewForm, how formState) error {
	p := kit.SavedViewsPage{List: c.Param("list"), Name: in.Name, Errors: how.errors, Focus: how.wasRefused()}
	if how.wasRefused() {
		p.Query = in.savedQuery(p.List)
	} else {
		p.Query, _ = fleet.ViewQuery(p.List, c.QueryParams())
	}
	return s.showViews(c, a, how.status, p)
}

// showViews answers with the saved views of a list: as its menu, or as a separate page.
func (s *Server) showViews(c echo.Context, a fleet.Actor, status int, p kit.SavedViewsPage) (err error) {
	if p.Views, err = s.Control.ListViews(c.Request().Context(), a, p.List); err != nil {
		return err
	}
	if isHTMX(c) {
		return s.writePage(c, status, kit.ViewsMenu(p))
	}
	return s.showPageWithStatus(c, status, a, shell.Frame{Title: "Saved views"}, kit.SavedViews(p))
}

func (s *Server) saveView(c echo.Context, a fleet.Actor, in viewForm) (formResponse, error) {
	view, err := s.Control.SaveView(c.Request().Context(), a, c.Param("list"), in.Name, in.Query)
	return s.redrawViews(a, c.Param("list"), view.Query), err
}

func (s *Server) deleteView(c echo.Context, a fleet.Actor, in viewForm) (formResponse, error) {
	view, err := s.Control.DeleteView(c.Request().Context(), a, fleet.ViewID(c.Param("id")))
	return s.redrawViews(a, view.List, in.savedQuery(view.List)), err
}

// redrawViews redraws the menu; without scripts it redirects to the list as shown.
func (s *Server) redrawViews(a fleet.Actor, list, query string) formResponse {
	return redrawForm(views.ListAddress(list, query), func(c echo.Context) error {
		return s.showViews(c, a, http.StatusOK, kit.SavedViewsPage{List: list, Query: query, Focus: true})
	})
}
