package pages

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

// savedViewForm is the form that saves or deletes a view of a list. Query is the URL query of the list as shown.
type savedViewForm struct {
	Name  string `form:"name"`
	Query string `form:"query"`
}

// savedQuery returns the part of Query that is stored in a saved view.
func (in savedViewForm) savedQuery(list string) string {
	address, _ := url.ParseQuery(in.Query) // unreadable parts are ignored
	query, _ := fleet.SavedViewQuery(list, address)
	return query
}

// SavedViewsPage shows the menu of a list's saved views, with the form that saves the current view.
func (s *Site) SavedViewsPage(c echo.Context, a fleet.Actor, in savedViewForm, how form.Display) error {
	p := kit.SavedViewsPage{List: c.Param("list"), Name: in.Name, Errors: how.Errors, Focus: how.WasRefused()}
	if how.WasRefused() {
		p.Query = in.savedQuery(p.List)
	} else {
		p.Query, _ = fleet.SavedViewQuery(p.List, c.QueryParams())
	}
	return s.showSavedViews(c, a, how.Status, p)
}

// showSavedViews answers with the saved views of a list: as its menu, or as a separate page.
func (s *Site) showSavedViews(c echo.Context, a fleet.Actor, status int, p kit.SavedViewsPage) (err error) {
	if p.Views, err = s.Control.ListViews(c.Request().Context(), a, p.List); err != nil {
		return err
	}
	if render.IsHTMXRequest(c) {
		return s.WritePage(c, status, kit.SavedViewsMenu(p))
	}
	return s.ShowPageWithStatus(c, status, a, shell.PageLayout{Title: "Saved views"}, kit.SavedViews(p))
}

func (s *Site) CreateSavedView(c echo.Context, a fleet.Actor, in savedViewForm) (form.Response, error) {
	view, err := s.Control.SaveView(c.Request().Context(), a, c.Param("list"), in.Name, in.Query)
	return s.redrawSavedViews(a, c.Param("list"), view.Query), err
}

func (s *Site) DeleteSavedView(c echo.Context, a fleet.Actor, in savedViewForm) (form.Response, error) {
	view, err := s.Control.DeleteView(c.Request().Context(), a, fleet.ViewID(c.Param("id")))
	return s.redrawSavedViews(a, view.List, in.savedQuery(view.List)), err
}

// redrawSavedViews redraws the menu; without JavaScript it redirects to the list as shown.
func (s *Site) redrawSavedViews(a fleet.Actor, list, query string) form.Response {
	return form.Redraw(views.SavedViewPath(list, query), func(c echo.Context) error {
		return s.showSavedViews(c, a, http.StatusOK, kit.SavedViewsPage{List: list, Query: query, Focus: true})
	})
}
