package control_test

import (
	"testing"

	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

func (h *identityFixture) addProject(name string) fleet.Project {
	h.t.Helper()
	p, err := h.CreateProject(h.t.Context(), chief, identity.ProjectInput{Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// currentActor returns the user with the roles that the database has now.
func (h *identityFixture) currentActor(name string) fleet.Actor {
	h.t.Helper()
	a, err := h.ActorOfSession(h.t.Context(), fleet.SystemActor, fleet.UserID(name), h.signInTime(name))
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func TestUsersSeeOnlyTheirProjects(t *testing.T) {
	h := newIdentityFixture(t)
	h.addUser("ann", fleet.RoleNone)
	mine, other := h.addProject("mine"), h.addProject("other")
	_, err := h.ListProjects(t.Context(), h.currentActor("ann"), fleet.Query{})
	wantCode(t, err, fleet.Forbidden)

	if err := h.SetMember(t.Context(), chief, mine.ID, "ann", fleet.RoleViewer); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("project.setMember")
	ann := h.currentActor("ann")
	if list, err := query.ReadAllPages(t.Context(), ann, fleet.Query{}, h.ListProjects); err != nil || len(list) != 1 || list[0].ID != mine.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListProjects); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if p, err := h.GetProject(t.Context(), ann, mine.ID); err != nil || p.Name != "mine" {
		t.Errorf("%+v, %v", p, err)
	}
	if members, err := h.ListMembers(t.Context(), ann, mine.ID); err != nil || len(members) != 1 || members[0].Name != "ann" {
		t.Errorf("%+v, %v", members, err)
	}
	_, foreign := h.GetProject(t.Context(), ann, other.ID)
	_, missing := h.GetProject(t.Context(), ann, "nothing")
	_, none := h.GetProject(t.Context(), chief, "nothing")
	_, members := h.ListMembers(t.Context(), ann, other.ID)
	for _, err := range []error{foreign, missing, none, members} {
		wantCode(t, err, fleet.NotFound)
		if err.Error() != none.Error() {
			t.Errorf("%q gives away more than %q", err, none)
		}
	}
	if err := h.SetMember(t.Context(), chief, mine.ID, "ann", fleet.RoleNone); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("project.removeMember")
	if ann := h.currentActor("ann"); len(ann.Projects) != 0 {
		t.Errorf("still in %v", ann.Projects)
	}
}

func TestInvalidProjectAndMemberInputRefused(t *testing.T) {
	h := newIdentityFixture(t)
	p := h.addProject("mine")
	_, err := h.CreateProject(t.Context(), chief, identity.ProjectInput{Name: "Not A Name"})
	wantField(t, err, "name")
	_, err = h.CreateProject(t.Context(), chief, identity.ProjectInput{Name: "mine"})
	wantCode(t, err, fleet.Conflict)
	_, err = h.UpdateProject(t.Context(), chief, "nothing", identity.ProjectInput{Name: "new"})
	wantCode(t, err, fleet.NotFound)
	if p, err := h.UpdateProject(t.Context(), chief, p.ID, identity.ProjectInput{Name: "ours", Description: "for all"}); err != nil || p.Name != "ours" {
		t.Errorf("%+v, %v", p, err)
	}
	h.wantLastAuditAction("project.update")
	wantField(t, h.SetMember(t.Context(), chief, p.ID, "chief", fleet.RoleAdmin), "role")
	wantCode(t, h.SetMember(t.Context(), chief, p.ID, "nobody", fleet.RoleMember), fleet.NotFound)
	wantCode(t, h.SetMember(t.Context(), chief, "nothing", "chief", fleet.RoleMember), fleet.NotFound)
}

func TestOnlyEmptyProjectCanBeDeleted(t *testing.T) {
	h := newIdentityFixture(t)
	p := h.addProject("mine")
	h.execSQL("INSERT INTO hosts (id, name) VALUES ('h1', 'h1')")
	h.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ('v1', $1, 'h1', 'web', '{"cpus":1,"memoryMiB":128}')`, p.ID)
	wantCode(t, h.DeleteProject(t.Context(), chief, p.ID), fleet.Conflict)
	if _, err := h.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if p, err := h.GetProject(t.Context(), chief, p.ID); err != nil || p.VMs != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if list, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListProjects); err != nil || list[0].VMs != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	h.execSQL("DELETE FROM vms")
	if err := h.DeleteProject(t.Context(), chief, p.ID); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("project.delete")
	wantCode(t, h.DeleteProject(t.Context(), chief, p.ID), fleet.NotFound)
}
