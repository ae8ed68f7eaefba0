package store

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// Before is for statements whose answers nobody waits for: they go out with the next one that is sent, in their order, and that one fails where
// one of them does.
func (t Quick) Before() *db.Queries { return db.New(before{t.line}) }

// before are statements of a quickLine that wait for the next one.
type before struct{ line *quickLine }

func (b before) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.line.waiting.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

var errAnswer = errors.New("the statement has an answer, for which nobody waits")

func (before) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, errAnswer }
func (before) QueryRow(context.Context, string, ...any) pgx.Row        { return quickRow{err: errAnswer} }

// ErrLocked is what Quick says when it waited for longer than its patience.
var ErrLocked = errors.New("another transaction holds a lock")

// Quick is Tx for what comes by the thousand. It is never a part of another transaction. It waits no longer than patience for what another
// transaction has locked, then it is ErrLocked; 0: as long as it may take.
func (s *Store) Quick(ctx context.Context, patience time.Duration, do func(t Quick) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return untilNoDeadlock(func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // closes what is broken
		l := &quickLine{conn: conn.Conn(), patience: patience}
		err = l.end(ctx, do(Quick{db.New(l), l}))
		const notAvailable = "55P03"
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notAvailable {
			err = ErrLocked
		}
		if keys := strings.Split(l.told, "\n"); l.ended && len(keys) > 1 {
			s.teller.Notify(keys[1:]...)
		}
		return err
	})
}

// WarmUp has a new connection ask once, about nothing, what claims and results ask all the time: PostgreSQL parses and plans for each
// connection anew, for which the first agents would wait. A database that refuses it serves as it is.
func WarmUp(ctx context.Context, conn *pgx.Conn) error {
	l := &quickLine{conn: conn, patience: warmUpPatience}
	t := Quick{db.New(l), l}
	_, looked := t.CheckForWork(ctx, db.CheckForWorkParams{})
	_, claimed := t.ClaimJobs(ctx, db.ClaimJobsParams{})
	_, held := t.LockResults(ctx, db.LockResultsParams{})
	vms, cells := t.SettleVMs(ctx, db.SettleVMsParams{}), t.SettleAssignments(ctx, db.SettleAssignmentsParams{})
	_, ended := t.Last().EndJobs(ctx, db.EndJobsParams{})
	err := l.end(ctx, cmp.Or(looked, claimed, held, vms, cells, ended))
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil
	}
	return err
}

// warmUpPatience is for what others have locked: a connection is wanted now.
const warmUpPatience = 100 * time.Millisecond

// quickLine sends a transaction's statements in as few messages as can be.
type quickLine struct {
	conn               *pgx.Conn
	patience           time.Duration
	waiting            pgx.Batch // statements of Before
	begun, last, ended bool
	told               string // what was announced, a word that means nothing before it
}

const (
	// beginQuick makes a transaction collect what it announces, and has it planned by indexes alone, once: a plan is kept as long as its
	// connection, and one that was made while a table was nearly empty would read all of it when it is full.
	beginQuick = `SELECT set_config('quantix.told', '-', true), set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	// endQuick has what waits for the end happen, and returns what was announced.
	endQuick = "SELECT told()"
)

// send sends a statement, with the begin before the first one and the end after the last one, and reads up to its own answer. What is
// sent together is one transaction: a statement that is the first and the last needs no BEGIN.
func (l *quickLine) send(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	if l.ended {
		return nil, errors.New("a statement after a transaction's last")
	}
	var b pgx.Batch
	alone := !l.begun && l.last
	if !l.begun {
		if !alone {
			b.Queue("BEGIN")
		}
		l.queueBegin(&b)
	}
	l.queueWaiting(&b)
	before := b.Len()
	b.Queue(sql, args...)
	if l.last {
		l.queueEnd(&b, alone)
	}
	results := l.conn.SendBatch(ctx, &b)
	for range before {
		if _, err := results.Exec(); err != nil {
			return nil, cmp.Or(results.Close(), err)
		}
	}
	l.begun = true
	return &quickResults{results, l}, nil
}

func (l *quickLine) queueBegin(b *pgx.Batch) {
	b.Queue(beginQuick, strconv.FormatInt(l.patience.Milliseconds(), 10))
}

// queueWaiting sends what has waited for a statement.
func (l *quickLine) queueWaiting(b *pgx.Batch) {
	for _, q := range l.waiting.QueuedQueries {
		b.Queue(q.SQL, q.Arguments...)
	}
	l.waiting = pgx.Batch{}
}

func (l *quickLine) queueEnd(b *pgx.Batch, alone bool) {
	b.Queue(endQuick).QueryRow(func(row pgx.Row) error { return row.Scan(&l.told) })
	if !alone {
		b.Queue("COMMIT")
	}
}

// quickResults are what was sent; closing them reads on to their end.
type quickResults struct {
	pgx.BatchResults
	line *quickLine
}

func (r *quickResults) Close() error {
	err := r.BatchResults.Close()
	r.line.ended = r.line.last && err == nil
	return err
}

// end commits what is not committed yet, or rolls it back where err is not nil.
func (l *quickLine) end(ctx context.Context, err error) error {
	if err == nil && (l.begun || l.waiting.Len() > 0) && !l.ended {
		var b pgx.Batch
		if !l.begun {
			l.queueBegin(&b)
		}
		l.queueWaiting(&b)
		l.queueEnd(&b, !l.begun)
		err = l.conn.SendBatch(ctx, &b).Close()
		l.ended = err == nil
	}
	if err != nil && l.conn.PgConn().TxStatus() != 'I' {
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
	return tag, cmp.Or(results.Close(), err)
}

func (l *quickLine) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := l.send(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, cmp.Or(results.Close(), err)
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
