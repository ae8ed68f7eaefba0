// Package flavors has the use cases of flavors, and applies the rules of projects for their VMs.
package flavors

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Flavors has the use cases of flavors.
type Flavors struct{ store *store.Store }

// New returns the Flavors in the store's database.
func New(s *store.Store) *Flavors { return &Flavors{s} }

// maxFlavors limits the flavors of the fleet: lists and forms show all.
const maxFlavors = 200

// FlavorChange is the input of UpdateFlavor.
type FlavorChange struct {
	flavor.Definition
	IfGeneration int64 // expected generation; 0: not checked
}

// CreateFlavor creates a flavor that is published to nobody.
func (f *Flavors) CreateFlavor(ctx context.Context, a fleet.Actor, in flavor.Definition) (flavor.Flavor, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return flavor.Flavor{}, err
	}
	var checks fleet.Checks
	in.Check(&checks)
	if err := checks.Err(); err != nil {
		return flavor.Flavor{}, err
	}
	id := fleet.NewID[flavor.ID]()
	err := f.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockFlavorList(ctx); err != nil {
			return err
		}
		n, err := q.CountFlavors(ctx)
		if err != nil {
			return err
		}
		if n >= maxFlavors {
			return fleet.Errorf(fleet.Conflict, "There are %d flavors, which is the maximum. Delete some first.", n)
		}
		add := db.AddFlavorParams{ID: id, Name: in.Name, Description: in.Description, Cpus: in.CPUs, MemoryMib: in.MemoryMiB, DiskBytes: in.DiskBytes}
		if err := q.AddFlavor(ctx, add); err != nil {
			return nameTakenError(err, in.Name)
		}
		return audit(ctx, q, a, "flavor.create", id, in.Name, in.SizeText())
	})
	if err != nil {
		return flavor.Flavor{}, err
	}
	return f.GetFlavor(ctx, a, id)
}

func nameTakenError(err error, name string) error {
	return store.NameTakenError(err, "flavor_name_taken", "A flavor named %q exists already. Choose another name.", name)
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id flavor.ID, name, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeFlavor, id), name, detail)
}

// change calls do with the locked flavor, if the actor may change flavors.
func (f *Flavors) change(ctx context.Context, a fleet.Actor, id flavor.ID, do func(q *db.Queries, row db.Flavor) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(string(id), "flavor"); err != nil {
		return err
	}
	return f.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.LockFlavor(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "flavor")
		}
		return do(q, row)
	})
}

// UpdateFlavor replaces a flavor's name, description and size. VMs of the flavor keep their size.
func (f *Flavors) UpdateFlavor(ctx context.Context, a fleet.Actor, id flavor.ID, in FlavorChange) (flavor.Flavor, error) {
	err := f.change(ctx, a, id, func(q *db.Queries, row db.Flavor) error {
		var checks fleet.Checks
		in.Check(&checks)
		if err := checks.Err(); err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != row.Generation {
			return store.ChangedMeanwhileError("flavor", row.Generation, in.IfGeneration)
		}
		detail := changes(fromRow(row).Definition, in.Definition)
		if detail == "" {
			return nil
		}
		to := db.ChangeFlavorParams{ID: id, Name: in.Name, Description: in.Description, Cpus: in.CPUs, MemoryMib: in.MemoryMiB, DiskBytes: in.DiskBytes}
		if err := q.ChangeFlavor(ctx, to); err != nil {
			return nameTakenError(err, in.Name)
		}
		return audit(ctx, q, a, "flavor.edit", id, in.Name, detail)
	})
	if err != nil {
		return flavor.Flavor{}, err
	}
	return f.GetFlavor(ctx, a, id)
}

// changes describes the differences between two specs for the audit log; empty: none.
func changes(was, is flavor.Definition) string {
	var out []string
	if was.Name != is.Name {
		out = append(out, fmt.Sprintf("name %s → %s", was.Name, is.Name))
	}
	if was.Description != is.Description {
		out = append(out, "description")
	}
	if from, to := was.SizeText(), is.SizeText(); from != to || was.DiskBytes != is.DiskBytes || was.MemoryMiB != is.MemoryMiB {
		out = append(out, fmt.Sprintf("size %s → %s", from, to))
	}
	return strings.Join(out, ", ")
}

