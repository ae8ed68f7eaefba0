package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
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

var projectOrders = orders[fleet.Project]{
	"name":    {[]column{textColumn("p.name"), textColumn("p.id")}, func(p fleet.Project) []string { return []string{p.Name, string(p.ID)} }},
	"created": {[]column{timeColumn("p.created_at"), textColumn("p.id")}, func(p fleet.Project) []string { return []string{stamp(p.CreatedAt), string(p.ID)} }},
}

// ListProjects returns one page of the projects that the actor sees. VMs is as old as the counters. Sorts: name (its own), created.
func (c *Control) ListProjects(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Project], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.Project]{}, err
	}
	p, err := projectOrders.page(q, "name")
	if err != nil {
		return fleet.Page[fleet.Project]{}, err
	}
	var s statement
	s.visible(a, "p.id", q.Project)
	if err := s.byName(fleet.ProjectKeys, q.Filter, "p.name"); err != nil {
		return fleet.Page[fleet.Project]{}, err
	}
	n, err := c.counted(ctx)
	if err != nil {
		return fleet.Page[fleet.Project]{}, err
	}
	tail := p.apply(&s)
	items, err := collect(ctx, c, "SELECT p.id, p.name, p.description, p.created_at FROM projects p"+s.conditions()+tail, &s,
		func(x pgx.CollectableRow) (v fleet.Project, err error) {
			err = x.Scan(&v.ID, &v.Name, &v.Description, &v.CreatedAt)
			v.VMs = n.projects[v.ID].vms
			return v, err
		})
	return p.cut(items), err
}

// byName adds the terms of a filter that knows no key but the name.
func (s *statement) byName(keys fleet.FilterKeys, filter, column string) error {
	terms, err := fleet.ParseFilter(keys, filter)
	for _, t := range terms {
		s.not(t.Not, s.text("lower("+column+")", lower(t.Any)))
	}
	return err
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
		n, err := c.vmCount(ctx, id)
		if err != nil {
			return err
		}
		_, why := fleet.Project{VMs: max(n, 1)}.Allows(fleet.ActDelete)
		return fleet.Errorf(fleet.Conflict, "%s", why)
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
