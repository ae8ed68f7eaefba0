package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

// exportPage is how many rows an export reads at once; each read has the time of a page.
const exportPage = 500

// export writes all pages of a list as CSV, a page at a time, wherever q begins. list gives a page, row one line's cells below
// head.
func export[T any](s *Server, c echo.Context, a fleet.Actor, name string, q fleet.Query, list lister[T], head []string, row func(T) []string) error {
	q.Limit, q.After, q.Before = exportPage, "", ""
	var out *csv.Writer
	for {
		p, err := pageOf(s, c, a, q, list)
		if err != nil && out == nil {
			return err // nothing is sent yet: a proper refusal
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a half list must not look like a whole one
		}
		if out == nil {
			h := c.Response().Header()
			h.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
			h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", name))
			out = csv.NewWriter(c.Response())
			writeRow(out, slices.Clone(head))
		}
		for _, item := range p.Items {
			writeRow(out, row(item))
		}
		out.Flush()
		if q.After = p.Next; q.After == "" || out.Error() != nil {
			return nil //nolint:nilerr // at the end, or the browser has gone
		}
	}
}

// pageOf reads one page of the export within a page's time, and gives the browser as long to take it.
func pageOf[T any](s *Server, c echo.Context, a fleet.Actor, q fleet.Query, list lister[T]) (fleet.Page[T], error) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), pageLimit)
	defer cancel()
	leave, err := s.turns.take(ctx, a.UserID)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	defer leave()
	// As in eventWriter: without deadlines it is written to all the same.
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(3 * writeLimit))
	return list(ctx, a, q)
}

// moment is a cell for a time that may not have come.
func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// cell keeps a spreadsheet from taking text for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// writeRow leaves a failure to w.Error.
func writeRow(w *csv.Writer, row []string) {
	for i := range row {
		row[i] = cell(row[i])
	}
	_ = w.Write(row)
}