// DeleteFlavor deletes a flavor. VMs of the flavor stay.
func (f *Flavors) DeleteFlavor(ctx context.Context, a fleet.Actor, id flavor.ID) error {
	return f.change(ctx, a, id, func(q *db.Queries, row db.Flavor) error {
		if err := q.DeleteFlavor(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "flavor.delete", id, row.Name, "")
	})
}

// GrantFlavor publishes a flavor to a project, or to all projects if project is empty.
func (f *Flavors) GrantFlavor(ctx context.Context, a fleet.Actor, id flavor.ID, project fleet.ProjectID) error {
	return f.setGrant(ctx, a, id, project, "flavor.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantFlavor(ctx, db.GrantFlavorParams{FlavorID: id, ProjectID: of, GrantedBy: a.Name})
	})
}

// RevokeFlavor withdraws a flavor from a project, or from all projects if project is empty. VMs of the flavor stay.
func (f *Flavors) RevokeFlavor(ctx context.Context, a fleet.Actor, id flavor.ID, project fleet.ProjectID) error {
	return f.setGrant(ctx, a, id, project, "flavor.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeFlavor(ctx, db.RevokeFlavorParams{FlavorID: id, ProjectID: of})
	})
}

func (f *Flavors) setGrant(ctx context.Context, a fleet.Actor, id flavor.ID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	return f.change(ctx, a, id, func(q *db.Queries, row db.Flavor) (err error) {
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return audit(ctx, q, a, action, id, row.Name, name)
	})
}

// ListFlavors returns the flavors that the actor may see, by size: those published to one of the actor's projects, or all
// if the actor sees the infrastructure.
func (f *Flavors) ListFlavors(ctx context.Context, a fleet.Actor) ([]flavor.Flavor, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	out, err := readFlavors(ctx, f.store.Queries, a, "")
	return out, store.UserError(err)
}

// GetFlavor returns a flavor that the actor may see.
func (f *Flavors) GetFlavor(ctx context.Context, a fleet.Actor, id flavor.ID) (flavor.Flavor, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return flavor.Flavor{}, err
	}
	if err := store.CheckID(string(id), "flavor"); err != nil {
		return flavor.Flavor{}, err
	}
	all, err := readFlavors(ctx, f.store.Queries, a, id)
	if err == nil && len(all) == 0 {
		err = fleet.Errorf(fleet.NotFound, "There is no such flavor, or you may not see it.")
	}
	if err != nil {
		return flavor.Flavor{}, store.UserError(err)
	}
	return all[0], nil
}

// readFlavors reads the flavors that the actor may see, with their grants; only the one with an ID if id is not empty.
func readFlavors(ctx context.Context, q *db.Queries, a fleet.Actor, id flavor.ID) ([]flavor.Flavor, error) {
	sees, projects := policy.May(a, policy.InfraSee, ""), store.VisibleProjects(a)
	rows, err := q.ListFlavors(ctx, db.ListFlavorsParams{ID: string(id), AllFlavors: sees, Projects: projects})
	if err != nil {
		return nil, err
	}
	grants, err := q.FlavorGrants(ctx, db.FlavorGrantsParams{ID: string(id), AllProjects: policy.SeesAllProjects(a), Projects: projects})
	if err != nil {
		return nil, err
	}
	out, at := make([]flavor.Flavor, 0, len(rows)), map[flavor.ID]int{}
	for i, r := range rows {
		out, at[r.ID] = append(out, fromRow(r)), i
	}
	for _, g := range grants {
		i, listed := at[g.FlavorID]
		if !listed {
			continue // granted meanwhile
		}
		grant := fleet.ImageGrant{ProjectName: g.Project, At: g.GrantedAt}
		if g.ProjectID != nil {
			grant.ProjectID = *g.ProjectID
		}
		if sees {
			grant.By = g.GrantedBy
		}
		out[i].Grants = append(out[i].Grants, grant)
	}
	return out, nil
}

func fromRow(r db.Flavor) flavor.Flavor {
	return flavor.Flavor{
		ID: r.ID, Definition: flavor.Definition{Name: r.Name, Description: r.Description, CPUs: r.Cpus, MemoryMiB: r.MemoryMib, DiskBytes: r.DiskBytes},
		Generation: r.Generation, CreatedAt: r.CreatedAt, Grants: []fleet.ImageGrant{},
	}
}
