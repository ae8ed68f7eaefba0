// Package agentapi takes what agents send: joining, sessions, reports, claims and the ends of jobs, with what becomes
// of jobs whose agents are silent and of VMs that hosts have moved.
package agentapi

import (
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/notify"
)

// API takes what agents send. Its exported methods are use cases of control.Control. What it remembers between requests may be lost
// at any time.
type API struct {
	store    *store.Store
	hub      *notify.Hub // wakes parked claims
	beats    beats
	claims   together[claimant, claimed]
	results  together[result, settled]
	assigned assigned
	vault    auth.Vault // seals the authority's key
	pairURL  string     // where hosts find this very portal
}

// most is how many hosts one statement is for: far more gain nothing, and hold the first ones up.
const most = 200

// New makes an Inbox over s.
func New(s *store.Store, hub *notify.Hub, pairURL string, vault auth.Vault) *API {
	box := &API{store: s, hub: hub, pairURL: pairURL, vault: vault, assigned: assigned{changes: hub.Subscribe(keyAssigned)}}
	box.claims.ask, box.claims.most = box.claimFor, most
	box.results.ask, box.results.most = box.settleAll, most
	return box
}
