package kit

import (
	"maps"
	"net/url"
	"slices"
)

// Link is an address whose query can be changed one value at a time.
type Link struct {
	Path  string
	Query url.Values
}

// With gives the link with one more value of the query; an empty one takes the name out.
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

// Without gives the link without these names.
func (l Link) Without(names ...string) Link {
	for _, n := range names {
		l = l.With(n, "")
	}
	return l
}

// First gives the link to the first page of the list.
func (l Link) First() Link { return l.Without("after", "before") }

// At gives the same query at another path.
func (l Link) At(path string) Link { return Link{path, l.Query} }

// String is the address.
func (l Link) String() string {
	if q := l.Query.Encode(); q != "" {
		return l.Path + "?" + q
	}
	return l.Path
}

// Names lists the query's names but some, sorted.
func (l Link) Names(but ...string) []string {
	out := slices.Sorted(maps.Keys(l.Query))
	return slices.DeleteFunc(out, func(n string) bool { return slices.Contains(but, n) })
}
