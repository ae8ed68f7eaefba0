package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// AdoptPool is the input of Storage.AdoptPool.
type AdoptPool struct {
	HostIDs []fleet.HostID `json:"hostIds,omitempty" doc:"Further hosts with an equal pool of this name, which the pool is assigned to as well"`
}

// AdoptPool makes a host's own pool a Quantix pool and assigns it to the host. If Quantix has a pool with this name and
// location, it assigns that one. It refuses a pool that Quantix cannot express, and further hosts without an equal pool.
// Hosts never change the definition of an adopted pool.
func (st *Storage) AdoptPool(ctx context.Context, a fleet.Actor, host fleet.HostID, name string, in AdoptPool) (fleet.PoolView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.PoolView{}, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return fleet.PoolView{}, err
	}
	var id fleet.PoolID
	err := st.store.Tx(ctx, func(q *db.Queries) error {
		hosts := append([]fleet.HostID{host}, in.HostIDs...)
		rows, err := q.DiscoveredPoolsNamed(ctx, db.DiscoveredPoolsNamedParams{Name: name, HostID: string(host), Hosts: store.ToStrings(hosts), Most: int32(len(hosts))})
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].ID != host {
			return fleet.Errorf(fleet.NotFound, "The host reports no pool named %q that could be adopted.", name)
		}
		found, existing, err := discoveredPool(ctx, q, rows[0])
		if err != nil {
			return err
		}
		if found.Refusal != "" {
			return fleet.RefusalError(found.Refusal)
		}
		if err := checkEqualPools(rows, *found.Spec, name, in.HostIDs); err != nil {
			return err
		}
		pool, err := adoptedPoolObject(ctx, q, found, existing)
		if err != nil {
			return err
		}
		id = fleet.PoolID(pool.ID())
		if _, err := pool.Assign(ctx, q, a, hosts); err != nil {
			return err
		}
		return pool.Audit(ctx, q, a, "adopt", fmt.Sprintf("%s of %s, on %d hosts", found.Spec.Source(), rows[0].Name, 1+len(in.HostIDs)))
	})
	if err != nil {
		return fleet.PoolView{}, err
	}
	return st.queries.GetPool(ctx, a, id)
}

// discoveredPool reads the reported pool, and the Quantix pool with its name; nil: there is none.
func discoveredPool(ctx context.Context, q *db.Queries, r db.DiscoveredPoolsNamedRow) (fleet.DiscoveredPool, *fleet.Pool, error) {
	var found fleet.DiscoveredPool
	if err := json.Unmarshal(r.Pool, &found); err != nil {
		return found, nil, err
	}
	named, err := q.PoolsNamed(ctx, []string{found.Name})
	if err != nil || len(named) == 0 {
		return adoption.BesideQuantixPool(found, nil), nil, err
	}
	existing := store.PoolFromRow(named[0])
	return adoption.BesideQuantixPool(found, &existing), &existing, nil
}

// checkEqualPools refuses hosts that do not report an equal pool.
func checkEqualPools(rows []db.DiscoveredPoolsNamedRow, spec fleet.PoolSpec, name string, hosts []fleet.HostID) error {
	var checks fleet.Checks
	for _, h := range hosts {
		i := slices.IndexFunc(rows, func(r db.DiscoveredPoolsNamedRow) bool { return r.ID == h })
		var other fleet.DiscoveredPool
		if i >= 0 {
			if err := json.Unmarshal(rows[i].Pool, &other); err != nil {
				return err
			}
		}
		if other.Spec == nil || !adoption.SameStorage(*other.Spec, spec) {
			checks.Add("hostIds", "One of the hosts reports no pool named %s at %s. Reload and choose again.", name, spec.Source())
		}
	}
	return checks.Err()
}

// adoptedPoolObject returns the existing pool, or creates the pool if existing is nil.
func adoptedPoolObject(ctx context.Context, q *db.Queries, found fleet.DiscoveredPool, existing *fleet.Pool) (assign.AssignableObject, error) {
	if existing != nil {
		return assign.PoolType.LockObject(ctx, q, string(existing.ID))
	}
	spec := *found.Spec
	spec.Shared = spec.Kind.Info().Shared
	if why := adoption.WhyUnsupported(found.Name, spec.Check); why != "" { // the host's agent checked the same
		return assign.AssignableObject{}, fleet.RefusalError(why)
	}
	id := fleet.NewID[fleet.PoolID]()
	err := q.AddPool(ctx, db.AddPoolParams{ID: id, Name: found.Name, Spec: spec})
	return assign.NewPoolObject(id, found.Name, spec), err
}
