// Package network manages networks with their port groups, grants and reserved addresses, and security groups.
package network

import (
	"quantix/internal/control/query"
	"quantix/internal/control/store"
)

// Networks manages networks and security groups. Its exported methods are use cases of control.Control.
type Networks struct {
	store   *store.Store
	queries *query.Queries // reads the results of changes
}

// New returns Networks that use the store and the queries.
func New(s *store.Store, b *query.Queries) *Networks { return &Networks{store: s, queries: b} }
