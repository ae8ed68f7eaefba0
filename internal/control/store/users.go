package store

import (
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/fleet"
)

// UserWithProjects returns the user of a row with the roles in projects.
func UserWithProjects(row db.User, projects []byte) (fleet.User, error) {
	user := UserFromRow(row)
	var err error
	user.Projects, err = DecodeProjectRoles(projects)
	return user, err
}

// UserFromRow returns the user of a row without roles in projects.
func UserFromRow(row db.User) fleet.User {
	return fleet.User{
		ID: row.ID, Name: row.Name, Role: row.Role, Projects: map[fleet.ProjectID]fleet.Role{},
		MustChangePassword: row.MustChange, Disabled: row.Disabled, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
	}
}

// DecodeProjectRoles decodes the JSON object of roles that user queries aggregate.
func DecodeProjectRoles(object []byte) (map[fleet.ProjectID]fleet.Role, error) {
	roles := map[fleet.ProjectID]fleet.Role{}
	if err := json.Unmarshal(object, &roles); err != nil {
		return nil, fmt.Errorf("read project roles: %w", err)
	}
	return roles, nil
}
