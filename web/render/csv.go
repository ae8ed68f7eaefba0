package render

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// exportPageRows is the maximum number of rows that an export reads at once; lists may have a lower limit. Each read
// has the time limit of a page.
const exportPageRows = 2000

// exportWriteTimeout is how long a client may take to receive one page of an export.
const exportWriteTimeout = 30 * time.Second

// ExportCSV writes all pages of a list as CSV, from the first one regardless of q's page. It reads the next page while
// it writes one.
func ExportCSV[T any](r *Renderer, c echo.Context, a fleet.Actor, name string, q fleet.Query, list listPageReader[T], columns []kit.CSVColumn[T]) error {
	q.Limit, q.After, q.Before = exportPageRows, "", ""
	ctx := c.Request().Context()
	p, err := readExportPage(ctx, r, a, q, list)
	if err != nil {
		return err // nothing is sent yet, so the caller can send an error response
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/csv; charset=utf-8")
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", name))
	out := csv.NewWriter(c.Response())
	row := make([]string, len(columns))
	for i, column := range columns {
		row[i] = column.Name
	}
	writeCSVRow(out, row)
	for {
		q.After = p.Next
		next := readInBackground(func() (fleet.Page[T], error) { return readExportPage(ctx, r, a, q, list) }, q.After != "")
		// The error for a connection that supports no deadlines, such as a test's recorder, is ignored.
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(exportWriteTimeout))
		for i := range p.Items {
			for k, column := range columns {
				row[k] = column.Value(&p.Items[i])
			}
			writeCSVRow(out, row)
		}
		out.Flush()
		p, err = next() // also after a disconnect, because a read must not outlive its request
		if q.After == "" || out.Error() != nil {
			return nil //nolint:nilerr // the export is complete, or the browser has disconnected
		}
		if err != nil {
			panic(http.ErrAbortHandler) // a truncated list must not look complete
		}
	}
}

// readInBackground starts read in the background if more is true, and returns a function that waits for the result of
// read.
func readInBackground[T any](read func() (T, error), more bool) func() (T, error) {
	var out T
	var err error
	var broke any
	var one sync.WaitGroup
	if more {
		one.Go(func() {
			defer func() { broke = recover() }() // a panic is raised again in the request's goroutine
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

// readExportPage reads one page of the list for an export, within the limits of BeginExportRead.
func readExportPage[T any](ctx context.Context, r *Renderer, a fleet.Actor, q fleet.Query, list listPageReader[T]) (fleet.Page[T], error) {
	ctx, leave, err := r.BeginExportRead(ctx, a.UserID)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	defer leave()
	return list(ctx, a, q)
}

// escapeFormula returns text unchanged, or with a prefix if a spreadsheet would otherwise treat the text as a formula.
func escapeFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// writeCSVRow writes a row with all formulas escaped. w.Error reports a failure.
func writeCSVRow(w *csv.Writer, row []string) {
	for i := range row {
		row[i] = escapeFormula(row[i])
	}
	_ = w.Write(row)
}
