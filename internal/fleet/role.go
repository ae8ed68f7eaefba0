package fleet

import (
	"slices"
	"strings"
)

// Role is a set of permissions that a user has in all projects or in one project. Roles describes each role.
type Role string

const (
	RoleAdmin    Role = "admin"
	RoleOperator Role = "operator"
	RoleViewer   Role = "viewer"
	RoleMember   Role = "member"
	RoleOwner    Role = "owner"
	RoleNone     Role = "" // no permissions; users have it fleet-wide when they have project roles only
)

// RoleInfo is the entry of a role in Roles. A new role also needs a migration, because the database checks the values
// of users.role and project_members.role.
type RoleInfo struct {
	Role    Role
	Label   string
	Fleet   *Grant // as a role in all projects; nil: not assignable fleet-wide
	Project *Grant // as a role in one project; nil: not assignable in a project
}

// Grant is what a role permits, fleet-wide or in a project.
type Grant struct {
	Summary     string
	Permissions []Permission
}

var readOnly = []Permission{MaySeeVMs, MaySeeStorage, MaySeeTasks}

// Roles are all roles, in the order of the forms.
var Roles = []RoleInfo{
	{RoleNone, "Project roles only", &Grant{"project roles only", nil}, nil},
	{
		RoleViewer, "Viewer",
		&Grant{"sees everything", append([]Permission{MaySeeInfra}, readOnly...)},
		&Grant{"sees the project's VMs", readOnly},
	},
	{RoleMember, "Member", nil, &Grant{"creates and operates VMs", append([]Permission{MayUseVMs, MayChangeVMs}, readOnly...)}},
	{RoleOwner, "Owner", nil, &Grant{"also approves new VMs of others", append([]Permission{MayUseVMs, MayChangeVMs, MayApproveVMs}, readOnly...)}},
	{RoleOperator, "Operator", &Grant{"everything but users, projects and join tokens", permissionsExcept(MayManage)}, nil},
	{RoleAdmin, "Administrator", &Grant{"everything", Permissions}, nil},
}

func permissionsExcept(excluded Permission) []Permission {
	return slices.DeleteFunc(slices.Clone(Permissions), func(p Permission) bool { return p == excluded })
}

// Info returns the role's entry in Roles. For an unknown role it returns the entry of RoleNone.
func (r Role) Info() RoleInfo {
	for _, info := range Roles {
		if info.Role == r {
			return info
		}
	}
	return Roles[0]
}

// Has reports whether the grant includes the permission. A nil grant includes none.
func (g *Grant) Has(p Permission) bool { return g != nil && slices.Contains(g.Permissions, p) }

// FleetRoles are the roles that a user may have in all projects.
func FleetRoles() []RoleInfo { return rolesWhere(func(r RoleInfo) bool { return r.Fleet != nil }) }

// ProjectRoles are the roles that a user may have in one project.
func ProjectRoles() []RoleInfo { return rolesWhere(func(r RoleInfo) bool { return r.Project != nil }) }

func rolesWhere(keep func(RoleInfo) bool) []RoleInfo {
	return slices.DeleteFunc(slices.Clone(Roles), func(r RoleInfo) bool { return !keep(r) })
}

// CheckRole adds an error to field "role" if the role is neither empty nor one of roles.
func CheckRole(c *Checks, role Role, roles []RoleInfo) {
	if role != RoleNone && !slices.ContainsFunc(roles, func(r RoleInfo) bool { return r.Role == role }) {
		c.Add("role", "Choose one of %s, or no role.", strings.Join(RoleNames(roles), ", "))
	}
}

// RoleNames are the stored values of roles, without RoleNone.
func RoleNames(roles []RoleInfo) []string {
	var out []string
	for _, r := range roles {
		if r.Role != RoleNone {
			out = append(out, string(r.Role))
		}
	}
	return out
}
