// Package placing reads from the database what package placement needs to choose a VM's host: capacity, pools, NICs and
// devices of hosts, and placement rules.
package placing

import "quantix/internal/control/store"

// Placing records violated placement rules. Its exported methods are use cases of control.Control.
type Placing struct{ store *store.Store }

// New returns a Placing that uses the store.
func New(s *store.Store) *Placing { return &Placing{store: s} }
