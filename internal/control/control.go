// Package control is the door: every use case of Quantix, for people, agents and the portal itself. Each exported method
// of Control takes the actor second, asks policy before anything else, and writes its audit line in the same transaction
// as the change. It is the only importer of package db; rows never leave it.
package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// Control runs the use cases over one PostgreSQL.
type Control struct {
	db   lines
	q    *db.Queries
	log  *slog.Logger
	opts Options
	memo
	pulse pulse
}

// Options are what use cases need to know of the portal they run in.
type Options struct {
	Log      *slog.Logger
	Hub      *notify.Hub // wakes parked claims; nil: claims find new work only when asked again
	AgentURL string      // what agents dial, a balancer perhaps; it goes into join commands
	PairURL  string      // where hosts find this very portal; it goes into console jobs. Empty: where their agents call
}

// New makes a Control over pool. It starts nothing.
func New(pool *pgxpool.Pool, o Options) *Control {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Hub == nil {
		o.Hub = notify.NewHub()
	}
	return &Control{db: lines{pool}, q: db.New(lines{pool}), log: o.Log, opts: o}
}

// maxTries is how often a transaction is tried that PostgreSQL breaks because others wait for it in a circle.
const maxTries = 4

// tx runs do in one transaction; an error rolls all of it back. After a deadlock do runs anew, so it must not build on what
// an earlier run left in its variables. Inside Once it is a part of the transaction there, which runs anew as a whole.
func (c *Control) tx(ctx context.Context, do func(q *db.Queries) error) error {
	return c.begin(ctx, func(tx pgx.Tx) error { return do(db.New(tx)) })
}

func (c *Control) begin(ctx context.Context, do func(tx pgx.Tx) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, c.db.of(ctx), do)
		const deadlock = "40P01"
		var pg *pgconn.PgError
		if try == maxTries || joined(ctx) || !errors.As(err, &pg) || pg.Code != deadlock {
			return dbError(err)
		}
	}
}

// dbError turns what PostgreSQL says into a refusal where people caused it, and an unreachable server into Unavailable.
func dbError(err error) error {
	var pg *pgconn.PgError
	var refused *fleet.Error
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, pgx.ErrNoRows), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		if text, ok := constraintTexts[pg.ConstraintName]; ok {
			return fleet.Errorf(fleet.Conflict, "%s", text)
		}
		if pg.Code == "22021" || pg.Code == "22P05" {
			return fleet.Errorf(fleet.Malformed, "Text must be UTF-8 without NUL characters.")
		}
		// Shutting down, connection, resources; and a server that has become a standby.
		if pg.Code[:2] == "57" || pg.Code[:2] == "08" || pg.Code[:2] == "53" || pg.Code == db.ReadOnly {
			return unavailable(err)
		}
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return unavailable(err)
	}
	if lost(err) {
		return unavailable(err)
	}
	return err
}

// lost reports whether the connection to the server broke, or none could be made: refused, reset in the middle of an answer,
// cut off, closed or timed out.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

func unavailable(err error) error {
	return fmt.Errorf("%w (%w)", fleet.Errorf(fleet.Unavailable, "The database does not answer. VMs keep running; try again in a moment."), err)
}

// constraintTexts are the sentences for constraints that people's input can break.
var constraintTexts = map[string]string{
	"user_name_taken":    "A user with this name exists already. Choose another name.",
	"project_name_taken": "A project with this name exists already. Choose another name.",
	"vm_name_taken":      "A VM with this name exists in the project already. Choose another name.",
	"pool_name_taken":    "A pool with this name exists already. Choose another name.",
	"host_name_taken":    "A host with this name has joined already. Give the new host another name.",
	"vms_host_id_fkey":   "The host was removed a moment ago. Choose another one.",
	"host_machine_taken": "This machine has joined already under another name. Delete that host first.",
}

// notFound turns "no rows" into a refusal that reads alike for what does not exist and what may not be seen.
func notFound(err error, noun string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "There is no such %s.", noun)
	}
	return dbError(err)
}

// audit writes who did what; call it inside the transaction of the change.
func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, subject fleet.Subject, name, detail string) error {
	return q.AddAudit(ctx, db.AddAuditParams{
		Actor: a.Name, UserID: userIDOf(a), Address: a.Address, Action: action, Subject: string(subject), Name: name, Detail: detail,
	})
}

// userIDOf is the person's id for a column; nil: nobody's.
func userIDOf(a fleet.Actor) *fleet.UserID {
	if a.UserID == "" {
		return nil
	}
	return &a.UserID
}

// queue adds a job, or hands its newer generation to one that already waits, and returns the task that it is of.
func queue(ctx context.Context, q *db.Queries, a fleet.Actor, j db.QueueJobParams) (fleet.TaskID, error) {
	j.ID, j.CreatedBy, j.UserID = fleet.NewID[fleet.JobID](), a.Name, userIDOf(a)
	task, err := q.QueueJob(ctx, j)
	return fleet.TaskID(task), err
}

// memo holds what the portal remembers between requests; every part of it may be lost at any time.
type memo struct {
	beats    beats
	assigned assigned
	counters atomic.Pointer[counters]
	refusals refusals
}
