package store

import (
	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// NoRows is the error that NotFoundError maps to NotFound, for packages that do not import pgx.
var NoRows = pgx.ErrNoRows

// ProjectIDOrEmpty returns the project ID, or an empty ID for a global object.
func ProjectIDOrEmpty(id *fleet.ProjectID) fleet.ProjectID {
	if id == nil {
		return ""
	}
	return *id
}

// SecurityGroupFromRow returns the group of a row.
func SecurityGroupFromRow(r db.SecurityGroup) secgroup.Group {
	return secgroup.Group{
		ID: r.ID, ProjectID: ProjectIDOrEmpty(r.ProjectID), Name: r.Name, Spec: r.Spec, Generation: r.Generation, Revision: r.Revision,
		CreatedAt: r.CreatedAt, DeletedAt: r.DeletedAt,
	}
}
