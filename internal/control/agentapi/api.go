// Package agentapi implements the agent API: joining, sessions, reports, claims and results of jobs. It also requeues
// jobs of offline agents, and reassigns VMs that run on another host.
package agentapi

import (
	"quantix/internal/auth"
	"quantix/internal/control/metrics"
	"quantix/internal/control/store"
	"quantix/internal/notify"
)

// API serves agents. Its exported methods are use cases of control.Control. Its state in memory is only a cache and may
// be lost at any time.
type API struct {
	store           *store.Store
	hub             *notify.Hub // wakes claims that wait for jobs
	samples         *metrics.Writer
	heartbeats      heartbeatBatcher
	claims          callBatcher[claimingHost, claimResult]
	results         callBatcher[jobResult, resultOutcome]
	assignmentCache assignmentCache
	vault           auth.Vault // seals the certificate authority's key
	relayURL        string     // URL of this portal's relay, for hosts
}

// maxBatchSize is the maximum number of hosts served by one statement. Larger batches would save little and delay the
// first callers.
const maxBatchSize = 200

// New returns an API over s.
func New(s *store.Store, hub *notify.Hub, samples *metrics.Writer, pairURL string, vault auth.Vault) *API {
	api := &API{store: s, hub: hub, samples: samples, relayURL: pairURL, vault: vault, assignmentCache: assignmentCache{changes: hub.Subscribe(assignmentsChangedKey)}}
	api.claims.process, api.claims.maxBatch = api.claimBatch, maxBatchSize
	api.results.process, api.results.maxBatch = api.processResults, maxBatchSize
	return api
}
