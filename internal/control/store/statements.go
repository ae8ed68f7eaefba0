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

// statementLimit is the time limit of a statement or transaction without an earlier deadline. It is shorter than the
// timeout of an agent's request, so that a hanging server is reported as Unavailable.
const statementLimit = 10 * time.Second

// executor is a connection pool or a transaction.
type executor interface {
	db.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// dispatcher directs each statement to the transaction in its context, or to the pool.
type dispatcher struct{ pool *pgxpool.Pool }

type txKey struct{}

// WithTx returns a context whose statements run in the transaction.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

func (l dispatcher) of(ctx context.Context) executor {
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		return tx
	}
	return l.pool
}

// InTx reports whether ctx carries a transaction.
func InTx(ctx context.Context) bool { return ctx.Value(txKey{}) != nil }

// withLimit returns ctx with a deadline of at most statementLimit from now.
func withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= statementLimit {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, statementLimit)
}

func (l dispatcher) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := withLimit(ctx)
	defer cancel()
	return l.of(ctx).Exec(ctx, sql, args...)
}

func (l dispatcher) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := withLimit(ctx)
	rows, err := l.of(ctx).Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return rows, err
	}
	return boundedRows{rows, cancel}, nil
}

func (l dispatcher) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := withLimit(ctx)
	return boundedRow{l.of(ctx).QueryRow(ctx, sql, args...), cancel}
}

// SendBatch sends a batch in one round trip. The caller must close the results. No time limit is added.
func (l dispatcher) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return l.of(ctx).SendBatch(ctx, b)
}

// Querier runs queries: a Store or a separate transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// WithTimeLimit runs the read-only function do and returns ErrOverLimit if one of its statements takes longer than
// limit. Within a transaction there is no such limit.
func (l dispatcher) WithTimeLimit(ctx context.Context, limit time.Duration, do func(Querier) error) error {
	if InTx(ctx) {
		return Err(do(l))
	}
	ctx, cancel := withLimit(ctx)
	defer cancel()
	begin := fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d", limit.Milliseconds())
	err := pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return do(tx) })
	const cancelled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == cancelled && ctx.Err() == nil {
		return ErrOverLimit
	}
	return Err(err)
}

// ErrOverLimit is returned by WithTimeLimit for a statement that takes too long.
var ErrOverLimit = errors.New("the question takes too long")

// boundedRows cancels its context when the rows are closed.
type boundedRows struct {
	pgx.Rows
	cancel context.CancelFunc
}

func (r boundedRows) Close() {
	r.Rows.Close()
	r.cancel()
}

type boundedRow struct {
	pgx.Row
	cancel context.CancelFunc
}

func (r boundedRow) Scan(into ...any) error {
	defer r.cancel()
	return r.Row.Scan(into...)
}
