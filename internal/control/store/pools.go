package store

import (
	"quantix/db"
	"quantix/internal/fleet"
)

// PoolFromRow returns the pool of a row.
func PoolFromRow(r db.Pool) fleet.Pool {
	return fleet.Pool{ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt}
}
