// Package placing reads the facts with which package placement chooses a VM's host: capacity, pools, NICs and devices
// of hosts, and placement rules.
package placing

import "quantix/internal/control/store"

// Placing checks placement rules periodically. Its exported methods are use cases of control.Control.
type Placing struct{ store *store.Store }

// New returns a Placing over s.
func New(s *store.Store) *Placing { return &Placing{store: s} }
