// Package identity manages users, their projects, tokens and passwords, and identifies actors.
package identity

import (
	"quantix/internal/control/query"
	"quantix/internal/control/store"
)

// Identity manages users and identifies actors. Its exported methods are use cases of control.Control.
type Identity struct {
	store    *store.Store
	queries  *query.Queries // shows what became of a change
	refusals refusals
}

// New makes a People over s.
func New(s *store.Store, b *query.Queries) *Identity { return &Identity{store: s, queries: b} }
