package kit

import (
	"maps"
	"net/url"
	"slices"
)

// Link is an address with a query whose values can be changed one at a time.
type Link struct {
	Path  string
	Query url.Values
}

// With is the link with one value of the query set; an empty value removes the name.
func (l Link) With(name, value string) Link {
	q := url.Values{}
	maps.Copy(q, l.Query)
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	return Link{l.Path, q}
}

// Without is the link without the names.
func (l Link) Without(names ...string) Link {
	for _, n := range names {
		l = l.With(n, "")
	}
	return l
}

// First is the link to the first page of the list.
func (l Link) First() Link { return l.Without("after", "before") }

// At is the link with the same query at another path.
func (l Link) At(path string) Link { return Link{path, l.Query} }

// String is the link as a URL.
func (l Link) String() string {
	if q := l.Query.Encode(); q != "" {
		return l.Path + "?" + q
	}
	return l.Path
}

// QueryNames are the query's names except some, sorted.
func (l Link) QueryNames(but ...string) []string {
	out := slices.Sorted(maps.Keys(l.Query))
	return slices.DeleteFunc(out, func(n string) bool { return slices.Contains(but, n) })
}
