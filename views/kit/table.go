package kit

import "github.com/a-h/templ"

// Table is the rows of a list, each about a T, or of a NIC on another object's page: that has no Link to sort by.
type Table[T any] struct {
	*List
	ID       string // of the element that follows changes
	Live     string // by which wake-ups it does
	Every    string // and how often without any: "30s"
	Label    string // of the table: "Virtual machines"
	Type     string // of one row: "VM"
	Head     Column // of the first column
	Items    []T
	Row      func(*T) Row
	Statuses func(Columns, *T) templ.Component // after the first; one for a row, since a list has a thousand
	Acts     bool                              // rows have a menu
	Select   bool                              // rows can be selected
	None     templ.Component                   // said where there are no rows
}

// Row is how a row begins and ends.
type Row struct {
	ID         string // of the element
	Name, Href string
	Menu       string // address of what can be done
	Value      string // that selecting it sends
}

// NameHead is the first column of a list of things with names.
var NameHead = Column{Label: "Name", Sort: "name"}

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
