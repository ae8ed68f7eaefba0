package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// list describes how the objects of one type are listed and read. Its methods read a page of the list and one object.
type list[T any] struct {
	name   string            // in errors: "security group"
	see    policy.Permission // to read the list
	orders sortOrders[T]
	sort   string // default order
	keys   fleet.FilterKeys
	of     fleet.ResourceType // whose keys the actor may not all use: see filterKeys; empty: all may use keys
	filter listFilter         // conditions of keys
	id     string             // column of the ID; empty: objects are not read alone

	// restrict limits the result to rows that the actor may see. In lists that can be limited to a project, restrict also
	// limits the result to project, unless project is empty. nil: no limit.
	restrict func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID)
	// read reads the rows that s selects. tail follows the WHERE clause.
	read func(b *Queries, ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]T, error)
}

// readPage returns one page of the list.
func (l list[T]) readPage(ctx context.Context, b *Queries, a fleet.Actor, q fleet.Query) (fleet.Page[T], error) {
	if err := policy.Check(a, l.see, ""); err != nil {
		return fleet.Page[T]{}, err
	}
	keys := l.keys
	if l.of != "" {
		keys = filterKeys(a, l.of)
	}
	p, terms, err := l.orders.parseQuery(q, l.sort, keys)
	if err != nil {
		return fleet.Page[T]{}, err
	}
	var s statementBuilder
	if l.restrict != nil {
		l.restrict(&s, a, q.Project)
	}
	if _, err := b.applyFilter(ctx, &s, a, l.filter, terms); err != nil {
		return fleet.Page[T]{}, err
	}
	tail := p.applyCursor(&s)
	items, err := l.read(b, ctx, a, &s, tail)
	return p.buildPage(items), err
}

// readOne returns one object.
func (l list[T]) readOne(ctx context.Context, b *Queries, a fleet.Actor, id string) (one T, err error) {
	if err := policy.Check(a, l.see, ""); err != nil {
		return one, err
	}
	if err := store.CheckID(id, l.name); err != nil {
		return one, err
	}
	var s statementBuilder
	s.addCondition(l.id + " = " + s.addKeyArg(id))
	if l.restrict != nil {
		l.restrict(&s, a, "")
	}
	items, err := l.read(b, ctx, a, &s, "")
	if err == nil && len(items) == 0 {
		err = store.NotFoundError(pgx.ErrNoRows, l.name)
	}
	if err != nil {
		return one, err
	}
	return items[0], nil
}

// whereOwnerVisible limits rows to objects of projects that the actor sees and to fleet-wide objects, whose column of
// the project is NULL. If only is not empty, it limits the projects to that one.
func (s *statementBuilder) whereOwnerVisible(a fleet.Actor, column string, only fleet.ProjectID) {
	if !policy.SeesAllProjects(a) {
		s.addCondition(column + " IS NULL OR " + s.oneOfSQL(column, store.VisibleProjects(a)))
	}
	if only != "" {
		s.addCondition(column + " IS NULL OR " + column + " = " + s.addKeyArg(string(only)))
	}
}

// ReadAllPages reads a list to its end, page by page. It is meant for form choices and for lists that are always short.
func ReadAllPages[T any](ctx context.Context, a fleet.Actor, q fleet.Query, list func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error)) ([]T, error) {
	q.Limit = maxPageSize
	var all []T
	for {
		page, err := list(ctx, a, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}
