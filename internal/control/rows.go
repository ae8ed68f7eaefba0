package control

import (
	"quantix/db"
	"quantix/internal/fleet"
)

// vmOf and poolOf turn rows into the fleet's values; rows stay inside control.
func vmOf(r db.VM) fleet.VM {
	return fleet.VM{
		Meta: fleet.Meta{
			ID: r.ID, Name: r.Name, ProjectID: r.ProjectID, HostID: r.HostID, Labels: r.Labels, Description: r.Description,
			Generation: r.Generation, ObservedGeneration: r.ObservedGeneration, Ordered: r.Ordered, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt,
		},
		Spec: r.Spec, Status: r.Status, Elsewhere: r.Elsewhere,
	}
}

func poolOf(r db.Pool) fleet.Pool {
	return fleet.Pool{ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt}
}
