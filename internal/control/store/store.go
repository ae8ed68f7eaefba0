// Package store has the code that all packages of control share: access to PostgreSQL, transactions, errors, the audit
// log, the job queue, and conversion of rows to fleet types. Only control and its subpackages import it.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// Store accesses one PostgreSQL database. A statement runs in the transaction of its context (see WithTx), or on its
// own.
type Store struct {
	*db.Queries
	txDispatcher
	readiness readinessCheck
	hub       *notify.Hub
	notifier  *notify.Notifier
}

// New returns a Store over pool whose wake-ups go to hub. It starts no goroutine.
func New(pool *pgxpool.Pool, hub *notify.Hub) *Store {
	l := txDispatcher{pool}
	return &Store{Queries: db.New(l), txDispatcher: l, hub: hub, notifier: notify.NewNotifier(hub, pool)}
}

// Wake sends a wake-up to the subject's subscribers on this portal, but not to those on other portals.
func (s *Store) Wake(of fleet.Subject) { s.hub.Wake(string(of)) }

// Tx calls do in a transaction and rolls back if do returns an error. After a deadlock it calls do again, so do must
// reset variables that an earlier call has set. If ctx carries a transaction, do becomes part of that transaction.
func (s *Store) Tx(ctx context.Context, do func(q *db.Queries) error) error {
	return s.RunPgxTx(ctx, func(tx pgx.Tx) error { return do(db.New(tx)) })
}

// RunPgxTx works like Tx, but passes the transaction itself to do.
func (s *Store) RunPgxTx(ctx context.Context, do func(tx pgx.Tx) error) error {
	ctx, cancel := withStatementTimeout(ctx)
	defer cancel()
	run := func() error { return pgx.BeginFunc(ctx, s.executorFor(ctx), do) }
	if InTx(ctx) {
		return UserError(run())
	}
	return retryDeadlocks(run)
}

// maxDeadlockTries limits the attempts at a transaction that PostgreSQL aborts because of deadlocks.
const maxDeadlockTries = 4

func retryDeadlocks(run func() error) error {
	for try := 1; ; try++ {
		err := run()
		const deadlock = "40P01"
		if pg, ok := errors.AsType[*pgconn.PgError](err); try == maxDeadlockTries || !ok || pg.Code != deadlock {
			return UserError(err)
		}
	}
}

// RunPass calls do in a transaction, as the pass of that name. It does nothing while another portal runs the same pass.
func (s *Store) RunPass(ctx context.Context, a fleet.Actor, name string, do func(q *db.Queries) error) error {
	if err := CheckSystemActor(a); err != nil {
		return err
	}
	err := s.Tx(ctx, func(q *db.Queries) error {
		mine, err := q.TryPassLock(ctx, name)
		if err != nil || !mine {
			return err
		}
		return do(q)
	})
	if err != nil {
		return fmt.Errorf("run the pass %s: %w", name, err)
	}
	return nil
}
