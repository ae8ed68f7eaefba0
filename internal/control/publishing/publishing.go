// Package publishing publishes pools, networks, device classes and fleet-wide customization specs to projects. VMs of a project may use
// only what is published to the project or to all projects, and members of a project see only this.
package publishing

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Publishing publishes pools, networks and customization specs. Its exported methods are use cases of control.Control.
type Publishing struct{ store *store.Store }

// New returns a Publishing that uses the store.
func New(s *store.Store) *Publishing { return &Publishing{s} }

// GrantPool publishes a pool to a project, or to all projects if project is empty.
func (p *Publishing) GrantPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, project fleet.ProjectID) error {
	return p.changeGrant(ctx, a, poolGrant(a, id), "grant", project)
}

// RevokePool withdraws a pool. VMs keep their disks in it.
func (p *Publishing) RevokePool(ctx context.Context, a fleet.Actor, id fleet.PoolID, project fleet.ProjectID) error {
	return p.changeGrant(ctx, a, poolGrant(a, id), "revoke", project)
}

// GrantNetwork publishes a network to a project, or to all projects if project is empty.
func (p *Publishing) GrantNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return p.changeGrant(ctx, a, networkGrant(a, id), "grant", project)
}

// RevokeNetwork withdraws a network. VMs keep their NICs on it.
func (p *Publishing) RevokeNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return p.changeGrant(ctx, a, networkGrant(a, id), "revoke", project)
}

// grant holds the statements that lock an object and change its grants. A nil project means all projects.
type grant struct {
	subject        fleet.Subject
	noun           string // in errors
	audited        string // in audit actions; empty: as in errors
	id             string
	lock           func(context.Context, *db.Queries) (name string, err error)
	insert, remove func(context.Context, *db.Queries, *fleet.ProjectID) (int64, error)
}

func poolGrant(a fleet.Actor, id fleet.PoolID) grant {
	return grant{
		subject: fleet.SubjectPool(id), noun: "pool", id: string(id),
		lock: func(ctx context.Context, q *db.Queries) (string, error) { return q.ShareLockPool(ctx, id) },
		insert: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.GrantPool(ctx, db.GrantPoolParams{PoolID: id, ProjectID: project, GrantedBy: a.Name})
		},
		remove: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.RevokePool(ctx, db.RevokePoolParams{PoolID: id, ProjectID: project})
		},
	}
}

func networkGrant(a fleet.Actor, id fleet.NetworkID) grant {
	return grant{
		subject: fleet.SubjectNetwork(id), noun: "network", id: string(id),
		lock: func(ctx context.Context, q *db.Queries) (string, error) { return q.ShareLockNetwork(ctx, id) },
		insert: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.GrantNetwork(ctx, db.GrantNetworkParams{NetworkID: id, ProjectID: project, GrantedBy: a.Name})
		},
		remove: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.RevokeNetwork(ctx, db.RevokeNetworkParams{NetworkID: id, ProjectID: project})
		},
	}
}

// changeGrant grants or revokes, as verb says. Without a change, it writes no audit line.
func (p *Publishing) changeGrant(ctx context.Context, a fleet.Actor, g grant, verb string, project fleet.ProjectID) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(g.id, g.noun); err != nil {
		return err
	}
	return p.store.Tx(ctx, func(q *db.Queries) error {
		_, err := g.change(ctx, q, a, verb, project)
		return err
	})
}

// change works like changeGrant in a transaction, and returns the object's name.
func (g grant) change(ctx context.Context, q *db.Queries, a fleet.Actor, verb string, project fleet.ProjectID) (object string, err error) {
	if object, err = g.lock(ctx, q); err != nil {
		return "", store.NotFoundError(err, g.noun)
	}
	name, of := "all projects", (*fleet.ProjectID)(nil)
	if project != "" {
		if name, err = q.ProjectName(ctx, project); err != nil {
			return "", store.NotFoundError(err, "project")
		}
		of = &project
	}
	change := g.insert
	if verb == "revoke" {
		change = g.remove
	}
	changed, err := change(ctx, q, of)
	if err != nil || changed == 0 {
		return object, err
	}
	return object, store.Audit(ctx, q, a, cmp.Or(g.audited, g.noun)+"."+verb, g.subject, object, name)
}

// PublishPool publishes a pool to a project in a transaction, and returns the pool's name. The caller checks the
// permission.
func PublishPool(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.PoolID, project fleet.ProjectID) (string, error) {
	return poolGrant(a, id).change(ctx, q, a, "grant", project)
}

// PublishNetwork publishes a network to a project in a transaction, and returns the network's name. The caller checks
// the permission.
func PublishNetwork(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) (string, error) {
	return networkGrant(a, id).change(ctx, q, a, "grant", project)
}

// AllProjects stands for all projects in a list of projects.
const AllProjects = "all"

// maxPublished is the number of projects that a new pool or network can be published to at once.
const maxPublished = 200

// PublishNewPool publishes a pool that the transaction creates, to projects or to AllProjects.
func PublishNewPool(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.PoolID, to []string) error {
	return poolGrant(a, id).publishNew(ctx, q, a, to)
}

// PublishNewNetwork works like PublishNewPool.
func PublishNewNetwork(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.NetworkID, to []string) error {
	return networkGrant(a, id).publishNew(ctx, q, a, to)
}

func (g grant) publishNew(ctx context.Context, q *db.Queries, a fleet.Actor, to []string) error {
	var checks fleet.Checks
	if len(to) > maxPublished {
		checks.Add("publish", "Choose at most %d projects, or all projects.", maxPublished)
		return checks.Err()
	}
	for _, project := range to {
		of := fleet.ProjectID(project)
		if project == AllProjects {
			of = ""
		} else if project == "" { // it would be all projects
			checks.Add("publish", "There is no project without an ID. Choose other projects.")
			continue
		}
		if _, err := g.change(ctx, q, a, "grant", of); fleet.CodeOf(err) == fleet.NotFound {
			checks.Add("publish", "There is no project %q. Choose other projects.", project)
		} else if err != nil {
			return err
		}
	}
	return checks.Err()
}

// CheckPools refuses disks in pools that are not published to the project. An unknown pool and an unpublished one get
// the same text, so that the error does not reveal which pools exist. Actors who may change infrastructure may use any
// pool.
func CheckPools(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, disks []fleet.Disk) error {
	if len(disks) == 0 || policy.May(a, policy.InfraChange, "") {
		return nil
	}
	unpublished, err := q.PoolsUnpublished(ctx, db.PoolsUnpublishedParams{Ids: store.ToStrings(fleet.VMSpec{Disks: disks}.Pools()), Projects: []string{string(project)}})
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for i, d := range disks {
		if slices.Contains(unpublished, string(d.PoolID)) {
			checks.Add(fmt.Sprintf("spec.disks[%d].poolId", i), "There is no such pool, or none that is published to the project. Choose another pool.")
		}
	}
	return checks.Err()
}
