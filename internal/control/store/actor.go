package store

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ActorUserID returns the actor's user ID for a nullable column.
func ActorUserID(a fleet.Actor) *fleet.UserID {
	if a.UserID == "" {
		return nil
	}
	return &a.UserID
}

// VisibleProjects returns the projects whose VMs the actor may see, sorted.
func VisibleProjects(a fleet.Actor) []string { return ProjectsWithPermission(a, policy.VMSee) }

// ProjectsWithPermission returns the projects where the actor has the permission, sorted.
func ProjectsWithPermission(a fleet.Actor, r policy.Permission) []string {
	ids := []string{}
	for id := range a.Projects {
		if policy.May(a, r, id) {
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// CheckSystemActor returns Forbidden unless the actor is the portal itself.
func CheckSystemActor(a fleet.Actor) error {
	if !a.System {
		return fleet.Errorf(fleet.Forbidden, "Only the portal itself may do this.")
	}
	return nil
}

// ToStrings converts values to strings for a SQL array.
func ToStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// ActorNow returns the user with the ID as an actor with the current permissions. It refuses if the account is deleted or
// disabled; name is then that of the user. A nil ID is that of a deleted account.
func ActorNow(ctx context.Context, q *db.Queries, id *fleet.UserID, name string) (a fleet.Actor, err error) {
	gone := fleet.Errorf(fleet.Conflict, "The account of %s is deleted or disabled.", name)
	if id == nil {
		return a, gone
	}
	row, err := q.UserNow(ctx, *id)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, gone
	}
	if err != nil {
		return a, err
	}
	a = fleet.Actor{UserID: row.ID, Name: row.Name, Role: row.Role}
	a.Projects, err = DecodeProjectRoles(row.Projects)
	return a, err
}
