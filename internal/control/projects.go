package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
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

// ListProjects returns the projects that the actor sees, by name. VMs is as old as the counters.
func (c *Control) ListProjects(ctx context.Context, a fleet.Actor) ([]fleet.Project, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	rows, err := c.q.ListProjects(ctx, db.ListProjectsParams{AllOfThem: policy.AllProjects(a), Ids: projectsOf(a)})
	if err != nil {
		return nil, dbError(err)
	}
	n, err := c.counted(ctx)
	if err != nil {
		return nil, err
	}
	projects := make([]fleet.Project, len(rows))
	for i, row := range rows {
		projects[i] = projectOf(row, n.projects[row.ID].vms)
	}
	return projects, nil
}

// GetProject returns one project that the actor sees.
func (c *Control) GetProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID) (fleet.Project, error) {
	if err := policy.Check(a, policy.VMSee, id); err != nil {
		return fleet.Project{}, noProject(err)
	}
	row, err := c.q.GetProject(ctx, id)
	if err != nil {
		return fleet.Project{}, notFound(err, "project")
	}
	vms, err := c.vmCount(ctx, id)
	return projectOf(row, vms), err
}

// CreateProject makes an empty project without members.
func (c *Control) CreateProject(ctx context.Context, a fleet.Actor, in ProjectInput) (project fleet.Project, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.check(); err != nil {
		return fleet.Project{}, err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		row, err := q.AddProject(ctx, db.AddProjectParams{
			ID: fleet.NewID[fleet.ProjectID](), Name: in.Name, Description: in.Description,
		})
		if err != nil {
			return err
		}
		project = projectOf(row, 0)
		return audit(ctx, q, a, "project.create", projectSubject(row.ID), row.Name, "")
	})
	return project, err
}

// UpdateProject replaces a project's name and description.
func (c *Control) UpdateProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID, in ProjectInput) (project fleet.Project, err error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return fleet.Project{}, err
	}
	if err := in.check(); err != nil {
		return fleet.Project{}, err
	}
	vms, err := c.vmCount(ctx, id)
	if err != nil {
		return fleet.Project{}, err
	}
	err = c.tx(ctx, func(q *db.Queries) error {
		row, err := q.ChangeProject(ctx, db.ChangeProjectParams{ID: id, Name: in.Name, Description: in.Description})
		if err != nil {
			return notFound(err, "project")
		}
		project = projectOf(row, vms)
		return audit(ctx, q, a, "project.update", projectSubject(id), row.Name, "")
	})
	return project, err
}

// DeleteProject removes a project that has no VMs, with its memberships and the history of its tasks.
func (c *Control) DeleteProject(ctx context.Context, a fleet.Actor, id fleet.ProjectID) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	err := c.tx(ctx, func(q *db.Queries) error {
		name, err := q.DeleteProject(ctx, id)
		if err != nil {
			return notFound(err, "project")
		}
		return audit(ctx, q, a, "project.delete", projectSubject(id), name, "")
	})
	// The foreign key decides, also against a VM that is being made at this moment.
	const stillReferenced = "23503"
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == stillReferenced {
		return fleet.Errorf(fleet.Conflict, "The project still has VMs. Delete them first.")
	}
	return err
}

func projectSubject(id fleet.ProjectID) fleet.Subject { return fleet.Subject("project:" + string(id)) }

// noProject makes the refusal of a project that may not be seen read like that of one that does not exist.
func noProject(err error) error {
	if fleet.CodeOf(err) == fleet.NotFound {
		return fleet.Errorf(fleet.NotFound, "There is no such project.")
	}
	return err
}

func projectOf(row db.Project, vms int) fleet.Project {
	return fleet.Project{ID: row.ID, Name: row.Name, Description: row.Description, CreatedAt: row.CreatedAt, VMs: vms}
}
