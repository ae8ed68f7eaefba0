// Package people is the room of control for users, their projects, tokens and passwords, and for who somebody is.
package people

import (
	"quantix/internal/control/browse"
	"quantix/internal/control/store"
)

// People knows who is who. Its exported methods are use cases of control.Control.
type People struct {
	store    *store.Store
	browse   *browse.Browse // shows what became of a change
	refusals refusals
}

// New makes a People over s.
func New(s *store.Store, b *browse.Browse) *People { return &People{store: s, browse: b} }
