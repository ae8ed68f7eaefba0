package web

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// ListQuery is what every list takes.
type ListQuery struct {
	Filter  string          `query:"filter" doc:"The pages' filter language: phase:running label:env=prod name:web*"`
	Sort    string          `query:"sort" doc:"A column's key, with - in front for descending"`
	Limit   int             `query:"limit" doc:"1 to 500; 100 where none is given"`
	After   string          `query:"after" doc:"The next of the page before"`
	Before  string          `query:"before" doc:"The prev of the page after; never together with after"`
	Project fleet.ProjectID `query:"project" doc:"Only what belongs to this project"`
}

func (in ListQuery) query() (fleet.Query, error) {
	if in.Limit < 0 || in.Limit > 500 {
		var c fleet.Checks
		c.Add("query.limit", "A page has 1 to 500 items.")
		return fleet.Query{}, c.Err()
	}
	return fleet.Query{Filter: in.Filter, Sort: in.Sort, Limit: in.Limit, After: in.After, Before: in.Before, Project: in.Project}, nil
}

type pageOutput[T any] struct{ Body fleet.Page[T] }

// list is the operation of a list that control pages.
func list[T any](get func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error)) call[ListQuery, pageOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *ListQuery) (*pageOutput[T], error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		page, err := get(ctx, a, q)
		return &pageOutput[T]{page}, err
	}
}

// shortList is a list that control answers whole, because it is short: filtered, sorted and paged here.
type shortList[T any] struct {
	id    func(T) string
	text  map[string]func(T) string // the filter's keys
	order map[string]func(a, b T) int
	own   string // the sort where none is asked for
}

var (
	projectList = shortList[fleet.Project]{
		id:    func(p fleet.Project) string { return string(p.ID) },
		text:  map[string]func(fleet.Project) string{"name": func(p fleet.Project) string { return p.Name }},
		order: byName(func(p fleet.Project) string { return p.Name }),
		own:   "name",
	}
	userList = shortList[fleet.User]{
		id: func(u fleet.User) string { return string(u.ID) },
		text: map[string]func(fleet.User) string{
			"name": func(u fleet.User) string { return u.Name }, "role": func(u fleet.User) string { return string(u.Role) },
		},
		order: byName(func(u fleet.User) string { return u.Name }),
		own:   "name",
	}
	tokenList = shortList[fleet.Token]{
		id:    func(t fleet.Token) string { return string(t.ID) },
		text:  map[string]func(fleet.Token) string{"name": func(t fleet.Token) string { return t.Name }},
		order: byName(func(t fleet.Token) string { return t.Name }),
		own:   "name",
	}
	joinTokenList = shortList[fleet.JoinToken]{
		id:   func(t fleet.JoinToken) string { return string(t.ID) },
		text: map[string]func(fleet.JoinToken) string{"name": func(t fleet.JoinToken) string { return t.UsedBy }},
		order: map[string]func(a, b fleet.JoinToken) int{
			"created": func(a, b fleet.JoinToken) int { return a.CreatedAt.Compare(b.CreatedAt) },
		},
		own: "-created",
	}
)

func byName[T any](name func(T) string) map[string]func(a, b T) int {
	return map[string]func(a, b T) int{"name": func(a, b T) int { return cmp.Compare(name(a), name(b)) }}
}

// listed is the operation of a short list.
func listed[T any](l shortList[T], get func(context.Context, fleet.Actor) ([]T, error)) call[ListQuery, pageOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *ListQuery) (*pageOutput[T], error) {
		items, err := get(ctx, a)
		if err != nil {
			return nil, err
		}
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		page, err := l.page(items, q)
		return &pageOutput[T]{page}, err
	}
}

func (l shortList[T]) page(items []T, q fleet.Query) (fleet.Page[T], error) {
	terms, err := fleet.ParseFilter(l.keys(), q.Filter)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	items = slices.DeleteFunc(items, func(t T) bool {
		return slices.ContainsFunc(terms, func(term fleet.Term) bool { return l.fits(t, term) == term.Not })
	})
	if q.Sort == "" {
		q.Sort = l.own
	}
	key, desc := strings.CutPrefix(q.Sort, "-")
	order, known := l.order[key]
	if !known {
		var c fleet.Checks
		c.Add("sort", "This list cannot be sorted by %q. Leave ?sort= out.", key)
		return fleet.Page[T]{}, c.Err()
	}
	slices.SortFunc(items, func(a, b T) int {
		n := cmp.Or(order(a, b), cmp.Compare(l.id(a), l.id(b)))
		if desc {
			return -n
		}
		return n
	})
	from, to, err := l.span(items, q)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	page := fleet.Page[T]{Items: append([]T{}, items[from:to]...)}
	if 0 < from && from < len(items) {
		page.Prev = l.id(items[from])
	}
	if 0 < to && to < len(items) {
		page.Next = l.id(items[to-1])
	}
	return page, nil
}

// span is the place of q's page among all items. A cursor is the id of an item.
func (l shortList[T]) span(items []T, q fleet.Query) (from, to int, err error) {
	limit := cmp.Or(q.Limit, 100)
	cursor := cmp.Or(q.After, q.Before)
	at := slices.IndexFunc(items, func(t T) bool { return l.id(t) == cursor })
	switch {
	case q.After != "" && q.Before != "":
		return 0, 0, fleet.Errorf(fleet.Malformed, "A page comes after one place of a list or before one. Give one of the two.")
	case cursor != "" && at < 0:
		return 0, 0, fleet.Errorf(fleet.Malformed, "This page link is out of date. Go back to the first page of the list.")
	case q.Before != "":
		return max(0, at-limit), at, nil
	}
	return at + 1, min(at+1+limit, len(items)), nil // at is -1 on the first page
}

func (l shortList[T]) fits(t T, term fleet.Term) bool {
	value := strings.ToLower(l.text[term.Key](t))
	return slices.ContainsFunc(term.Any, func(m fleet.Match) bool { return m.Lower().Matches(value) })
}

func (l shortList[T]) keys() fleet.FilterKeys {
	var keys fleet.FilterKeys
	for k := range l.text {
		keys = append(keys, fleet.FilterKey{Key: k})
	}
	slices.SortFunc(keys, func(a, b fleet.FilterKey) int { return cmp.Compare(a.Key, b.Key) })
	return keys
}
