package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
)

// statementTimeout is the time limit of a statement or transaction without an earlier deadline. It is shorter than the
// timeout of an agent's request, so that a hanging server is reported as Unavailable.
const statementTimeout = 10 * time.Second

// statementExecutor is a connection pool or a transaction.
type statementExecutor interface {
	db.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// txDispatcher executes each statement in the transaction that its context carries, or else on the pool.
type txDispatcher struct{ pool *pgxpool.Pool }

type txKey struct{}

// WithTx returns a context whose statements run in the transaction.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

func (l txDispatcher) executorFor(ctx context.Context) statementExecutor {
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		return tx
	}
	return l.pool
}

// InTx reports whether ctx carries a transaction.
func InTx(ctx context.Context) bool { return ctx.Value(txKey{}) != nil }

// withStatementTimeout returns ctx with a deadline of at most statementTimeout from now.
func withStatementTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= statementTimeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, statementTimeout)
}

func (l txDispatcher) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := withStatementTimeout(ctx)
	defer cancel()
	return l.executorFor(ctx).Exec(ctx, sql, args...)
}

func (l txDispatcher) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := withStatementTimeout(ctx)
	rows, err := l.executorFor(ctx).Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return rows, err
	}
	return deadlineRows{rows, cancel}, nil
}

func (l txDispatcher) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := withStatementTimeout(ctx)
	return deadlineRow{l.executorFor(ctx).QueryRow(ctx, sql, args...), cancel}
}

// SendBatch sends a batch in one round trip. The caller must close the results. No time limit is added.
func (l txDispatcher) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return l.executorFor(ctx).SendBatch(ctx, b)
}

// Querier executes queries: a Store, or the transaction of WithTimeLimit.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// WithTimeLimit calls do, which only reads, and returns ErrTimeLimitExceeded if one of its statements takes longer than
// limit. If ctx carries a transaction, there is no limit.
func (l txDispatcher) WithTimeLimit(ctx context.Context, limit time.Duration, do func(Querier) error) error {
	if InTx(ctx) {
		return UserError(do(l))
	}
	ctx, cancel := withStatementTimeout(ctx)
	defer cancel()
	begin := fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d", limit.Milliseconds())
	err := pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return do(tx) })
	const cancelled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == cancelled && ctx.Err() == nil {
		return ErrTimeLimitExceeded
	}
	return UserError(err)
}

// ErrTimeLimitExceeded is returned by WithTimeLimit for a statement that takes too long.
var ErrTimeLimitExceeded = errors.New("the question takes too long")

// deadlineRows are rows of a query with a deadline. Close also releases the deadline's context.
type deadlineRows struct {
	pgx.Rows
	cancel context.CancelFunc
}

func (r deadlineRows) Close() {
	r.Rows.Close()
	r.cancel()
}

type deadlineRow struct {
	pgx.Row
	cancel context.CancelFunc
}

func (r deadlineRow) Scan(into ...any) error {
	defer r.cancel()
	return r.Row.Scan(into...)
}
