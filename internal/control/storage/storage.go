// Package storage manages pools with their secrets, and volumes. It also chooses the hosts of volume jobs and queues
// the jobs, for all use cases that make or change volumes.
package storage

import (
	"quantix/internal/auth"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
)

// Storage manages pools and volumes. Its exported methods are use cases of control.Control.
type Storage struct {
	store   *store.Store
	queries *query.Queries // reads the results of changes
	vault   auth.Vault     // seals pool secrets
}

// New returns a Storage that uses the store, the queries and the vault.
func New(s *store.Store, b *query.Queries, v auth.Vault) *Storage {
	return &Storage{store: s, queries: b, vault: v}
}
