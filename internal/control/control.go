// Package control is the door: every use case of Quantix, for people, agents and the portal itself. Each exported method
// of Control takes the actor second, asks policy before anything else, and writes its audit line in the same transaction
// as the change. What changes intent stands here; the rest in control's rooms, whose use cases are Control's too. They and it are the
// only importers of package db; rows never leave them.
package control

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/auth"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/notify"
)

// Control runs the use cases over one PostgreSQL.
type Control struct {
	*identity.Identity
	*agentapi.API
	*query.Queries
	store *store.Store // a field: embedded, all that it can do would be a use case
	log   *slog.Logger
	opts  Options
}

// JobWaiter is where an agent's claims wait for work.
type JobWaiter = agentapi.JobWaiter

// Options are what use cases need to know of the portal they run in.
type Options struct {
	Log      *slog.Logger
	Hub      *notify.Hub // wakes parked claims; nil: claims find new work only when asked again
	AgentURL string      // what agents dial, a balancer perhaps; it goes into join commands
	PairURL  string      // where hosts find this very portal; it goes into console jobs. Empty: where their agents call

	Vault     auth.Vault // seals credentials of pools, first boots and the authority's key; without a key none of the first two are taken
	MACPrefix string     // of addresses for new cards, checked by config; empty: that of QEMU's guests

	AuditMonths int // how many whole months the audit is kept; 0: for ever
}

// WarmUp makes a portal's new connection ready for its agents (db.OpenReady).
var WarmUp = store.WarmUp

// New makes a Control over pool. It starts nothing.
func New(pool *pgxpool.Pool, o Options) *Control {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Hub == nil {
		o.Hub = notify.NewHub()
	}
	s := store.New(pool, o.Hub)
	b := query.New(s)
	return &Control{Identity: identity.New(s, b), API: agentapi.New(s, o.Hub, o.PairURL, o.Vault), Queries: b, store: s, log: o.Log, opts: o}
}
