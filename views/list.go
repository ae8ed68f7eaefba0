package views

import (
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
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
	Key, Word string
	Sort      string // the key to order by; empty: it cannot be
	Class     string
	Extra     bool // shown only where it is chosen
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
	return savedViews(l.Name, query)
}

func (l *List) pager(noun string) Pager { return pager(l.Link, l.Count, noun, l.Prev, l.Next) }

// Table is the rows of a list, each about a T, or of a card on another object's page: that has no Link to sort by.
type Table[T any] struct {
	*List
	ID     string // of the element that follows changes
	Live   string // by which wake-ups it does
	Every  string // and how often without any: "30s"
	Label  string // of the table: "Virtual machines"
	Noun   string // of one row: "VM"
	Head   Column // of the first column
	Items  []T
	Row    func(*T) Row
	Cells  func(Columns, *T) templ.Component // after the first; one for a row, since a list has a thousand
	Acts   bool                              // rows have a menu
	Select bool                              // rows can be selected
	None   templ.Component                   // said where there are no rows
}

// Row is how a row begins and ends.
type Row struct {
	ID         string // of the element
	Name, Href string
	Menu       string // address of what can be done
	Value      string // that selecting it sends
}

// nameHead is the first column of a list of things with names.
var nameHead = Column{Word: "Name", Sort: "name"}

// width is the number of the table's columns.
func (t Table[T]) width() int {
	n := 1 + len(t.Shown)
	if t.Acts {
		n++
	}
	if t.Select {
		n++
	}
	return n
}

// Pager leads through a list by cursors: on, back, and to its start.
type Pager struct {
	Text              string // "100 VMs on this page"
	First, Prev, Next string // addresses; empty: not possible
}

// pager leads through a list of n rows on this page. At the start there is nothing before, so neither back nor first.
func pager(l Link, n int, noun, prev, next string) Pager {
	out, l := Pager{Text: Count(n, noun) + " on this page"}, l.First()
	if prev != "" {
		out.First, out.Prev = l.String(), l.With("before", prev).String()
	}
	if next != "" {
		out.Next = l.With("after", next).String()
	}
	return out
}

// Filter is the box above a list.
type Filter struct {
	Link        Link   // of the list as it is shown: its other values stay when the filter changes
	Noun        string // of /complete
	Label       string // "Filter VMs"
	Value       string
	Placeholder string
	Error       string // why the filter cannot be understood
}

// Sort is the order of a list, as its address says: "name" or "-name".
type Sort struct {
	By   string
	Link Link
}

func (s Sort) next(key string) string {
	l := s.Link.First()
	if s.By == key {
		return l.With("sort", "-"+key).String()
	}
	return l.With("sort", key).String()
}
