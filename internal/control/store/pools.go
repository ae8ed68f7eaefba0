package store

import (
	"quantix/db"
	"quantix/internal/fleet"
)

// PoolOf is the pool of a row.
func PoolOf(r db.Pool) fleet.Pool {
	return fleet.Pool{ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt}
}

// PoolsOf lists the pools that a spec names, each once, in order of first mention.
func PoolsOf(s fleet.VMSpec) []string {
	var ids []string
	seen := map[fleet.PoolID]bool{}
	add := func(id fleet.PoolID) {
		if id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, string(id))
		}
	}
	for _, d := range s.Disks {
		add(d.PoolID)
		if d.Image != nil {
			add(d.Image.PoolID)
		}
	}
	if s.ISO != nil {
		add(s.ISO.PoolID)
	}
	return ids
}
