package policy

import (
	"testing"

	"quantix/internal/fleet"
)

// Each action of a resource type has a permission, and no other action has one.
func TestEachActionHasRequiredPermission(t *testing.T) {
	t.Parallel()
	offered := map[string][]fleet.ActionState{
		"host": fleet.HostView{}.Actions(), "pool": append(fleet.Pool{}.Actions(), fleet.PoolHost{}.Actions()...), "network": append(fleet.NetworkView{}.Actions(), fleet.NetworkHost{}.Actions()...),
		"cluster": fleet.ClusterView{}.Actions(), "project": fleet.Project{}.Actions(), "user": fleet.User{}.ActionsBy(""),
	}
	for typ, states := range offered {
		seen := map[fleet.Action]bool{}
		for _, s := range states {
			seen[s.Action] = true
			if _, ok := permissionsByAction[typ][s.Action]; !ok {
				t.Errorf("%s of a %s has no permission", s.Action, typ)
			}
		}
		for a := range permissionsByAction[typ] {
			if !seen[a] {
				t.Errorf("a %s has no action %s", typ, a)
			}
		}
	}
}

func TestRefusedActionNamesMissingPermission(t *testing.T) {
	t.Parallel()
	states := []fleet.ActionState{{Action: fleet.ActEdit, Allowed: true}, {Action: fleet.ActStart, Reason: "It runs."}}
	for name, c := range map[string]struct {
		role        fleet.Role
		typ         string
		edit, start string
	}{
		"operator":           {fleet.RoleOperator, "vm", "", "It runs."},
		"viewer":             {fleet.RoleViewer, "vm", "You may not change VMs of this project.", "You may see this VM but not use it."},
		"viewer of a host":   {fleet.RoleViewer, "host", "You do not have permission to change hosts and pools. Ask an administrator.", "You do not have permission to manage users, projects and join tokens. Ask an administrator."},
		"operator of a user": {fleet.RoleOperator, "user", "You do not have permission to manage users, projects and join tokens. Ask an administrator.", "You do not have permission to manage users, projects and join tokens. Ask an administrator."},
	} {
		got := RestrictActions(fleet.Actor{UserID: "u", Role: c.role}, c.typ, "p", states)
		if got[0].Reason != c.edit || got[0].Allowed != (c.edit == "") || got[1].Reason != c.start || got[1].Allowed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if states[0].Reason != "" {
		t.Error("Offer changed the states that it was given")
	}
}
