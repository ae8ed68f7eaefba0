package kit

import "github.com/a-h/templ"

// Matrix is a card with what hosts say about objects that they execute, a row about each T: one object on all its hosts, or all
// objects on one host.
type Matrix[T any] struct {
	Title string
	Aside templ.Component // beside the title
	Label string          // of the table
	Class string
	First string  // the head of the first column
	Head  Columns // of the others
	Items []T
	Row   func(T) Row
	Cells func(Columns, T) templ.Component // after the first
	Acts  func(T) []Act                    // nil: rows have none of their own
	None  templ.Component                  // said where there are no rows
}

// HostsMatrix is the matrix of one object on its hosts.
func HostsMatrix[T any](label string, head Columns, cells []T) Matrix[T] {
	return Matrix[T]{Title: "Hosts", Aside: reportsHow(), Label: label, Class: "matrix", First: "Host", Head: head, Items: cells}
}
