// Package query reads for people: lists, the inventory tree, search, completion, the overview and single objects. The
// only writes are saved views.
package query

import (
	"sync/atomic"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Queries reads from one PostgreSQL. Its exported methods are use cases of control.Control.
type Queries struct {
	store    *store.Store
	counters atomic.Pointer[counters]
	tally    tally
	models   atomic.Pointer[modelsKnown]

	whole             kept[everything, wholeSums]
	networkSums       kept[fleet.NetworkID, []networkSum]
	firstPoolHosts    kept[fleet.PoolID, firstStatuses]
	firstNetworkHosts kept[fleet.NetworkID, firstStatuses]
}

// New returns Queries over s.
func New(s *store.Store) *Queries {
	network := func(id fleet.NetworkID) { s.Wake(fleet.SubjectOf(fleet.TypeNetwork, id)) }
	b := &Queries{store: s}
	b.whole = kept[everything, wholeSums]{count: b.sumWhole, hosts: func(w wholeSums) int { return w.hostSums.count() }, changed: b.wakePools}
	b.networkSums = kept[fleet.NetworkID, []networkSum]{count: b.sumNetworks, hosts: statusesIn, changed: telling(sameNetwork, network)}
	b.firstPoolHosts = kept[fleet.PoolID, firstStatuses]{count: eachFirst(b.findFirstPoolHosts), hosts: firstStatuses.count, changed: telling(firstStatuses.same, b.wakePool)}
	b.firstNetworkHosts = kept[fleet.NetworkID, firstStatuses]{count: eachFirst(b.findFirstNetworkHosts), hosts: firstStatuses.count, changed: telling(firstStatuses.same, network)}
	return b
}

// telling returns a function that calls tell with the key if the value has changed.
func telling[K, V any](same func(a, b V) bool, tell func(K)) func(of K, was, now V) {
	return func(of K, was, now V) {
		if !same(was, now) {
			tell(of)
		}
	}
}

func (b *Queries) wakePool(id fleet.PoolID) { b.store.Wake(fleet.SubjectPool(id)) }
