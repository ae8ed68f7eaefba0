// Package browse is the room of control that answers people: lists, the tree, the search, completion, the overview, and each thing by
// itself. What it changes are views, which are only ways to look.
package browse

import (
	"sync/atomic"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Browse answers from one PostgreSQL. Its exported methods are use cases of control.Control.
type Browse struct {
	store    *store.Store
	counters atomic.Pointer[counters]
	tally    tally
	models   atomic.Pointer[modelsKnown]

	whole             kept[everything, wholeSums]
	networkSums       kept[fleet.NetworkID, []networkSum]
	firstPoolHosts    kept[fleet.PoolID, firstCells]
	firstNetworkHosts kept[fleet.NetworkID, firstCells]
}

// New makes a Browse over s.
func New(s *store.Store) *Browse {
	network := func(id fleet.NetworkID) { s.Wake(fleet.SubjectOf(fleet.NounNetwork, id)) }
	b := &Browse{store: s}
	b.whole = kept[everything, wholeSums]{count: b.sumWhole, hosts: func(w wholeSums) int { return w.hostSums.count() }, changed: b.wakePools}
	b.networkSums = kept[fleet.NetworkID, []networkSum]{count: b.sumNetworks, hosts: cellsIn, changed: telling(sameNetwork, network)}
	b.firstPoolHosts = kept[fleet.PoolID, firstCells]{count: eachFirst(b.findFirstPoolHosts), hosts: firstCells.count, changed: telling(firstCells.same, b.wakePool)}
	b.firstNetworkHosts = kept[fleet.NetworkID, firstCells]{count: eachFirst(b.findFirstNetworkHosts), hosts: firstCells.count, changed: telling(firstCells.same, network)}
	return b
}

// telling tells of what is not the same any more.
func telling[K, V any](same func(a, b V) bool, tell func(K)) func(of K, was, now V) {
	return func(of K, was, now V) {
		if !same(was, now) {
			tell(of)
		}
	}
}

func (b *Browse) wakePool(id fleet.PoolID) { b.store.Wake(fleet.SubjectPool(id)) }
