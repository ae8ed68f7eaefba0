package people

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// roleIn is the actor's role in a project: the project's own role, or a role over all projects.
func roleIn(a fleet.Actor, project fleet.ProjectID) string {
	if a.Role != fleet.RoleNone {
		return roleWord(a.Role)
	}
	return roleWord(a.Projects[project])
}

// roleWord is the label of a role.
func roleWord(r fleet.Role) string {
	switch r {
	case fleet.RoleAdmin:
		return "Administrator"
	case fleet.RoleOperator:
		return "Operator"
	case fleet.RoleViewer:
		return "Viewer"
	case fleet.RoleMember:
		return "Member"
	}
	return "Project roles only"
}

var memberRoles = []kit.Option{{Value: "member", Text: "Member: creates and runs VMs"}, {Value: "viewer", Text: "Viewer: sees them"}}

var globalRoles = []kit.Option{
	{Value: "", Text: "None: project roles only"},
	{Value: "viewer", Text: "Viewer: sees everything"},
	{Value: "operator", Text: "Operator: everything but users, projects and join tokens"},
	{Value: "admin", Text: "Administrator: everything"},
}
