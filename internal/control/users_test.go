package control_test

import (
	"errors"
	"testing"

	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var refused *fleet.Error
	if !errors.As(err, &refused) || refused.Code != fleet.Invalid || len(refused.Fields) != 1 || refused.Fields[0].Field != field {
		t.Errorf("want a fault of %q, got %v", field, err)
	}
}

func TestCreatedUserCanSignIn(t *testing.T) {
	h := newIdentityFixture(t)
	user, password, err := h.CreateUser(t.Context(), chief, identity.UserInput{Name: "ann", Role: fleet.RoleOperator})
	if err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("user.create")
	if user, err := h.SignIn(t.Context(), anonymous, "ann", password); err != nil || !user.MustChangePassword || user.Role != fleet.RoleOperator {
		t.Errorf("%+v, %v", user, err)
	}
	users, err := query.ReadAllPages(t.Context(), chief, fleet.Query{}, h.ListUsers)
	if err != nil || len(users) != 2 || users[0].ID != user.ID || users[1].Name != "chief" {
		t.Errorf("%+v, %v", users, err)
	}
	ann := fleet.Actor{UserID: user.ID}
	if got, err := h.GetUser(t.Context(), ann, user.ID); err != nil || got.Name != "ann" {
		t.Errorf("oneself: %+v, %v", got, err)
	}
	_, err = h.GetUser(t.Context(), ann, "chief")
	wantCode(t, err, fleet.Forbidden)
}

func TestInvalidUserInputRefused(t *testing.T) {
	h := newIdentityFixture(t)
	_, _, err := h.CreateUser(t.Context(), chief, identity.UserInput{Name: "Ann"})
	wantField(t, err, "name")
	_, _, err = h.CreateUser(t.Context(), chief, identity.UserInput{Name: "ann", Role: fleet.RoleMember})
	wantField(t, err, "role")
	_, _, err = h.CreateUser(t.Context(), chief, identity.UserInput{Name: "chief"})
	wantCode(t, err, fleet.Conflict)
	_, err = h.UpdateUser(t.Context(), chief, "nobody", identity.UserInput{Name: "ann"})
	wantCode(t, err, fleet.NotFound)
	wantCode(t, h.DeleteUser(t.Context(), chief, "nobody"), fleet.NotFound)
}

func TestSessionsEndOnRoleChangeAndDeletion(t *testing.T) {
	h := newIdentityFixture(t)
	h.addUser("ann", fleet.RoleViewer)
	update := func(in identity.UserInput) {
		t.Helper()
		if _, err := h.UpdateUser(t.Context(), chief, "ann", in); err != nil {
			t.Fatal(err)
		}
		h.wantLastAuditAction("user.update")
	}
	began := h.signInTime("ann")
	update(identity.UserInput{Name: "anna", Role: fleet.RoleViewer})
	if !h.isSessionValid("ann", began) {
		t.Error("another name ended the session")
	}
	update(identity.UserInput{Name: "anna", Role: fleet.RoleOperator})
	if h.isSessionValid("ann", began) {
		t.Error("the session outlived the role")
	}
	began = h.signInTime("anna")
	update(identity.UserInput{Name: "anna", Role: fleet.RoleOperator, Disabled: true})
	if h.isSessionValid("ann", began) {
		t.Error("the session of a disabled user lives")
	}
	update(identity.UserInput{Name: "anna", Role: fleet.RoleOperator})
	if h.isSessionValid("ann", began) {
		t.Error("the session came back")
	}
	began = h.signInTime("anna")
	if err := h.DeleteUser(t.Context(), chief, "ann"); err != nil {
		t.Fatal(err)
	}
	h.wantLastAuditAction("user.delete")
	if h.isSessionValid("ann", began) {
		t.Error("the session outlived the user")
	}
}

