package store

import (
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UserIDOf is the person's id for a column; nil: nobody's.
func UserIDOf(a fleet.Actor) *fleet.UserID {
	if a.UserID == "" {
		return nil
	}
	return &a.UserID
}

// ProjectsOf lists the projects in which the actor sees VMs, sorted.
func ProjectsOf(a fleet.Actor) []string { return ProjectsWith(a, policy.VMSee) }

// ProjectsWith lists the actor's projects in which it has the right, sorted.
func ProjectsWith(a fleet.Actor, r policy.Permission) []string {
	ids := []string{}
	for id := range a.Projects {
		if policy.May(a, r, id) {
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// OnlySystem refuses everybody but the portal itself.
func OnlySystem(a fleet.Actor) error {
	if !a.System {
		return fleet.Errorf(fleet.Forbidden, "Only the portal itself may do this.")
	}
	return nil
}

// Texts are ids and other names as SQL takes them.
func Texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
