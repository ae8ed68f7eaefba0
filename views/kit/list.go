// Package kit holds what pages of all nouns are made of: lists, tables, matrices, heads, tabs, acts, forms, chips, and what keeps a page live.
package kit

import (
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
)

// List is what the pages of all lists have in common: which part of the list is shown, how, and how to go on from there.
type List struct {
	Name       string  // "vms": the list's address, and the noun of its views and CSV
	Link       Link    // of the page as it is shown
	Share      string  // the same as a whole address
	Columns    Columns // all that there are
	Shown      Columns // those that the address asks for
	Sort       string  // as the address says it, or the list's own
	Filter     Filter
	Count      int    // rows on this page
	Prev, Next string // cursors; empty: at the start, at the end
	Now        time.Time
}

// Column is a column that a person may choose.
type Column struct {
	Key, Label string
	Sort       string // the key to order by; empty: it cannot be
	Class      string
	Extra      bool // shown only where it is chosen
}

// Columns are the columns of a list in their order; the name always stands before them.
type Columns []Column

// Chosen are the columns that the address l asks for; where it names none, all but the extra ones.
func (all Columns) Chosen(l Link) Columns {
	keys := strings.Split(l.Query.Get("columns"), ",")
	chosen := slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return !slices.Contains(keys, c.Key) })
	if len(chosen) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.Extra })
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

func (all Columns) has(c Column) bool { return slices.Contains(all, c) }

// toggle is the address of the list with a column more or less. The choice that is the list's own is not spelt out, so that
// the same view has the same address; the last column stays.
func (l *List) toggle(c Column) string {
	next := slices.DeleteFunc(slices.Clone(l.Columns), func(other Column) bool { return l.Shown.has(other) == (other == c) })
	switch keys := next.keys(); {
	case len(next) == 0:
		return l.Link.String()
	case keys == l.Columns.Chosen(Link{}).keys():
		return l.Link.Without("columns").String()
	default:
		return l.Link.With("columns", keys).String()
	}
}

// csv is where all of the list lies that the filter lets through.
func (l *List) csv() string {
	return l.Link.First().Without("columns", "limit").At("/" + l.Name + ".csv").String()
}

// views is the menu of the list's views, and which of them is shown.
func (l *List) views() string {
	query, _ := fleet.ViewQuery(l.Name, l.Link.Query)
	return views.SavedViewsPath(l.Name, query)
}

func (l *List) pager(noun string) Pager { return PagerOf(l.Link, l.Count, noun, l.Prev, l.Next) }

// Hostless are the columns without those about hosts.
func (all Columns) Hostless() Columns {
	return slices.DeleteFunc(slices.Clone(all), func(c Column) bool { return c.Key == "host" })
}