func TestLastAdminCannotBeRemoved(t *testing.T) {
	h := newIdentityFixture(t)
	viewer := identity.UserInput{Name: "chief", Role: fleet.RoleViewer}
	disabled := identity.UserInput{Name: "chief", Role: fleet.RoleAdmin, Disabled: true}
	refused := func(what string, err error) {
		t.Helper()
		if fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, actor := range []fleet.Actor{chief, fleet.SystemActor} {
		_, err := h.UpdateUser(t.Context(), actor, "chief", viewer)
		refused("demote", err)
		_, err = h.UpdateUser(t.Context(), actor, "chief", disabled)
		refused("disable", err)
		refused("delete", h.DeleteUser(t.Context(), actor, "chief"))
	}
	h.addUser("second", fleet.RoleAdmin)
	h.execSQL("UPDATE users SET disabled = true WHERE id = 'second'")
	refused("delete beside a disabled admin", h.DeleteUser(t.Context(), fleet.SystemActor, "chief"))
	if err := h.DeleteUser(t.Context(), chief, "second"); err != nil {
		t.Errorf("a disabled admin: %v", err)
	}
}

func TestConcurrentAdminsCannotRemoveEachOther(t *testing.T) {
	h := newIdentityFixture(t)
	for range 5 {
		h.execSQL("DELETE FROM users")
		pair := []fleet.Actor{h.addUser("left", fleet.RoleAdmin), h.addUser("right", fleet.RoleAdmin)}
		got := countCodes(runConcurrently(2, func(i int) error {
			other := pair[1-i].UserID
			if i == 0 {
				return h.DeleteUser(t.Context(), pair[i], other)
			}
			_, err := h.UpdateUser(t.Context(), pair[i], other, identity.UserInput{Name: string(other), Role: fleet.RoleViewer})
			return err
		}))
		if got[""] != 1 || h.countRowsOf("users WHERE role = 'admin' AND NOT disabled") != 1 {
			t.Fatalf("got %v, %d admins left", got, h.countRowsOf("users WHERE role = 'admin'"))
		}
	}
}

func TestIdentityChangesNeedPermission(t *testing.T) {
	h := newIdentityFixture(t)
	operator := h.addUser("ann", fleet.RoleOperator)
	for name, call := range map[string]func(a fleet.Actor) error{
		"ListUsers":  func(a fleet.Actor) error { _, err := h.ListUsers(t.Context(), a, fleet.Query{}); return err },
		"GetUser":    func(a fleet.Actor) error { _, err := h.GetUser(t.Context(), a, "chief"); return err },
		"CreateUser": func(a fleet.Actor) error { _, _, err := h.CreateUser(t.Context(), a, identity.UserInput{}); return err },
		"UpdateUser": func(a fleet.Actor) error {
			_, err := h.UpdateUser(t.Context(), a, "chief", identity.UserInput{})
			return err
		},
		"DeleteUser":  func(a fleet.Actor) error { return h.DeleteUser(t.Context(), a, "chief") },
		"SetPassword": func(a fleet.Actor) error { return h.SetPassword(t.Context(), a, "chief", "") },
		"CreateProject": func(a fleet.Actor) error {
			_, err := h.CreateProject(t.Context(), a, identity.ProjectInput{})
			return err
		},
		"UpdateProject": func(a fleet.Actor) error {
			_, err := h.UpdateProject(t.Context(), a, "p", identity.ProjectInput{})
			return err
		},
		"DeleteProject":   func(a fleet.Actor) error { return h.DeleteProject(t.Context(), a, "p") },
		"SetMember":       func(a fleet.Actor) error { return h.SetMember(t.Context(), a, "p", "chief", fleet.RoleMember) },
		"CreateJoinToken": func(a fleet.Actor) error { _, err := h.CreateJoinToken(t.Context(), a, ""); return err },
		"ListJoinTokens":  func(a fleet.Actor) error { _, err := h.ListJoinTokens(t.Context(), a, fleet.Query{}); return err },
		"RevokeJoinToken": func(a fleet.Actor) error { return h.RevokeJoinToken(t.Context(), a, "j") },
	} {
		if code := fleet.CodeOf(call(anonymous)); code != fleet.Unauthorized {
			t.Errorf("%s, nobody: %q", name, code)
		}
		if code := fleet.CodeOf(call(operator)); code != fleet.Forbidden {
			t.Errorf("%s, operator: %q", name, code)
		}
	}
	_, _, err := h.EnsureAdmin(t.Context(), chief)
	wantCode(t, err, fleet.Forbidden)
	_, err = h.ActorOfSession(t.Context(), chief, "chief", h.signInTime("chief"))
	wantCode(t, err, fleet.Forbidden)
	_, err = h.Authority(t.Context(), chief)
	wantCode(t, err, fleet.Forbidden)
	_, err = h.ListTokens(t.Context(), anonymous, fleet.Query{})
	wantCode(t, err, fleet.Unauthorized)
}
