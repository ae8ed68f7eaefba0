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

// PipelinedTx is a transaction with few round trips, for very frequent operations. BEGIN is sent together with the
// first statement, and COMMIT together with the last. The store sends wake-ups after the commit, because NOTIFY would
// take a global lock during the commit.
type PipelinedTx struct {
	*db.Queries
	executor *pipelinedTxConn
}

// QueriesWithCommit returns queries whose next statement is sent together with COMMIT. It is the transaction's last
// statement.
func (t PipelinedTx) QueriesWithCommit() *db.Queries {
	t.executor.last = true
	return t.Queries
}

// DeferredQueries returns queries for statements without results. The connection sends these statements in order,
// together with the next other statement, which fails if one of them does.
func (t PipelinedTx) DeferredQueries() *db.Queries { return db.New(deferredExecutor{t.executor}) }

// deferredExecutor adds statements to the deferred statements of its connection instead of executing them.
type deferredExecutor struct{ executor *pipelinedTxConn }

func (b deferredExecutor) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.executor.deferred.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

var errReturnsRows = errors.New("the statement returns rows")

func (deferredExecutor) Query(context.Context, string, ...any) (pgx.Rows, error) {
	return nil, errReturnsRows
}

func (deferredExecutor) QueryRow(context.Context, string, ...any) pgx.Row {
	return pipelinedRow{err: errReturnsRows}
}

// ErrLocked is returned by RunPipelinedTx if another transaction holds a lock for longer than patience.
var ErrLocked = errors.New("another transaction holds a lock")

// RunPipelinedTx calls do in a PipelinedTx of its own, never as part of another transaction. It waits at most patience
// for a lock and then returns ErrLocked. If patience is 0, it waits without limit.
func (s *Store) RunPipelinedTx(ctx context.Context, patience time.Duration, do func(t PipelinedTx) error) error {
	ctx, cancel := withStatementTimeout(ctx)
	defer cancel()
	return retryDeadlocks(func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release() // discards a broken connection
		l := &pipelinedTxConn{conn: conn.Conn(), patience: patience}
		err = l.endTx(ctx, do(PipelinedTx{db.New(l), l}))
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

// WarmUpConnection executes the statements for claims and results of jobs once on a new connection, without effects. Otherwise
// the first agents would wait until PostgreSQL has parsed and planned the statements on this connection. Errors of the
// server are ignored.
func WarmUpConnection(ctx context.Context, conn *pgx.Conn) error {
	l := &pipelinedTxConn{conn: conn, patience: warmUpLockTimeout}
	t := PipelinedTx{db.New(l), l}
	_, looked := t.CheckForWork(ctx, db.CheckForWorkParams{})
	_, claimed := t.ClaimJobs(ctx, db.ClaimJobsParams{})
	_, locked := t.LockResults(ctx, db.LockResultsParams{})
	vms, assignments := t.SettleVMs(ctx, db.SettleVMsParams{}), t.SettleAssignments(ctx, db.SettleAssignmentsParams{})
	_, ended := t.QueriesWithCommit().EndJobs(ctx, db.EndJobsParams{})
	err := l.endTx(ctx, cmp.Or(looked, claimed, locked, vms, assignments, ended))
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		return nil
	}
	return err
}

// warmUpLockTimeout limits the wait for locks during WarmUpConnection, because a request is waiting for the connection.
const warmUpLockTimeout = 100 * time.Millisecond

// pipelinedTxConn executes the statements of one transaction on a connection, in as few round trips as possible.
type pipelinedTxConn struct {
	conn               *pgx.Conn
	patience           time.Duration
	deferred           pgx.Batch // statements of DeferredQueries that are not yet sent
	begun, last, ended bool
	wakeUps            string // collected wake-up keys, one per line, after a first line without meaning
}

const (
	// beginPipelinedSQL makes the transaction collect its wake-ups, and plan only with indexes. PostgreSQL caches a
	// generic plan until the connection closes. A plan with a sequential scan, made while a table was nearly empty, would
	// later scan a full table.
	beginPipelinedSQL = `SELECT set_config('quantix.told', '-', true), set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
		set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	// endPipelinedSQL runs deferred triggers and returns the collected wake-ups.
	endPipelinedSQL = "SELECT told()"
)

// sendStatement sends a statement as a batch, with BEGIN if it is the first and with COMMIT if it is the last. It reads
// the results before the statement's own. A batch is an implicit transaction, so a statement that is both first and
// last needs no BEGIN.
func (l *pipelinedTxConn) sendStatement(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
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
	return &pipelinedResults{results, l}, nil
}

func (l *pipelinedTxConn) queueBegin(b *pgx.Batch) {
	b.Queue(beginPipelinedSQL, strconv.FormatInt(l.patience.Milliseconds(), 10))
}

// queueDeferred moves the deferred statements into the batch.
func (l *pipelinedTxConn) queueDeferred(b *pgx.Batch) {
	for _, q := range l.deferred.QueuedQueries {
		b.Queue(q.SQL, q.Arguments...)
	}
	l.deferred = pgx.Batch{}
}

func (l *pipelinedTxConn) queueEnd(b *pgx.Batch, alone bool) {
	b.Queue(endPipelinedSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&l.wakeUps) })
	if !alone {
		b.Queue("COMMIT")
	}
}

// pipelinedResults are the results of a batch. Close reads the remaining results.
type pipelinedResults struct {
	pgx.BatchResults
	executor *pipelinedTxConn
}

func (r *pipelinedResults) Close() error {
	err := r.BatchResults.Close()
	r.executor.ended = r.executor.last && err == nil
	return err
}

// endTx sends the waiting statements and commits, or rolls back if err is not nil.
func (l *pipelinedTxConn) endTx(ctx context.Context, err error) error {
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

func (l *pipelinedTxConn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := l.sendStatement(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	return tag, cmp.Or(results.Close(), err)
}

func (l *pipelinedTxConn) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := l.sendStatement(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, cmp.Or(results.Close(), err)
	}
	return &pipelinedRows{Rows: rows, results: results}, nil
}

func (l *pipelinedTxConn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := l.sendStatement(ctx, sql, args)
	return pipelinedRow{results, err}
}

// pipelinedRows reads the remaining results of the batch after its last row.
type pipelinedRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *pipelinedRows) Next() bool {
	next := r.Rows.Next()
	if !next {
		r.Close()
	}
	return next
}

func (r *pipelinedRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *pipelinedRows) Err() error { return cmp.Or(r.Rows.Err(), r.err) }

type pipelinedRow struct {
	results pgx.BatchResults
	err     error
}

func (r pipelinedRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	err := r.results.QueryRow().Scan(into...)
	if end := r.results.Close(); end != nil {
		return end
	}
	return err
}
