package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
)

// lister is a list of control.
type lister[T any] func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error)

// queryOf reads what every list's address may carry.
func queryOf(c echo.Context) fleet.Query {
	q := fleet.Query{
		Filter: c.QueryParam("filter"), Sort: c.QueryParam("sort"), After: c.QueryParam("after"), Before: c.QueryParam("before"),
		Project: fleet.ProjectID(c.QueryParam("project")),
	}
	q.Limit, _ = strconv.Atoi(c.QueryParam("limit")) // control bounds it; a word counts as none
	return q
}

// listOf is the list that a page shows; sort is its order where nobody chose another.
func (s *Server) listOf(c echo.Context, name, sort string, columns kit.Columns, f kit.Filter) kit.List {
	link := kit.Link{Path: "/" + name, Query: c.QueryParams()}.Without("tree", "dock", "group")
	f.Link, f.Value = link, c.QueryParam("filter")
	if f.Type == "" {
		f.Type = name
	}
	if chosen := c.QueryParam("sort"); chosen != "" {
		sort = chosen
	}
	return kit.List{Name: name, Link: link, Share: s.PublicURL + link.String(), Columns: columns, Shown: columns.Chosen(link), Sort: sort, Filter: f, Now: time.Now()}
}

// fill reads the page of the list that q asks for. A filter that cannot be understood is no error: the list explains it.
func fill[T any](c echo.Context, a fleet.Actor, l *kit.List, q fleet.Query, list lister[T]) ([]T, error) {
	page, err := list(c.Request().Context(), a, q)
	if l.Filter.Error, err = wrongFilter(err); err != nil {
		return nil, err
	}
	l.Count, l.Prev, l.Next = len(page.Items), page.Prev, page.Next
	return page.Items, nil
}

// showList answers with a list's page. One that has emptied since its link was made is none: it leads to the first.
func (s *Server) showList(c echo.Context, a fleet.Actor, f shell.Frame, l kit.List, body templ.Component) error {
	if first := l.Link.First().String(); l.Count == 0 && l.Filter.Error == "" && first != l.Link.String() && !isHX(c) {
		return c.Redirect(http.StatusSeeOther, first)
	}
	return s.showAs(c, listStatus(l.Filter), a, f, body)
}

// listStatus is the status of a list whose filter may be wrong.
func listStatus(f kit.Filter) int {
	if f.Error != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// wrongFilter takes a refusal of the filter out of err, so that the list can explain it.
func wrongFilter(err error) (string, error) {
	var refused *fleet.Error
	if errors.As(err, &refused) && refused.Code == fleet.Invalid &&
		slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return f.Field == "filter" }) {
		return refused.Error(), nil
	}
	return "", err
}

// tabFilter puts the filter behind a list's tab before that of q. own holds those of all tabs.
func tabFilter(c echo.Context, own map[string]string, noun string, q *fleet.Query) (tab string, err error) {
	if tab = c.QueryParam("tab"); tab == "" {
		tab = "all"
	}
	filter, known := own[tab]
	if !known {
		return "", fleet.Errorf(fleet.NotFound, "The list of %s has no view %q.", noun, tab)
	}
	q.Filter = strings.TrimSpace(filter + " " + q.Filter)
	return tab, nil
}
