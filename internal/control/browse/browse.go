// Package browse is the room of control that answers people: lists, the tree, the search, completion, the overview, and each thing by
// itself. What it changes are views, which are only ways to look.
package browse

import (
	"sync/atomic"

	"quantix/internal/control/store"
)

// Browse answers from one PostgreSQL. Its exported methods are use cases of control.Control.
type Browse struct {
	store    *store.Store
	counters atomic.Pointer[counters]
	tally    tally
}

// New makes a Browse over s.
func New(s *store.Store) *Browse { return &Browse{store: s} }
