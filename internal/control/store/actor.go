package store

import (
	"slices"

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
