package people

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ProjectInput is what an administrator says about a project.
type ProjectInput struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (in ProjectInput) check() error {
	var c fleet.Checks
	fleet.CheckName(&c, "name", in.Name)
	fleet.CheckDescription(&c, "description", in.Description)
	return c.Err()
}

// CreateProject makes an empty project without members.
func (p *People) CreateProject(ctx context.Context, a fleet.Actor, in ProjectInput) (fleet.Project, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.check(); err != nil {
		return fleet.Project{}, err
	}
	id := fleet.NewID[fleet.ProjectID]()
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.AddProject(ctx, db.AddProjectParams{ID: id, Name: in.Name, Description: in.Description}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "project.create", projectSubject(id), in.Name, "")
	})
	if err != nil {
		return fleet.Project{}, err
	}
	return p.browse.GetProject(ctx, a, id)
}

// UpdateProject replaces a project's name and description.
func (p *People) UpdateProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID, in ProjectInput) (fleet.Project, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.check(); err != nil {
		return fleet.Project{}, err
	}
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		if _, err := q.ChangeProject(ctx, db.ChangeProjectParams{ID: id, Name: in.Name, Description: in.Description}); err != nil {
			return store.NotFound(err, "project")
		}
		return store.Audit(ctx, q, a, "project.update", projectSubject(id), in.Name, "")
	})
	if err != nil {
		return fleet.Project{}, err
	}
	return p.browse.GetProject(ctx, a, id)
}

// DeleteProject removes a project that has no VMs, with its memberships and the history of its tasks.
func (p *People) DeleteProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		name, err := q.DeleteProject(ctx, id)
		if err != nil {
			return store.NotFound(err, "project")
		}
		return store.Audit(ctx, q, a, "project.delete", projectSubject(id), name, "")
	})
	// The foreign key decides, also against a VM that is being made at this moment.
	const stillReferenced = "23503"
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stillReferenced {
		project, err := p.browse.GetProject(ctx, a, id)
		if err != nil {
			return err
		}
		project.VMs = max(project.VMs, 1)
		_, why := project.Allows(fleet.ActDelete)
		return fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return err
}

func projectSubject(id fleet.ProjectID) fleet.Subject { return fleet.Subject("project:" + string(id)) }
