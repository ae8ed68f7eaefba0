package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

// exportPage is how many rows an export reads at once, as far as the list gives as many; each read has the time of a page.
const exportPage = 2000

// export writes all pages of a list as CSV, wherever q begins: one is written while the next is read. list gives a page, row one
// line's cells below head.
func export[T any](s *Server, c echo.Context, a fleet.Actor, name string, q fleet.Query, list lister[T], head []string, row func(T) []string) error {
	q.Limit, q.After, q.Before = exportPage, "", ""
	ctx := c.Request().Context()
	p, err := pageOf(ctx, s, a, q, list)
	if err != nil {
		return err // nothing is sent yet: a proper refusal
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", name))
	out := csv.NewWriter(c.Response())
	writeRow(out, slices.Clone(head))
	for {
		q.After = p.Next
		next := ahead(func() (fleet.Page[T], error) { return pageOf(ctx, s, a, q, list) }, q.After != "")
		// As in eventWriter: without deadlines it is written to all the same.
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(3 * writeLimit))
		for i := range p.Items {
			writeRow(out, row(p.Items[i]))
		}
		out.Flush()
		p, err = next() // also where the browser has gone: nothing is read when its request is over
		if q.After == "" || out.Error() != nil {
			return nil //nolint:nilerr // at the end, or the browser has gone
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a half list must not look like a whole one
		}
	}
}

// ahead begins to read where there is more, and returns what waits for it.
func ahead[T any](read func() (T, error), more bool) func() (T, error) {
	var out T
	var err error
	var broke any
	var one sync.WaitGroup
	if more {
		one.Go(func() {
			defer func() { broke = recover() }() // it is the request's, as if the request had read by itself
			out, err = read()
		})
	}
	return func() (T, error) {
		if one.Wait(); broke != nil {
			panic(broke)
		}
		return out, err
	}
}

// pageOf reads one page of the export within a page's time.
func pageOf[T any](ctx context.Context, s *Server, a fleet.Actor, q fleet.Query, list lister[T]) (fleet.Page[T], error) {
	ctx, cancel := context.WithTimeout(ctx, pageLimit)
	defer cancel()
	leave, err := s.turns.take(ctx, a.UserID)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	defer leave()
	return list(ctx, a, q)
}

// moment is a cell for a time that may not have come.
func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// hostStatus keeps a spreadsheet from taking text for a formula.
func hostStatus(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// writeRow leaves a failure to w.Error.
func writeRow(w *csv.Writer, row []string) {
	for i := range row {
		row[i] = hostStatus(row[i])
	}
	_ = w.Write(row)
}
