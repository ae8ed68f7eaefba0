package query

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// rowQuery is a SQL query with its arguments in s, and the function that scans its rows.
type rowQuery[T any] struct {
	sql  string
	s    *statementBuilder
	scan pgx.RowToFunc[T]
}

// collectRows runs one query and scans all rows. If s.planEachTime is set, PostgreSQL plans the statement for its
// arguments each time, because the best plan for a rare label differs from that for a label of every VM. All other
// statements are prepared and keep their plan.
func collectRows[T any](ctx context.Context, b *Queries, sql string, s *statementBuilder, scan pgx.RowToFunc[T]) ([]T, error) {
	run := func(q store.Querier) ([]T, error) {
		args := s.args
		if s.planEachTime {
			args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
		}
		rows, err := q.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return rowQuery[T]{sql, s, scan}.readRows(rows)
	}
	if s.isSearch {
		return runSearch(ctx, b, run)
	}
	items, err := run(b.store)
	return items, store.UserError(err)
}

// searchTimeout is the time limit of one substring search in PostgreSQL. A slower search fails and the user must enter
// a narrower filter, so that one user's search does not delay the others.
const searchTimeout = 2 * time.Second

// runSearch calls run with the time limit searchTimeout.
func runSearch[T any](ctx context.Context, b *Queries, run func(store.Querier) ([]T, error)) (items []T, err error) {
	err = b.store.WithTimeLimit(ctx, searchTimeout, func(q store.Querier) error {
		items, err = run(q)
		return err
	})
	if errors.Is(err, store.ErrTimeLimitExceeded) {
		text := "This search takes too long. Enter more characters and fewer asterisks."
		return nil, &fleet.Error{Code: fleet.Invalid, Message: text, Fields: []fleet.FieldError{{Field: "filter", Message: text}}}
	}
	return items, err
}

func (q rowQuery[T]) readRows(rows pgx.Rows) ([]T, error) {
	return pgx.AppendRows(make([]T, 0, defaultRowLimit), rows, q.scan)
}

// addToBatch adds a query to a batch. Sending the batch stores the query's rows in into. All queries of a batch are
// prepared, and those with arguments are planned each time.
func addToBatch[T any](b *pgx.Batch, q rowQuery[T], into *[]T) {
	if b.Len() == 0 {
		// The setting applies until the batch's implicit transaction ends.
		b.Queue("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")
	}
	b.Queue(q.sql, q.s.args...).Query(func(rows pgx.Rows) (err error) {
		*into, err = q.readRows(rows)
		return err
	})
}
