package identity

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ProjectInput is an administrator's input for a project.
type ProjectInput struct {
	Name        string `json:"name"`
	Description string `json:"description"`

	DefaultPoolID    fleet.PoolID    `json:"defaultPoolId,omitempty" doc:"The pool of new disks for which none is chosen; empty: the only published pool, if there is only one"`
	DefaultNetworkID fleet.NetworkID `json:"defaultNetworkId,omitempty" doc:"The network of new NICs for which none is chosen; empty: the only published network, if there is only one"`

	VMRules *fleet.VMRules `json:"vmRules,omitempty" doc:"What the project sets for its VMs; left out: unchanged"`
}

func (in ProjectInput) checkFields() error {
	var c fleet.Checks
	fleet.CheckName(&c, "name", in.Name)
	fleet.CheckDescription(&c, "description", in.Description)
	return c.Err()
}

// CreateProject creates an empty project without members.
func (p *Identity) CreateProject(ctx context.Context, a fleet.Actor, in ProjectInput) (fleet.Project, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.checkFields(); err != nil {
		return fleet.Project{}, err
	}
	id := fleet.NewID[fleet.ProjectID]()
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.AddProject(ctx, db.AddProjectParams{ID: id, Name: in.Name, Description: in.Description}); err != nil {
			return err
		}
		if err := in.storeDefaults(ctx, q, fleet.Project{ID: id}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "project.create", projectSubject(id), in.Name, in.changes(fleet.VMRules{}))
	})
	if err != nil {
		return fleet.Project{}, err
	}
	return p.queries.GetProject(ctx, a, id)
}

// storeDefaults sets the project's default pool and network, and the rules for its VMs. It rejects a changed default that
// VMs of the project could not use, and invalid rules.
func (in ProjectInput) storeDefaults(ctx context.Context, q *db.Queries, was fleet.Project) error {
	set, err := q.SetProjectDefaults(ctx, db.SetProjectDefaultsParams{PoolID: string(in.DefaultPoolID), NetworkID: string(in.DefaultNetworkID), ID: was.ID})
	if err != nil {
		return store.NotFoundError(err, "project")
	}
	usable, err := q.ProjectDefaults(ctx, was.ID)
	if err != nil {
		return err
	}
	var c fleet.Checks
	switch {
	case in.DefaultPoolID == was.DefaultPoolID, in.DefaultPoolID == "":
	case set.DefaultPoolID == nil:
		c.Add("defaultPoolId", "There is no such pool, or it is being deleted.")
	case usable.PoolID == "":
		c.Add("defaultPoolId", "The pool is not published to this project. Publish it to the project first.")
	default:
		pools, err := q.PoolsForWork(ctx, []string{string(in.DefaultPoolID)})
		if err != nil {
			return err
		}
		for _, p := range pools {
			if !(fleet.PoolView{Pool: store.PoolFromRow(p)}).SupportsNewDisks() {
				c.Add("defaultPoolId", "Quantix cannot make disks in %s, because the storage makes its volumes. Choose another pool.", p.Name)
			}
		}
	}
	switch {
	case in.DefaultNetworkID == was.DefaultNetworkID, in.DefaultNetworkID == "":
	case set.DefaultNetworkID == nil:
		c.Add("defaultNetworkId", "There is no such network, or it is being deleted.")
	case usable.NetworkID == "":
		c.Add("defaultNetworkId", "The network is not published to this project. Publish it to the project first.")
	}
	if err := c.Err(); err != nil || in.VMRules == nil {
		return err
	}
	return flavors.SetRules(ctx, q, was.ID, *in.VMRules, in.DefaultPoolID != "", in.DefaultNetworkID != "")
}

// changes describes the changed rules for the audit log.
func (in ProjectInput) changes(was fleet.VMRules) string {
	if in.VMRules == nil || reflect.DeepEqual(was, *in.VMRules) {
		return ""
	}
	text, _ := json.Marshal(in.VMRules) //nolint:errchkjson // strings and numbers
	return "rules for VMs " + string(text)
}

// UpdateProject replaces a project's name, description, defaults and, if the input has some, rules for VMs.
func (p *Identity) UpdateProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID, in ProjectInput) (fleet.Project, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.checkFields(); err != nil {
		return fleet.Project{}, err
	}
	was, err := p.queries.GetProject(ctx, a, id)
	if err != nil {
		return fleet.Project{}, err
	}
	err = p.store.Tx(ctx, func(q *db.Queries) error {
		if _, err := q.ChangeProject(ctx, db.ChangeProjectParams{ID: id, Name: in.Name, Description: in.Description}); err != nil {
			return store.NotFoundError(err, "project")
		}
		if err := in.storeDefaults(ctx, q, was); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "project.update", projectSubject(id), in.Name, in.changes(was.VMRules))
	})
	if err != nil {
		return fleet.Project{}, err
	}
	return p.queries.GetProject(ctx, a, id)
}

// DeleteProject deletes a project without VMs, together with its memberships and tasks.
func (p *Identity) DeleteProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		name, err := q.DeleteProject(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "project")
		}
		return store.Audit(ctx, q, a, "project.delete", projectSubject(id), name, "")
	})
	// Detect remaining objects of the project by the foreign key violation, because a query would miss VMs that are
	// created concurrently.
	const stillReferenced = "23503"
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stillReferenced {
		project, err := p.queries.GetProject(ctx, a, id)
		if err != nil {
			return err
		}
		if recycled, err := p.store.RecycledInProject(ctx, id); err == nil && project.VMs == 0 && recycled > 0 {
			return fleet.Errorf(fleet.Conflict, "The recycle bin still has %s of the project. Purge or restore them first.", fleet.CountWithUnit(int(recycled), "VM"))
		}
		project.VMs = max(project.VMs, 1)
		_, why := project.Allows(fleet.ActDelete)
		return fleet.RefusalError(why)
	}
	return err
}

func projectSubject(id fleet.ProjectID) fleet.Subject { return fleet.Subject("project:" + string(id)) }
