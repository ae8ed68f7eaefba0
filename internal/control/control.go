// Package control implements the use cases of Quantix, for people, agents and the portal itself. Every change of a
// spec passes through it. Each exported method of Control takes the actor second, checks the permission first, and
// writes its audit line in the transaction of the change.
//
// Use cases of VMs, images, templates and tasks are in this package, the others in its subpackages, which Control
// embeds. Only these packages import package db; they return no database rows to other packages.
package control

import (
	"cmp"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/auth"
	"quantix/internal/bmc/redfish"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/alarms"
	"quantix/internal/control/assign"
	"quantix/internal/control/channels"
	"quantix/internal/control/consoles"
	"quantix/internal/control/deviceclasses"
	"quantix/internal/control/events"
	"quantix/internal/control/flavors"
	"quantix/internal/control/health"
	"quantix/internal/control/healthpolicies"
	"quantix/internal/control/hostcommands"
	"quantix/internal/control/hostpower"
	"quantix/internal/control/hosts"
	"quantix/internal/control/idempotency"
	"quantix/internal/control/identity"
	"quantix/internal/control/metrics"
	"quantix/internal/control/network"
	"quantix/internal/control/placing"
	"quantix/internal/control/publishing"
	"quantix/internal/control/query"
	"quantix/internal/control/quotas"
	"quantix/internal/control/recycling"
	"quantix/internal/control/requests"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/control/upgrades"
	"quantix/internal/delivery"
	"quantix/internal/notify"
)

// Control runs the use cases on one PostgreSQL database.
type Control struct {
	*identity.Identity
	*idempotency.Idempotency
	*agentapi.API
	*hosts.Hosts
	*hostcommands.HostCommands
	*hostpower.HostPower
	*network.Networks
	*publishing.Publishing
	*placing.Placing
	*metrics.Metrics
	*alarms.Alarms
	*channels.Channels
	*consoles.Consoles
	*quotas.Quotas
	*recycling.Recycling
	*requests.Requests
	*health.Health
	*healthpolicies.Policies
	*assign.Assignments
	*flavors.Flavors
	*deviceclasses.DeviceClasses
	*events.Log
	*storage.Storage
	*upgrades.Upgrades
	*query.Queries
	store *store.Store // not embedded: its methods are not use cases
	log   *slog.Logger
	opts  Options
}

// IdempotencyKey is the key of a request that runs at most once.
type IdempotencyKey = idempotency.Key

// JobWaiter lets an agent's claims wait for new jobs.
type JobWaiter = agentapi.JobWaiter

// Options are the settings of the portal that use cases need.
type Options struct {
	Log      *slog.Logger
	Hub      *notify.Hub // wakes waiting claims of agents; nil: claims find new jobs only by polling
	AgentURL string      // the URL that agents dial, possibly a load balancer's; part of join commands
	PairURL  string      // the URL of this portal itself, part of console jobs; empty: AgentURL

	// Vault encrypts pool secrets, first-boot data and the CA key. Without a key, requests to store pool secrets or
	// first-boot data are refused.
	Vault     auth.Vault
	MACPrefix string // prefix of new NICs' MAC addresses, checked by config; empty: QEMU's 52:54:00

	AgentReleases string // the directory with signed releases of the agent; empty: none

	AuditMonths int // complete months of audit to retain; 0: all

	MetricRetention metrics.Retention // the zero value: metrics.DefaultRetention

	BMCs   *redfish.Connector // connects to BMCs; nil: not to loopback and link-local addresses
	Sender *delivery.Sender   // sends notifications; nil: only to the public Internet, and no e-mail
}

// WarmUp prepares a new database connection for agents' requests (db.OpenWithSetup).
var WarmUp = store.WarmUpConnection

// New returns a Control that uses pool. It starts no goroutine.
func New(pool *pgxpool.Pool, o Options) *Control {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Hub == nil {
		o.Hub = notify.NewHub()
	}
	s := store.New(pool, o.Hub)
	kept := cmp.Or(o.MetricRetention, metrics.DefaultRetention)
	damage := metrics.NewDamageLog(o.Log)
	newest := &metrics.Newest{}
	b := query.New(s, kept, damage, newest)
	agents := agentapi.New(s, o.Hub, metrics.NewWriter(s, o.Log), o.PairURL, o.Vault)
	c := &Control{
		Identity:      identity.New(s, b),
		Idempotency:   idempotency.New(s),
		API:           agents,
		Hosts:         hosts.New(s, b, agents, o.AgentURL),
		HostCommands:  hostcommands.New(s),
		Upgrades:      upgrades.New(s, b, o.AgentReleases),
		Health:        health.New(s, healthpolicies.NewJudge()),
		Networks:      network.New(s, b),
		Publishing:    publishing.New(s),
		Placing:       placing.New(s),
		Metrics:       metrics.New(s, kept, damage, newest),
		Alarms:        alarms.New(s, b, newest),
		Channels:      channels.New(s, o.Vault, o.Sender),
		Consoles:      consoles.New(s, discoveredVMs{}, o.PairURL),
		Flavors:       flavors.New(s),
		DeviceClasses: deviceclasses.New(s),
		Quotas:        quotas.New(s, o.Log),
		Recycling:     recycling.New(s, o.Log),
		Assignments:   assign.NewAssignments(s),
		Log:           events.New(s),
		Storage:       storage.New(s, b, o.Vault),
		Queries:       b,
		store:         s,
		log:           o.Log,
		opts:          o,
	}
	c.Requests, c.Policies = requests.New(s, b, requestedVMs{c}), healthpolicies.New(s)
	c.HostPower = hostpower.New(s, o.Vault, o.BMCs, terminatedHosts{c})
	return c
}
