package store

import (
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/fleet"
)

// UserWith is the user of a row, with the roles in projects.
func UserWith(row db.User, projects []byte) (fleet.User, error) {
	user := UserOf(row)
	var err error
	user.Projects, err = ProjectRoles(projects)
	return user, err
}

// UserOf is the user of a row, without them.
func UserOf(row db.User) fleet.User {
	return fleet.User{
		ID: row.ID, Name: row.Name, Role: row.Role, Projects: map[fleet.ProjectID]fleet.Role{},
		MustChange: row.MustChange, Disabled: row.Disabled, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
	}
}

// ProjectRoles reads the object that the queries of users aggregate.
func ProjectRoles(object []byte) (map[fleet.ProjectID]fleet.Role, error) {
	roles := map[fleet.ProjectID]fleet.Role{}
	if err := json.Unmarshal(object, &roles); err != nil {
		return nil, fmt.Errorf("read project roles: %w", err)
	}
	return roles, nil
}
