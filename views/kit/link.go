package kit

import (
	"maps"
	"net/url"
	"slices"
)

// Link is an address with a query. Its methods return copies with changed values.
type Link struct {
	Path  string
	Query url.Values
}

// With returns the link with one value of the query set. An empty value removes the name from the query.
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

// Without returns the link without these names in its query.
func (l Link) Without(names ...string) Link {
	for _, n := range names {
		l = l.With(n, "")
	}
	return l
}

// FirstPage returns the link to the first page of the list.
func (l Link) FirstPage() Link { return l.Without("after", "before") }

// WithPath returns the link with the same query at another path.
func (l Link) WithPath(path string) Link { return Link{path, l.Query} }

// String returns the link as a URL.
func (l Link) String() string {
	if q := l.Query.Encode(); q != "" {
		return l.Path + "?" + q
	}
	return l.Path
}

// QueryNames returns the names in the query except those in but, sorted.
func (l Link) QueryNames(but ...string) []string {
	out := slices.Sorted(maps.Keys(l.Query))
	return slices.DeleteFunc(out, func(n string) bool { return slices.Contains(but, n) })
}
