package api

import (
	"context"

	"quantix/internal/fleet"
)

// ListQuery holds the query parameters of every list.
type ListQuery struct {
	Filter  string          `query:"filter" doc:"The pages' filter language: state:running label:env=prod name:web*"`
	Sort    string          `query:"sort" doc:"Key of a column; a leading - sorts in descending order"`
	Limit   int             `query:"limit" doc:"Items per page, 1 to 500; default 100"`
	After   string          `query:"after" doc:"The field next of the previous page"`
	Before  string          `query:"before" doc:"The field prev of the following page; not together with after"`
	Project fleet.ProjectID `query:"project" doc:"Only objects of this project"`
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

// listOperation returns the operation that answers with one page of a list, which get reads from control.
func listOperation[T any](get func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error)) operationFunc[ListQuery, pageOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *ListQuery) (*pageOutput[T], error) {
		q, err := in.query()
		if err != nil {
			return nil, err
		}
		page, err := get(ctx, a, q)
		return &pageOutput[T]{page}, err
	}
}

// asSinglePage returns all items as a list with a single page.
func asSinglePage[T any](items []T, err error) (*pageOutput[T], error) {
	if items == nil {
		items = []T{}
	}
	return &pageOutput[T]{fleet.Page[T]{Items: items}}, err
}
