package query

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// question is sql that was made of a grown statement, and how its rows are read.
type question[T any] struct {
	sql  string
	s    *statement
	scan pgx.RowToFunc[T]
}

// collect asks one question. Where its statement varies, it is planned for its very arguments each time: the best plan for a
// label that one VM has is not the best for a label that all have. All others are prepared.
func collect[T any](ctx context.Context, b *Queries, sql string, s *statement, scan pgx.RowToFunc[T]) ([]T, error) {
	ask := func(q store.Asker) ([]T, error) {
		args := s.args
		if s.varies {
			args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		}
		rows, err := q.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return question[T]{sql, s, scan}.read(rows)
	}
	if s.searches {
		return search(ctx, b, ask)
	}
	items, err := ask(b.store)
	return items, store.Err(err)
}

// searchTime is what the server spends on one statement that looks for parts of text. Who asks for more is told to say more of
// what is looked for: nobody's filter keeps the others waiting.
const searchTime = 2 * time.Second

// search asks under searchTime.
func search[T any](ctx context.Context, b *Queries, ask func(store.Asker) ([]T, error)) (items []T, err error) {
	err = b.store.Spending(ctx, searchTime, func(q store.Asker) error {
		items, err = ask(q)
		return err
	})
	if errors.Is(err, store.ErrOverLimit) {
		text := "This search takes too long. Write more of what you look for, with fewer asterisks."
		return nil, &fleet.Error{Code: fleet.Invalid, Message: text, Fields: []fleet.FieldError{{Field: "filter", Message: text}}}
	}
	return items, err
}

func (q question[T]) read(rows pgx.Rows) ([]T, error) {
	return pgx.AppendRows(make([]T, 0, usualPage), rows, q.scan)
}

// join adds the question to others that travel together; into holds its answer once they are sent. All of them are prepared, and
// planned anew each time as far as they have arguments.
func join[T any](b *pgx.Batch, q question[T], into *[]T) {
	if b.Len() == 0 {
		b.Queue("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)") // until the answers are there
	}
	b.Queue(q.sql, q.s.args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = q.read(rows)
		return err
	})
}
