package kit

import "github.com/a-h/templ"

// Table is a table with one row for each T. On a list page, the column headers are links that sort the list. On another
// object's page (such as a host's VMs), Link is empty and the table cannot be sorted.
type Table[T any] struct {
	*List
	ID           string // id of the live element
	Live         string // wake-up keys of the live element
	Every        string // refresh interval without a wake-up: "30s"
	Label        string // accessible name of the table: "Virtual machines"
	Type         string // type name of one row: "VM"
	Head         Column // header of the first column
	Items        []T
	Row          func(*T) Row
	RowCells     func(Columns, *T) templ.Component // table cells after the first; one component per row, since a list has a thousand rows
	HasRowMenus  bool                              // rows have a menu
	Select       bool                              // rows can be selected
	EmptyContent templ.Component                   // shown where there are no rows
}

// Row holds the parts of a row that all tables have: the first column and the row's menu.
type Row struct {
	ID         string // element id
	Name, Href string
	Menu       string // address of the row's menu
	Value      string // value sent when the row is selected
}

// NameColumn is the first column of a list of named objects.
var NameColumn = Column{Label: "Name", Sort: "name"}

// columnCount is the number of columns in the table.
func (t Table[T]) columnCount() int {
	n := 1 + len(t.Shown)
	if t.HasRowMenus {
		n++
	}
	if t.Select {
		n++
	}
	return n
}

// SortOrder is the order of a list, as written in its address: "name" or "-name".
type SortOrder struct {
	By   string
	Link Link
}

func (s SortOrder) orderAfterClick(key string) string {
	l := s.Link.FirstPage()
	if s.By == key {
		return l.With("sort", "-"+key).String()
	}
	return l.With("sort", key).String()
}
