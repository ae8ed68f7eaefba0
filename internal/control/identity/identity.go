// Package identity manages users, projects, tokens and passwords, and authenticates actors.
package identity

import (
	"quantix/internal/control/query"
	"quantix/internal/control/store"
)

// Identity manages users and authenticates actors. Its exported methods are use cases of control.Control.
type Identity struct {
	store    *store.Store
	queries  *query.Queries // reads the results of changes
	refusals auditRefusalLimiter
}

// New returns an Identity that uses the store and the queries.
func New(s *store.Store, b *query.Queries) *Identity { return &Identity{store: s, queries: b} }
