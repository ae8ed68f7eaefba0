package storage

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/publishing"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CreatePool is the input of Storage.CreatePool.
type CreatePool struct {
	Name    string         `json:"name"`
	Spec    fleet.PoolSpec `json:"spec"`
	HostIDs []fleet.HostID `json:"hostIds"`
	Secret  string         `json:"secret,omitempty" doc:"The secret with which hosts log in to the storage as spec.user: a CHAP password, or a Ceph key. No response contains it"`

	// Label selector of the hosts to which the pool is assigned automatically, now and later, such as "rack=4, ssd".
	Selector string `json:"selector,omitempty"`
	// Projects to which the pool is published from the start.
	Publish []string `json:"publish,omitempty" doc:"IDs of projects that may use the pool, or all; none: no project"`
}

// CreatePool writes a new pool and queues its set-up on each host.
func (st *Storage) CreatePool(ctx context.Context, a fleet.Actor, in CreatePool) (fleet.PoolView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.PoolView{}, err
	}
	if in.Spec.Kind.Info().Shared {
		in.Spec.Shared = true
	}
	in.Spec.Path, in.Spec.Export, in.Spec.Device = trimTrailingSlash(in.Spec.Path), trimTrailingSlash(in.Spec.Export), trimTrailingSlash(in.Spec.Device)
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, "spec")
	in.Spec.CheckSecret(&checks, "secret", in.Secret)
	selector := fleet.ParseSelector(&checks, "selector", in.Selector)
	if err := checks.Err(); err != nil {
		return fleet.PoolView{}, err
	}
	id := fleet.NewID[fleet.PoolID]()
	err := st.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.AddPool(ctx, db.AddPoolParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return err
		}
		if in.Secret != "" {
			if err := st.storePoolSecret(ctx, q, a, id, in.Secret); err != nil {
				return err
			}
		}
		pool := assign.NewPoolObject(id, in.Name, in.Spec)
		if _, err := pool.Assign(ctx, q, a, in.HostIDs); err != nil {
			return err
		}
		if err := pool.Audit(ctx, q, a, "create", in.Spec.Source()); err != nil {
			return err
		}
		if err := publishing.PublishNewPool(ctx, q, a, id, in.Publish); err != nil {
			return err
		}
		_, _, err := pool.SetSelector(ctx, q, a, selector)
		return err
	})
	if err != nil {
		return fleet.PoolView{}, err
	}
	return st.queries.GetPool(ctx, a, id)
}

func trimTrailingSlash(path string) string {
	if len(path) > 1 {
		return strings.TrimSuffix(path, "/")
	}
	return path
}
