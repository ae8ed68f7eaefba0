package store

import (
	"quantix/db"
	"quantix/internal/fleet"
)

// NetworkFromRow returns the network of a row.
func NetworkFromRow(r db.Network) fleet.Network {
	return fleet.Network{ID: r.ID, Name: r.Name, Kind: r.Kind, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt, Peers: r.Peers}
}
