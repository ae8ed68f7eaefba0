package kit

import (
	"fmt"
	"strconv"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// StatusMatrix is a table of statuses with one row for each T. It shows one object on all its hosts, or all objects of
// one host.
type StatusMatrix[T any] struct {
	Title        string
	TitleAside   templ.Component // shown next to the title
	Label        string          // accessible name of the table
	Class        string
	First        string  // header of the first column
	Head         Columns // headers of the columns after the first
	Items        []T
	Row          func(T) Row
	RowCells     func(Columns, T) templ.Component // table cells after the first
	RowActions   func(T) []ActionButton           // nil: rows have no actions
	EmptyContent templ.Component                  // shown where there are no rows

	Counters []Tab  // above the rows: one count per state, which links to the rows of that state
	Filter   Filter // above the rows; without a link there is no filter
	Pager    Pager  // below the rows
}

// MaxHostStatusesShown is the number of matrix rows on one page.
const MaxHostStatusesShown = 25

// HostStatuses is one page of the table that shows an object's status on each host.
type HostStatuses[T any] struct {
	Items          []T
	SeverityCounts fleet.SeverityCounts // counts of all hosts by severity
	Prev, Next     string               // cursors of the pages before and after Items
	Filter         string
	Error          string // why the filter is invalid
}

// NewHostMatrix is the table of one object's status on each host; l is the address of the object's page.
func NewHostMatrix[T any](l Link, label string, head Columns, c HostStatuses[T]) StatusMatrix[T] {
	m := StatusMatrix[T]{Title: "Hosts", TitleAside: reportIntervalHint(), Label: label, Class: "matrix", First: "Host", Head: head, Items: c.Items}
	all := c.SeverityCounts.All()
	if all == 0 {
		return m
	}
	l = l.FirstPage()
	counter := func(word string, tone fleet.Severity, n int, drawn string) {
		if filter := "health:" + string(tone); n > 0 || c.Filter == filter {
			m.Counters = append(m.Counters, Tab{Text: word, Href: l.With("filter", filter).String(), Count: strconv.Itoa(n), Severity: drawn, Here: c.Filter == filter})
		}
	}
	m.Counters = []Tab{{Text: "All", Href: l.Without("filter").String(), Count: strconv.Itoa(all), Here: c.Filter == ""}}
	counter("Failed", fleet.SeverityBad, c.SeverityCounts.Bad, "bad")
	counter("Unknown", fleet.SeverityUnknown, c.SeverityCounts.Unknown, "unknown")
	counter("Degraded", fleet.SeverityWarn, c.SeverityCounts.Warn, "warn")
	counter("Healthy", fleet.SeverityOK, c.SeverityCounts.OK, "ok")
	if all > MaxHostStatusesShown || c.Filter != "" {
		m.Filter = Filter{Link: l, Type: "cells", Label: "Filter hosts", Value: c.Filter, Placeholder: "name:h1* health:bad", Error: c.Error}
	}
	if c.Prev != "" || c.Next != "" {
		m.Pager = NewPager(l, len(c.Items), "host", c.Prev, c.Next)
		m.Pager.Text += " of " + CountText(all, "host")
	}
	if c.Filter != "" {
		m.EmptyContent = EmptyListNote("search", "No host matches", "Nothing matches the filter.")
	}
	return m
}

// reportIntervalText explains on tables of many hosts when a state becomes unknown.
var reportIntervalText = fmt.Sprintf("each host reports every %d s unless it is set otherwise; after three intervals without a report the state is unknown", fleet.DefaultReportInterval)
