package store

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
)

// Quick is a transaction for what comes by the thousand: its begin goes out with its first statement and its commit with its last, and
// what it announces is told after the commit, without NOTIFY's lock on it.
type Quick struct {
	*db.Queries
	line *quickLine
}

// Last is for the one statement that the transaction ends with: what has been done is committed with it. Nothing may follow.
func (t Quick) Last() *db.Queries {
	t.line.last = true
	return t.Queries
}

// Quick is Tx for what comes by the thousand. It is never a part of another transaction.
func (s *Store) Quick(ctx context.Context, do func(t Quick) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return untilNoDeadlock(func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // closes what is broken
		l := &quickLine{conn: conn}
		err = l.end(ctx, do(Quick{db.New(l), l}))
		if keys := strings.Split(l.told, "\n"); l.ended && len(keys) > 1 {
			s.teller.Tell(keys[1:]...)
		}
		return err
	})
}

// quickLine sends a transaction's statements in as few messages as can be.
type quickLine struct {
	conn               *pgxpool.Conn
	begun, last, ended bool
	told               string // what was announced, a word that means nothing before it
}

// send sends a statement, with the begin before the first one and the end after the last one, and reads up to its own answer.
// Closing the results reads on to the end.
func (l *quickLine) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	if l.ended {
		return nil, errors.New("a statement after a transaction's last")
	}
	var b pgx.Batch
	if !l.begun {
		b.Queue("BEGIN")
		b.Queue("SET LOCAL quantix.told = '-'")
	}
	before := b.Len()
	b.Queue(sql, args...)
	if l.last {
		l.queueEnd(&b)
	}
	results := l.conn.SendBatch(ctx, &b)
	for range before {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return nil, err
		}
	}
	l.begun = true
	return results, nil
}

// queueEnd ends the transaction: what waits for its end happens, and what it announced is read.
func (l *quickLine) queueEnd(b *pgx.Batch) {
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	b.Queue("SELECT current_setting('quantix.told')").QueryRow(func(row pgx.Row) error { return row.Scan(&l.told) })
	b.Queue("COMMIT").Exec(func(pgconn.CommandTag) error { l.ended = true; return nil })
}

// end commits what is not committed yet, or rolls it back where err is not nil.
func (l *quickLine) end(ctx context.Context, err error) error {
	if err == nil && l.begun && !l.ended {
		var b pgx.Batch
		l.queueEnd(&b)
		err = l.conn.SendBatch(ctx, &b).Close()
	}
	if err != nil && l.conn.Conn().PgConn().TxStatus() != 'I' {
		if _, rollback := l.conn.Exec(ctx, "ROLLBACK"); rollback != nil { // the connection is given up then
			err = errors.Join(err, rollback)
		}
	}
	return err
}

func (l *quickLine) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := l.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, cmp.Or(err, results.Close())
}

func (l *quickLine) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := l.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, cmp.Or(err, results.Close())
	}
	return &quickRows{Rows: rows, results: results}, nil
}

func (l *quickLine) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := l.send(ctx, sql, args)
	return quickRow{results, err}
}

// quickRows read on to the end of what was sent when they are through.
type quickRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *quickRows) Next() bool {
	next := r.Rows.Next()
	if !next {
		r.Close()
	}
	return next
}

func (r *quickRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *quickRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }

type quickRow struct {
	results pgx.BatchResults
	err     error
}

func (r quickRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	err := r.results.QueryRow().Scan(into...)
	if end := r.results.Close(); end != nil {
		return end
	}
	return err
}
