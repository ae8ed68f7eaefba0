// Package kit holds the components shared by all pages: lists, tables, matrices, page heads, tabs, action buttons,
// forms, state chips and live updates.
package kit

import (
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

// List is the common part of all list pages: filter, order, columns and the current page.
type List struct {
	Name       string  // "vms": the list's address, and the name for its saved views and CSV
	Link       Link    // address of the page as shown
	Share      string  // address of the page as shown, as an absolute URL
	Columns    Columns // all available columns
	Shown      Columns // columns chosen by the address
	Sort       string  // as in the address, or the list's default
	Filter     Filter
	Count      int    // rows on the current page
	Prev, Next string // cursors; empty: first page, last page
	Now        time.Time
}

// Column is a column of a list.
type Column struct {
	Key, Label string
	Sort       string // sort key; empty: not sortable
	Class      string
	OnRequest  bool // shown only on request
	Hosts      bool // about hosts or their definitions: tenants do not see the column
}

// Columns with the use of the last hour.
const (
	CPUHourColumn    = "cpu1h"
	MemoryHourColumn = "memory1h"
)

// ShowsLastHour reports whether a column with the use of the last hour is shown.
func (l *List) ShowsLastHour() bool {
	return slices.ContainsFunc(l.Shown, func(c Column) bool { return c.Key == CPUHourColumn || c.Key == MemoryHourColumn })
}

// CSVColumn is a column of a list's CSV export.
type CSVColumn[T any] struct {
	Name  string
	Value func(*T) string
}

// CSVTime formats a time as a CSV value; nil: an empty value.
func CSVTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// CSVLabels formats labels as a CSV value.
func CSVLabels(labels map[string]string) string {
	return strings.ReplaceAll(LabelLines(labels), "\n", " ")
}

// Columns are the columns of a list in order, without the name column, which always comes first.
type Columns []Column

// ChosenInQuery returns the columns that the query of l names. Without names, it returns all columns except those
// OnRequest.
func (all Columns) ChosenInQuery(l Link) Columns {
	keys := strings.Split(l.Query.Get("columns"), ",")
	chosen := slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return !slices.Contains(keys, c.Key) })
	if len(chosen) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.OnRequest })
	}
	return chosen
}

func (all Columns) keys() string {
	keys := make([]string, len(all))
	for i, c := range all {
		keys[i] = c.Key
	}
	return strings.Join(keys, ",")
}

func (all Columns) hasKey(c Column) bool { return slices.Contains(all, c) }

// toggleColumnPath is the address of the list with the column added or removed. It names no columns if they are the
// default ones, so that the same view has only one address. The last column cannot be removed.
func (l *List) toggleColumnPath(c Column) string {
	next := slices.DeleteFunc(slices.Clone(l.Columns), func(other Column) bool { return l.Shown.hasKey(other) == (other == c) })
	switch keys := next.keys(); {
	case len(next) == 0:
		return l.Link.String()
	case keys == l.Columns.ChosenInQuery(Link{}).keys():
		return l.Link.Without("columns").String()
	default:
		return l.Link.With("columns", keys).String()
	}
}

// csvPath is the address of the CSV export of all rows that match the filter.
func (l *List) csvPath() string {
	return l.Link.FirstPage().Without("columns", "limit").WithPath("/" + l.Name + ".csv").String()
}

// savedViewsPath is the address of the saved views menu, which marks the current view.
func (l *List) savedViewsPath() string {
	query, _ := fleet.SavedViewQuery(l.Name, l.Link.Query)
	return views.SavedViewsPath(l.Name, query)
}

func (l *List) pager(singular string) Pager {
	return NewPager(l.Link, l.Count, singular, l.Prev, l.Next)
}

// WithoutHost returns the columns without the host column.
func (all Columns) WithoutHost() Columns {
	return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.Key == "host" })
}

// For returns the columns that the actor sees.
func (all Columns) For(a fleet.Actor) Columns {
	if policy.May(a, policy.InfraSee, "") {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.Hosts })
}
