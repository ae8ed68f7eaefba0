package query

import (
	"context"

	"quantix/internal/fleet"
)

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
