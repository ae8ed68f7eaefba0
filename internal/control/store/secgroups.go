package store

import (
	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
)

// NoRows is what NotFound turns into a refusal.
var NoRows = pgx.ErrNoRows

// ProjectOf is the project of what may be the fleet's, and so of none.
func ProjectOf(id *fleet.ProjectID) fleet.ProjectID {
	if id == nil {
		return ""
	}
	return *id
}

// SecurityGroupOf is the group of a row.
func SecurityGroupOf(r db.SecurityGroup) fleet.SecurityGroup {
	return fleet.SecurityGroup{
		ID: r.ID, ProjectID: ProjectOf(r.ProjectID), Name: r.Name, Spec: r.Spec, Generation: r.Generation, Revision: r.Revision,
		CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt,
	}
}
