package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// roleInProjectText is the label of the actor's role in a project: the fleet-wide role if the actor has one, else the
// project role.
func roleInProjectText(a fleet.Actor, project fleet.ProjectID) string {
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

var globalRoleOptions = []kit.Option{
	{Value: "", Text: "None: project roles only"},
	{Value: "viewer", Text: "Viewer: sees everything"},
	{Value: "operator", Text: "Operator: everything but users, projects and join tokens"},
	{Value: "admin", Text: "Administrator: everything"},
}
