// Package agentapi implements the agent API: joining, sessions, reports, claims and results of jobs. It also recovers
// jobs of offline agents and follows VMs that have moved to another host.
package agentapi

import (
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/notify"
)

// API serves agents. Its exported methods are use cases of control.Control. Its in-memory state is only a cache and may
// be lost at any time.
type API struct {
	store    *store.Store
	hub      *notify.Hub // wakes parked claims
	beats    beats
	claims   together[claimant, claimed]
	results  together[result, settled]
	assigned assigned
	vault    auth.Vault // seals the certificate authority's key
	pairURL  string     // relay URL of this very portal, for hosts
}

// most is the number of hosts served by one statement. Larger batches save little and delay the first callers.
const most = 200

// New returns an API over s.
func New(s *store.Store, hub *notify.Hub, pairURL string, vault auth.Vault) *API {
	box := &API{store: s, hub: hub, pairURL: pairURL, vault: vault, assigned: assigned{changes: hub.Subscribe(keyAssigned)}}
	box.claims.ask, box.claims.most = box.claimFor, most
	box.results.ask, box.results.most = box.settleAll, most
	return box
}
