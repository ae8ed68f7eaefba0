package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// roleIn is the label of the actor's role in a project: the fleet-wide role if the actor has one, else the project role.
func roleIn(a fleet.Actor, project fleet.ProjectID) string {
	if a.Role != fleet.RoleNone {
		return a.Role.Info().Label
	}
	return a.Projects[project].Info().Label
}

func projectRoleOptions() []kit.Option {
	var out []kit.Option
	for _, r := range fleet.ProjectRoles() {
		out = append(out, kit.Option{Value: string(r.Role), Text: r.Label + ": " + r.Project.Summary})
	}
	return out
}

func fleetRoleOptions() []kit.Option {
	var out []kit.Option
	for _, r := range fleet.FleetRoles() {
		text := r.Label + ": " + r.Fleet.Summary
		if r.Role == fleet.RoleNone {
			text = "None: " + r.Fleet.Summary
		}
		out = append(out, kit.Option{Value: string(r.Role), Text: text})
	}
	return out
}
