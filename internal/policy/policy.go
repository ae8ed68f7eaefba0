// Package policy decides permissions and derives health from reports. It is pure: no clock, no database, no network.
package policy

import "quantix/internal/fleet"

// Permission is one operation that an actor may be allowed to do.
type Permission = fleet.Permission

// Permissions named in the tables of resource types and job kinds.
const (
	VMSee       = fleet.MaySeeVMs
	VMUse       = fleet.MayUseVMs
	VMChange    = fleet.MayChangeVMs
	VMApprove   = fleet.MayApproveVMs
	InfraSee    = fleet.MaySeeInfra
	StorageSee  = fleet.MaySeeStorage
	InfraChange = fleet.MayChangeInfra
	TasksSee    = fleet.MaySeeTasks
	Manage      = fleet.MayManage
)

// Permissions outside those tables.
const (
	OwnAccount Permission = "manage one's own account" // every signed-in user, even before a required password change
	ActAsAgent Permission = "act as a host's agent"    // agents
)

// Check returns an error if the actor lacks the permission. project matters only for VM permissions; empty then means
// "any project". Codes: Unauthorized (not signed in), NotFound (may not see the project), Forbidden.
func Check(a fleet.Actor, r Permission, project fleet.ProjectID) error {
	switch {
	case a.System:
		return nil
	case r == ActAsAgent:
		if a.HostID == "" {
			return fleet.Errorf(fleet.Unauthorized, "Only a joined host's agent may do this.")
		}
		return nil
	case a.UserID == "":
		return fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	case r == OwnAccount:
		return nil
	case a.MustChangePassword:
		return fleet.Errorf(fleet.Forbidden, "Change your password first.")
	case hasPermission(a, r, project):
		return nil
	case (r == VMUse || r == VMChange || r == VMSee) && project != "" && !hasPermission(a, VMSee, project):
		return fleet.Errorf(fleet.NotFound, "There is no such object, or you may not see it.")
	}
	return fleet.Errorf(fleet.Forbidden, "You do not have permission to %s. Ask an administrator.", string(r))
}

// CheckOwner refuses actors who may not change the objects of a project, or fleet-wide objects if project is empty.
func CheckOwner(a fleet.Actor, project fleet.ProjectID) error {
	if project == "" {
		return Check(a, InfraChange, "")
	}
	return Check(a, VMChange, project)
}

// May reports whether Check allows the actor.
func May(a fleet.Actor, r Permission, project fleet.ProjectID) bool {
	return Check(a, r, project) == nil
}

func hasPermission(a fleet.Actor, r Permission, project fleet.ProjectID) bool {
	if a.Role.Info().Fleet.Has(r) {
		return true
	}
	if project != "" {
		return a.Projects[project].Info().Project.Has(r)
	}
	for _, role := range a.Projects {
		if role.Info().Project.Has(r) {
			return true
		}
	}
	return false
}

// SeesAllProjects reports whether the actor sees VMs of every project.
func SeesAllProjects(a fleet.Actor) bool {
	return a.System || a.Role.Info().Fleet.Has(VMSee)
}
