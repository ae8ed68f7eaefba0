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

// answerLimit is how long the database may take for a statement or a transaction where the caller sets no earlier end. It is
// less than an agent waits for an answer: a server that hangs is told of as one that is away.
const answerLimit = 10 * time.Second

// line is a way to the database: the pool, or a transaction.
type line interface {
	db.DBTX
	Begin(ctx context.Context) (pgx.Tx, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// lines finds the way for each statement: the transaction that its context is in, or else the pool.
type lines struct{ pool *pgxpool.Pool }

type inTx struct{}

// Within is ctx, in the transaction: what is asked with it is a part of that.
func Within(ctx context.Context, tx pgx.Tx) context.Context {
	return context.WithValue(ctx, inTx{}, tx)
}

func (l lines) of(ctx context.Context) line {
	if tx, ok := ctx.Value(inTx{}).(pgx.Tx); ok {
		return tx
	}
	return l.pool
}

// Joined reports whether ctx is in a transaction already.
func Joined(ctx context.Context) bool { return ctx.Value(inTx{}) != nil }

// bounded is ctx, ended at the latest when answerLimit has passed.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= answerLimit {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, answerLimit)
}

func (l lines) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.of(ctx).Exec(ctx, sql, args...)
}

func (l lines) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	ctx, cancel := bounded(ctx)
	rows, err := l.of(ctx).Query(ctx, sql, args...)
	if err != nil {
		cancel()
		return rows, err
	}
	return boundedRows{rows, cancel}, nil
}

func (l lines) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := bounded(ctx)
	return boundedRow{l.of(ctx).QueryRow(ctx, sql, args...), cancel}
}

// SendBatch asks several questions in one round trip. Its answers have to be closed; it bounds itself no time.
func (l lines) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return l.of(ctx).SendBatch(ctx, b)
}

// Asker is a way to ask: a Store, or a transaction of its own.
type Asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Spending runs do, which only reads, so that the server breaks off what takes longer than limit, with ErrOverLimit. In a transaction
// there is no such limit.
func (l lines) Spending(ctx context.Context, limit time.Duration, do func(Asker) error) error {
	if Joined(ctx) {
		return Err(do(l))
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	begin := fmt.Sprintf("BEGIN READ ONLY; SET LOCAL statement_timeout = %d", limit.Milliseconds())
	err := pgx.BeginTxFunc(ctx, l.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error { return do(tx) })
	const cancelled = "57014"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == cancelled && ctx.Err() == nil {
		return ErrOverLimit
	}
	return Err(err)
}

// ErrOverLimit is what Spending says of a question that took too long.
var ErrOverLimit = errors.New("the question takes too long")

// boundedRows gives its bound back when it is closed, as all who read rows do.
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
