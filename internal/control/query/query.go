// Package query answers read requests of users: lists, the inventory tree, search, completion, the overview and single
// objects. It writes only saved views.
package query

import (
	"sync/atomic"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Queries reads from one PostgreSQL database. Its exported methods are use cases of control.Control.
type Queries struct {
	store    *store.Store
	counters atomic.Pointer[counters]
	vmCounts vmCounts
	models   atomic.Pointer[cachedCPUModels]

	fleetTotals       totalsCache[fleetKey, fleetTotals]
	networkSums       totalsCache[fleet.NetworkID, []networkSum]
	firstPoolHosts    totalsCache[fleet.PoolID, firstStatuses]
	firstNetworkHosts totalsCache[fleet.NetworkID, firstStatuses]
}

// New returns Queries over s.
func New(s *store.Store) *Queries {
	network := func(id fleet.NetworkID) { s.Wake(fleet.SubjectOf(fleet.TypeNetwork, id)) }
	b := &Queries{store: s}
	b.fleetTotals = totalsCache[fleetKey, fleetTotals]{count: b.sumFleet, hosts: func(w fleetTotals) int { return w.hostSums.count() }, changed: b.wakePools}
	b.networkSums = totalsCache[fleet.NetworkID, []networkSum]{count: b.sumNetworks, hosts: statusesIn, changed: notifyChanged(sameNetwork, network)}
	b.firstPoolHosts = totalsCache[fleet.PoolID, firstStatuses]{count: forEachObject(b.findFirstPoolHosts), hosts: firstStatuses.count, changed: notifyChanged(firstStatuses.same, b.wakePool)}
	b.firstNetworkHosts = totalsCache[fleet.NetworkID, firstStatuses]{count: forEachObject(b.findFirstNetworkHosts), hosts: firstStatuses.count, changed: notifyChanged(firstStatuses.same, network)}
	return b
}

// notifyChanged returns a function that calls notify with the key if the value has changed.
func notifyChanged[K, V any](same func(a, b V) bool, notify func(K)) func(of K, was, now V) {
	return func(of K, was, now V) {
		if !same(was, now) {
			notify(of)
		}
	}
}

func (b *Queries) wakePool(id fleet.PoolID) { b.store.Wake(fleet.SubjectPool(id)) }
