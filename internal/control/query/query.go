// Package query implements the use cases that only read: lists, the inventory tree, search, completion, the dashboard
// and single objects. It writes only saved views.
package query

import (
	"sync/atomic"

	"quantix/internal/control/metrics"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Queries reads from one PostgreSQL database. Its exported methods are use cases of control.Control.
type Queries struct {
	store    *store.Store
	counters atomic.Pointer[publishedTotals]
	vmCounts vmCounts
	models   atomic.Pointer[cachedCPUModels]

	metricRetention metrics.Retention
	damagedMetrics  *metrics.DamageLog
	newestMetrics   *metrics.Newest

	fleetTotals     totalsCache[fleetTotalsKey, fleetTotals]
	topUsage        totalsCache[topUsageKey, topUsage]
	networkSums     totalsCache[fleet.NetworkID, []networkStatusGroup]
	poolStatuses    poolStatusKind
	networkStatuses networkStatusKind
}

// New returns Queries that use the store. Points of metrics are kept for a time, and damaged ones are logged.
func New(s *store.Store, kept metrics.Retention, damage *metrics.DamageLog, newest *metrics.Newest) *Queries {
	network := func(id fleet.NetworkID) { s.Wake(fleet.SubjectOf(fleet.TypeNetwork, id)) }
	b := &Queries{store: s, metricRetention: kept, damagedMetrics: damage, newestMetrics: newest}
	b.fleetTotals = totalsCache[fleetTotalsKey, fleetTotals]{count: b.computeFleetTotals, hosts: func(w fleetTotals) int { return w.hostSums.hostCount() }, changed: b.notifyPools}
	b.topUsage = totalsCache[topUsageKey, topUsage]{count: b.computeTopUsage, hosts: func(u topUsage) int { return u.objects }}
	b.networkSums = totalsCache[fleet.NetworkID, []networkStatusGroup]{count: b.groupNetworkStatuses, hosts: countNetworkStatuses, changed: notifyIfChanged(equalNetworkStatusGroups, network)}
	b.poolStatuses, b.networkStatuses = newPoolStatuses(b), newNetworkStatuses(b)
	b.poolStatuses.cacheFirstHosts(b.notifyPool)
	b.networkStatuses.cacheFirstHosts(network)
	return b
}

// notifyIfChanged returns a function for totalsCache.changed that calls notify with the key if the two values differ.
func notifyIfChanged[K, V any](same func(a, b V) bool, notify func(K)) func(of K, was, now V) {
	return func(of K, was, now V) {
		if !same(was, now) {
			notify(of)
		}
	}
}

func (b *Queries) notifyPool(id fleet.PoolID) { b.store.Wake(fleet.SubjectPool(id)) }
