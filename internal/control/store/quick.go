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

// QuickTx is a transaction for very frequent operations. BEGIN is sent with its first statement and COMMIT with its
// last. Wake-ups are sent after the commit, because NOTIFY would take a global lock during the commit.
type QuickTx struct {
	*db.Queries
	executor *quickTxConn
}

// FinalQueries returns the queries for the transaction's final statement, with which COMMIT is sent. No statement may
// follow.
func (t QuickTx) FinalQueries() *db.Queries {
	t.executor.last = true
	return t.Queries
}

// DeferredQueries returns queries for statements without results. They are sent with the next statement, in order, and
// their errors fail that statement.
func (t QuickTx) DeferredQueries() *db.Queries { return db.New(deferredExecutor{t.executor}) }

// deferredExecutor collects statements of a quickTxConn that are sent with the next one.
type deferredExecutor struct{ executor *quickTxConn }

func (b deferredExecutor) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.executor.deferred.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

var errReturnsRows = errors.New("the statement returns rows")

func (deferredExecutor) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errReturnsRows
}

func (deferredExecutor) QueryRow(context.Context, string, ...any) pgx.Row {
	return quickRow{err: errReturnsRows}
}

// ErrLocked is returned by Quick when a lock was not available within patience.
var ErrLocked = errors.New("another transaction holds a lock")

// RunQuickTx runs do in a Quick transaction, never as part of another transaction. It waits at most patience for locks
// and then returns ErrLocked; 0 means no limit.
func (s *Store) RunQuickTx(ctx context.Context, patience time.Duration, do func(t QuickTx) error) error {
	ctx, cancel := withStatementTimeout(ctx)
	defer cancel()
	return retryDeadlocks(func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // discards a broken connection
		l := &quickTxConn{conn: conn.Conn(), patience: patience}
		err = l.endTx(ctx, do(QuickTx{db.New(l), l}))
		const notAvailable = "55P03"
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == notAvailable {
			err = ErrLocked
		}
		if keys := strings.Split(l.wakeUps, "\n"); l.ended && len(keys) > 1 {
			s.notifier.Notify(keys[1:]...)
		}
		return err
	})
}

// WarmUp runs the statements of claims and results once on a new connection, without effects: PostgreSQL parses and
// plans per connection, and the first agents would wait for that. Errors of the server are ignored.
func WarmUp(ctx context.Context, conn *pgx.Conn) error {
	l := &quickTxConn{conn: conn, patience: warmUpLockTimeout}
	t := QuickTx{db.New(l), l}
	_, looked := t.CheckForWork(ctx, db.CheckForWorkParams{})
	_, claimed := t.ClaimJobs(ctx, db.ClaimJobsParams{})
	_, locked := t.LockResults(ctx, db.LockResultsParams{})
	vms, assignments := t.SettleVMs(ctx, db.SettleVMsParams{}), t.SettleAssignments(ctx, db.SettleAssignmentsParams{})
	_, ended := t.FinalQueries().EndJobs(ctx, db.EndJobsParams{})
	err := l.endTx(ctx, cmp.Or(looked, claimed, locked, vms, assignments, ended))
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil
	}
	return err
}

// warmUpLockTimeout limits the wait for locks, because the connection is needed now.
const warmUpLockTimeout = 100 * time.Millisecond

// quickTxConn sends a transaction's statements in as few messages as possible.
type quickTxConn struct {
	conn               *pgx.Conn
	patience           time.Duration
	deferred           pgx.Batch // statements of Deferred
	begun, last, ended bool
	wakeUps            string // collected wake-up keys, one per line, after a first line without meaning
}

const (
	// beginQuickSQL makes a transaction collect its wake-ups and plan with indexes only. A generic plan lives as long as
	// its connection; one made while a table was nearly empty would later scan the full table.
	beginQuickSQL = `SELECT set_config('quantix.told', '-', true), set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	// endQuickSQL runs deferred triggers and returns the collected wake-ups.
	endQuickSQL = "SELECT told()"
)

// sendStatement sends a statement, preceded by BEGIN if it is the first and followed by COMMIT if it is the last. It
// reads results up to the statement's own. A batch is an implicit transaction, so a statement that is both first and
// last needs no BEGIN.
func (l *quickTxConn) sendStatement(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
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
	l.queueDeferred(&b)
	pipelined := b.Len()
	b.Queue(sql, args...)
	if l.last {
		l.queueEnd(&b, alone)
	}
	results := l.conn.SendBatch(ctx, &b)
	for range pipelined {
		if _, err := results.Exec(); err != nil {
			return nil, cmp.Or(results.Close(), err)
		}
	}
	l.begun = true
	return &quickResults{results, l}, nil
}

func (l *quickTxConn) queueBegin(b *pgx.Batch) {
	b.Queue(beginQuickSQL, strconv.FormatInt(l.patience.Milliseconds(), 10))
}

// queueDeferred adds the statements of Deferred to the batch.
func (l *quickTxConn) queueDeferred(b *pgx.Batch) {
	for _, q := range l.deferred.QueuedQueries {
		b.Queue(q.SQL, q.Arguments...)
	}
	l.deferred = pgx.Batch{}
}

func (l *quickTxConn) queueEnd(b *pgx.Batch, alone bool) {
	b.Queue(endQuickSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&l.wakeUps) })
	if !alone {
		b.Queue("COMMIT")
	}
}

// quickResults are the results of a batch. Close reads the remaining results.
type quickResults struct {
	pgx.BatchResults
	executor *quickTxConn
}

func (r *quickResults) Close() error {
	err := r.BatchResults.Close()
	r.executor.ended = r.executor.last && err == nil
	return err
}

// endTx sends the waiting statements and commits, or rolls back if err is not nil.
func (l *quickTxConn) endTx(ctx context.Context, err error) error {
	if err == nil && (l.begun || l.deferred.Len() > 0) && !l.ended {
		var b pgx.Batch
		if !l.begun {
			l.queueBegin(&b)
		}
		l.queueDeferred(&b)
		l.queueEnd(&b, !l.begun)
		err = l.conn.SendBatch(ctx, &b).Close()
		l.ended = err == nil
	}
	if err != nil && l.conn.PgConn().TxStatus() != 'I' {
		if _, rollback := l.conn.Exec(ctx, "ROLLBACK"); rollback != nil { // the connection is then discarded
			err = errors.Join(err, rollback)
		}
	}
	return err
}

func (l *quickTxConn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := l.sendStatement(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, cmp.Or(results.Close(), err)
}

func (l *quickTxConn) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := l.sendStatement(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, cmp.Or(results.Close(), err)
	}
	return &quickRows{Rows: rows, results: results}, nil
}

func (l *quickTxConn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := l.sendStatement(ctx, sql, args)
	return quickRow{results, err}
}

// quickRows reads the remaining results of the batch after its last row.
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
