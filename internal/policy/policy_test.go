package policy_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	ownProject   fleet.ProjectID = "mine"
	otherProject fleet.ProjectID = "other"
)

// tablePermissions are the columns of the table below.
var tablePermissions = []policy.Permission{
	policy.VMSee, policy.VMUse, policy.VMChange, policy.InfraSee, policy.StorageSee,
	policy.InfraChange, policy.TasksSee, policy.Manage, policy.OwnAccount, policy.ActAsAgent, policy.VMApprove,
}

// outcomeLetters are the letters of the table below.
var outcomeLetters = map[fleet.ErrorCode]byte{"": '+', fleet.Unauthorized: 'u', fleet.Forbidden: 'f', fleet.NotFound: 'n'}

func actorWithRoles(role fleet.Role, projects map[fleet.ProjectID]fleet.Role) fleet.Actor {
	return fleet.Actor{UserID: "u", Name: "sam", Role: role, Projects: projects}
}

func roleInOwnProject(role fleet.Role) map[fleet.ProjectID]fleet.Role {
	return map[fleet.ProjectID]fleet.Role{ownProject: role}
}

func TestPermissionsDependOnRoleAndProject(t *testing.T) {
	t.Parallel()
	fresh := actorWithRoles(fleet.RoleAdmin, roleInOwnProject(fleet.RoleMember))
	fresh.MustChangePassword = true
	for name, c := range map[string]struct {
		actor                fleet.Actor
		any, inMine, inOther string // a letter for each permission: "+" may, else the refusal
	}{
		"the portal":       {fleet.SystemActor, "+++++++++++", "+++++++++++", "+++++++++++"},
		"not signed in":    {fleet.Actor{}, "uuuuuuuuuuu", "uuuuuuuuuuu", "uuuuuuuuuuu"},
		"an agent":         {fleet.Actor{HostID: "h"}, "uuuuuuuuu+u", "uuuuuuuuu+u", "uuuuuuuuu+u"},
		"an admin":         {actorWithRoles(fleet.RoleAdmin, nil), "+++++++++u+", "+++++++++u+", "+++++++++u+"},
		"an operator":      {actorWithRoles(fleet.RoleOperator, nil), "+++++++f+u+", "+++++++f+u+", "+++++++f+u+"},
		"a viewer":         {actorWithRoles(fleet.RoleViewer, nil), "+ff++f+f+uf", "+ff++f+f+uf", "+ff++f+f+uf"},
		"a member":         {actorWithRoles(fleet.RoleNone, roleInOwnProject(fleet.RoleMember)), "+++f+f+f+uf", "+++f+f+f+uf", "nnnfffff+uf"},
		"an owner":         {actorWithRoles(fleet.RoleNone, roleInOwnProject(fleet.RoleOwner)), "+++f+f+f+u+", "+++f+f+f+u+", "nnnfffff+uf"},
		"a project viewer": {actorWithRoles(fleet.RoleNone, roleInOwnProject(fleet.RoleViewer)), "+fff+f+f+uf", "+fff+f+f+uf", "nnnfffff+uf"},
		"viewer and member": {
			actorWithRoles(fleet.RoleViewer, roleInOwnProject(fleet.RoleMember)),
			"+++++f+f+uf", "+++++f+f+uf", "+ff++f+f+uf",
		},
		"a user without a role":    {actorWithRoles(fleet.RoleNone, nil), "ffffffff+uf", "nnnfffff+uf", "nnnfffff+uf"},
		"an unknown role":          {actorWithRoles("stranger", roleInOwnProject("stranger")), "ffffffff+uf", "nnnfffff+uf", "nnnfffff+uf"},
		"before a password change": {fresh, "ffffffff+uf", "ffffffff+uf", "ffffffff+uf"},
	} {
		for project, want := range map[fleet.ProjectID]string{"": c.any, ownProject: c.inMine, otherProject: c.inOther} {
			got := make([]byte, len(tablePermissions))
			for i, permission := range tablePermissions {
				err := policy.Check(c.actor, permission, project)
				got[i] = outcomeLetters[fleet.CodeOf(err)]
				if (err == nil) != policy.May(c.actor, permission, project) {
					t.Errorf("%s, %s: May and Check differ", name, permission)
				}
			}
			if string(got) != want {
				t.Errorf("%s in project %q: %s, want %s", name, project, got, want)
			}
		}
	}
}

func TestFleetWideRolesSeeAllProjects(t *testing.T) {
	t.Parallel()
	for role, want := range map[fleet.Role]bool{
		fleet.RoleAdmin: true, fleet.RoleOperator: true, fleet.RoleViewer: true, fleet.RoleMember: false, fleet.RoleNone: false,
	} {
		if got := policy.SeesAllProjects(actorWithRoles(role, roleInOwnProject(fleet.RoleMember))); got != want {
			t.Errorf("role %q: %t", role, got)
		}
	}
	if !policy.SeesAllProjects(fleet.SystemActor) {
		t.Error("the portal does not see all projects")
	}
}

// Tenants do not see actions that none of their roles permits; users who see hosts see them disabled.
func TestActionsWithoutPermissionAreAbsentForTenants(t *testing.T) {
	t.Parallel()
	in := func(role fleet.Role) fleet.Actor {
		return fleet.Actor{UserID: "mia", Projects: map[fleet.ProjectID]fleet.Role{"red": role}}
	}
	for name, c := range map[string]struct {
		actor      fleet.Actor
		permission policy.Permission
		project    fleet.ProjectID
		want       bool
	}{
		"member, own VM":           {in(fleet.RoleMember), policy.VMChange, "red", false},
		"viewer, own VM":           {in(fleet.RoleViewer), policy.VMChange, "red", true},
		"member, other project":    {in(fleet.RoleMember), policy.VMChange, "blue", true},
		"member, hosts":            {in(fleet.RoleMember), policy.InfraChange, "", true},
		"fleet-wide viewer, hosts": {fleet.Actor{UserID: "vic", Role: fleet.RoleViewer}, policy.InfraChange, "", false},
		"operator, users":          {fleet.Actor{UserID: "olga", Role: fleet.RoleOperator}, policy.Manage, "", false},
		"fleet-wide viewer, a VM":  {fleet.Actor{UserID: "vic", Role: fleet.RoleViewer}, policy.VMUse, "red", false},
	} {
		if got := policy.OmitsAction(c.actor, c.permission, c.project); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
