// Package store is what the rooms of control share: the way to PostgreSQL, transactions, refusals, the audit, the queue, and rows as
// the fleet's values. Only control and its rooms import it, and none of it leaves them.
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

// Store is one PostgreSQL. Its queries run in the transaction that their context is in (see Within), or each for itself.
type Store struct {
	*db.Queries
	lines
	pulse  pulse
	hub    *notify.Hub
	teller *notify.Notifier
}

// New makes a Store over pool, which wakes those who wait at hub. It starts nothing.
func New(pool *pgxpool.Pool, hub *notify.Hub) *Store {
	l := lines{pool}
	return &Store{Queries: db.New(l), lines: l, hub: hub, teller: notify.NewNotifier(hub, pool)}
}

// Wake wakes those at this portal who follow it: they were shown what is not so any more.
func (s *Store) Wake(of fleet.Subject) { s.hub.Wake(string(of)) }

// Tx runs do in one transaction; an error rolls all of it back. After a deadlock do runs anew, so it must not build on what
// an earlier run left in its variables. Within another it is a part of that one, which runs anew as a whole.
func (s *Store) Tx(ctx context.Context, do func(q *db.Queries) error) error {
	return s.Begin(ctx, func(tx pgx.Tx) error { return do(db.New(tx)) })
}

// Begin is Tx for who needs the transaction itself.
func (s *Store) Begin(ctx context.Context, do func(tx pgx.Tx) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	run := func() error { return pgx.BeginFunc(ctx, s.of(ctx), do) }
	if Joined(ctx) {
		return Err(run())
	}
	return untilNoDeadlock(run)
}

// maxTries is how often a transaction is tried that PostgreSQL breaks because others wait for it in a circle.
const maxTries = 4

func untilNoDeadlock(run func() error) error {
	for try := 1; ; try++ {
		err := run()
		const deadlock = "40P01"
		if pg, ok := errors.AsType[*pgconn.PgError](err); try == maxTries || !ok || pg.Code != deadlock {
			return Err(err)
		}
	}
}

// Pass runs do in a transaction while no other portal runs the same pass.
func (s *Store) Pass(ctx context.Context, a fleet.Actor, name string, do func(q *db.Queries) error) error {
	if err := OnlySystem(a); err != nil {
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
		return fmt.Errorf("pass %s: %w", name, err)
	}
	return nil
}
