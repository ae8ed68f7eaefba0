package render

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

// listPageReader reads one page of a list from control.
type listPageReader[T any] func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error)

// QueryFromURL reads the query parameters that all lists share.
func QueryFromURL(c echo.Context) fleet.Query {
	q := fleet.Query{
		Filter: c.QueryParam("filter"), Sort: c.QueryParam("sort"), After: c.QueryParam("after"), Before: c.QueryParam("before"),
		Project: fleet.ProjectID(c.QueryParam("project")),
	}
	// text that is no number becomes 0, the default limit; control limits larger values
	q.Limit, _ = strconv.Atoi(c.QueryParam("limit"))
	return q
}

// NewList returns the list of a page. sort is the default order.
func (r *Renderer) NewList(c echo.Context, name, sort string, columns kit.Columns, f kit.Filter) kit.List {
	link := kit.Link{Path: "/" + name, Query: c.QueryParams()}.Without("tree", "dock", "group")
	f.Link, f.Value = link, c.QueryParam("filter")
	if f.Type == "" {
		f.Type = name
	}
	if chosen := c.QueryParam("sort"); chosen != "" {
		sort = chosen
	}
	return kit.List{Name: name, Link: link, Share: r.PublicURL + link.String(), Columns: columns, Shown: columns.ChosenInQuery(link), Sort: sort, Filter: f, Now: time.Now()}
}

// FillList reads the page of a list for q into l and returns the page's rows. For an invalid filter it returns no
// error: l shows the reason.
func FillList[T any](c echo.Context, a fleet.Actor, l *kit.List, q fleet.Query, list listPageReader[T]) ([]T, error) {
	page, err := list(c.Request().Context(), a, q)
	if l.Filter.Error, err = SplitFilterError(err); err != nil {
		return nil, err
	}
	l.Count, l.Prev, l.Next = len(page.Items), page.Prev, page.Next
	return page.Items, nil
}

// ShowList answers with the page of a list. If the page has become empty, it redirects to the first page.
func (r *Renderer) ShowList(c echo.Context, a fleet.Actor, f shell.PageLayout, l kit.List, body templ.Component) error {
	if first := l.Link.FirstPage().String(); l.Count == 0 && l.Filter.Error == "" && first != l.Link.String() && !IsHTMXRequest(c) {
		return c.Redirect(http.StatusSeeOther, first)
	}
	return r.ShowPageWithStatus(c, ListResponseStatus(l.Filter), a, f, body)
}

// ListResponseStatus returns the HTTP status for the page of a list. It depends on whether the filter f is valid.
func ListResponseStatus(f kit.Filter) int {
	if f.Error != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// SplitFilterError returns the reason as text if err means an invalid filter, so that the list can show it. It returns
// any other error as an error.
func SplitFilterError(err error) (string, error) {
	var refused *fleet.Error
	if errors.As(err, &refused) && refused.Code == fleet.Invalid &&
		slices.ContainsFunc(refused.Fields, func(f fleet.FieldError) bool { return f.Field == "filter" }) {
		return refused.Error(), nil
	}
	return "", err
}

// ApplyTabFilter adds the filter of the request's tab to the filter of q. tabFilters maps the tabs of the list to their
// filters.
func ApplyTabFilter(c echo.Context, tabFilters map[string]string, resource string, q *fleet.Query) (tab string, err error) {
	if tab = c.QueryParam("tab"); tab == "" {
		tab = "all"
	}
	filter, known := tabFilters[tab]
	if !known {
		return "", fleet.Errorf(fleet.NotFound, "The list of %s has no view %q.", resource, tab)
	}
	q.Filter = strings.TrimSpace(filter + " " + q.Filter)
	return tab, nil
}
