package control_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// fleetSpec adds a fleet-wide customization spec that is published to the projects; an empty project means all.
func (s *projectFixture) fleetSpec(name string, projects ...fleet.ProjectID) fleet.CustomizationID {
	s.t.Helper()
	in := control.CustomizationInput{Name: name, FirstBoot: hostnameContent("{{vm.name}}")}
	v, err := s.CreateCustomization(s.t.Context(), chief, in)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range projects {
		if err := s.GrantCustomization(s.t.Context(), chief, v.ID, p); err != nil {
			s.t.Fatal(err)
		}
	}
	return v.ID
}

// customizationNames lists the specs that the actor sees.
func (s *projectFixture) customizationNames(a fleet.Actor) string {
	s.t.Helper()
	all, err := s.ListCustomizations(s.t.Context(), a)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, v := range all {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}

func TestCustomizationsVisibleToProjectsTheyArePublishedTo(t *testing.T) {
	s := newSealedFixture(t)
	secret := s.fleetSpec("a-secret")
	both := s.fleetSpec("b-both", s.red, s.blue)
	red := s.fleetSpec("c-red", s.red)
	s.fleetSpec("d-all", "")
	own := control.CustomizationInput{ProjectID: s.blue, Name: "e-own", FirstBoot: hostnameContent("x")}
	ofBlue, err := s.CreateCustomization(t.Context(), chief, own)
	if err != nil {
		t.Fatal(err)
	}
	vera := fleet.Actor{UserID: "vera", Name: "vera", Role: fleet.RoleViewer}
	for _, c := range []struct {
		actor fleet.Actor
		want  string
	}{
		{s.member, "b-both c-red d-all"},
		{s.viewer, "b-both c-red d-all"},
		{s.blueMember, "b-both d-all e-own"},
		{vera, "a-secret b-both c-red d-all e-own"},
		{chief, "a-secret b-both c-red d-all e-own"},
	} {
		if got := s.customizationNames(c.actor); got != c.want {
			t.Errorf("%s lists %q, want %q", c.actor.Name, got, c.want)
		}
	}
	_, unknown := s.GetCustomization(t.Context(), s.member, fleet.NewID[fleet.CustomizationID]())
	for _, hidden := range []fleet.CustomizationID{secret, ofBlue.ID} {
		_, err := s.GetCustomization(t.Context(), s.member, hidden)
		wantCode(t, err, fleet.NotFound)
		if err.Error() != unknown.Error() {
			t.Errorf("an unpublished spec: %v, an unknown one: %v", err, unknown)
		}
	}
	seen, err := s.GetCustomization(t.Context(), s.member, both)
	if err != nil || len(seen.Grants) != 1 || seen.Grants[0].ProjectName != "red" || seen.Grants[0].By != "" || seen.FirstBoot != nil {
		t.Errorf("a member of red sees %+v %v", seen, err)
	}
	seen, err = s.GetCustomization(t.Context(), chief, both)
	if err != nil || len(seen.Grants) != 2 || seen.Grants[1].By != chief.Name {
		t.Errorf("an administrator sees %+v %v", seen, err)
	}
	if err := s.RevokeCustomization(t.Context(), chief, red, s.red); err != nil {
		t.Fatal(err)
	}
	if got := s.customizationNames(s.member); got != "b-both d-all" {
		t.Errorf("after the withdrawal: %q", got)
	}
}

// Only VMs of the projects that a fleet-wide spec is published to use it, except by actors who may change infrastructure.
func TestUnpublishedCustomizationRefusedForVM(t *testing.T) {
	s := newSealedFixture(t)
	id, secret := s.fleetSpec("web", s.blue), s.fleetSpec("secret")
	inBoth := s.member
	inBoth.Projects = map[fleet.ProjectID]fleet.Role{s.red: fleet.RoleMember, s.blue: fleet.RoleMember}
	create := func(a fleet.Actor, name string, project fleet.ProjectID, id fleet.CustomizationID) error {
		in := control.CreateVM{ProjectID: project, Name: name, Spec: smallSpec, FirstBoot: &control.FirstBootInput{CustomizationID: id}}
		if a.Role == fleet.RoleAdmin {
			in.HostID = s.h1
		}
		_, err := s.CreateVM(t.Context(), a, in)
		return err
	}
	unknown := withFieldErrors(create(s.member, "vm-1", s.red, fleet.NewID[fleet.CustomizationID]())).Error()
	existing := s.vmWithFirstBoot("existing", hostnameFirstBoot("a"))
	for name, do := range map[string]func() error{
		"by a member of red":         func() error { return create(s.member, "vm-2", s.red, id) },
		"in red by a member of both": func() error { return create(inBoth, "vm-3", s.red, id) },
		"a spec published to nobody": func() error { return create(inBoth, "vm-4", s.blue, secret) },
		"for an existing VM of project": func() error {
			_, _, err := s.SetFirstBoot(t.Context(), inBoth, existing.ID, control.FirstBootInput{CustomizationID: id})
			return err
		},
	} {
		s.wantRefusedAt(name, "firstBoot.customizationId", "no such customization spec", func() error {
			err := do()
			if got := withFieldErrors(err); got == nil || got.Error() != unknown {
				t.Errorf("%s: %v, for an unknown spec: %s", name, got, unknown)
			}
			return err
		})
	}
	if err := create(inBoth, "vm-5", s.blue, id); err != nil {
		t.Errorf("in the project of the grant: %v", withFieldErrors(err))
	}
	if err := create(chief, "vm-6", s.red, secret); err != nil {
		t.Errorf("an administrator: %v", withFieldErrors(err))
	}
	if err := s.GrantCustomization(t.Context(), chief, id, ""); err != nil {
		t.Fatal(err)
	}
	if err := create(s.member, "vm-7", s.red, id); err != nil {
		t.Errorf("published to all: %v", withFieldErrors(err))
	}
}

// Publishing is idempotent and audited, and only fleet-wide specs are published.
func TestCustomizationPublishedAndWithdrawn(t *testing.T) {
	s := newSealedFixture(t)
	id := s.fleetSpec("web")
	in := control.CustomizationInput{ProjectID: s.red, Name: "own", FirstBoot: hostnameContent("x")}
	own, err := s.CreateCustomization(t.Context(), chief, in)
	if err != nil {
		t.Fatal(err)
	}
	grant := func(a fleet.Actor, id fleet.CustomizationID, project fleet.ProjectID) func() error {
		return func() error { return s.GrantCustomization(t.Context(), a, id, project) }
	}
	s.wantRefused("by a member", fleet.Forbidden, "do not have permission", grant(s.member, id, s.red))
	s.wantRefused("to no project", fleet.NotFound, "no such project", grant(chief, id, "none"))
	s.wantRefused("no spec", fleet.NotFound, "no such customization spec", grant(chief, fleet.NewID[fleet.CustomizationID](), s.red))
	const belongs = "The spec belongs to the project red. Only fleet-wide specs are published."
	s.wantRefused("a spec of a project", fleet.Conflict, belongs, grant(chief, own.ID, s.blue))
	s.wantRefused("its withdrawal", fleet.Conflict, belongs, func() error { return s.RevokeCustomization(t.Context(), chief, own.ID, "") })
	for range 2 {
		err := errors.Join(s.GrantCustomization(t.Context(), chief, id, s.red), s.GrantCustomization(t.Context(), chief, id, ""))
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := s.RevokeCustomization(t.Context(), chief, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := s.auditActions("customization."), "create web, create own, grant web, grant web, revoke web"; got != want {
		t.Errorf("audited: %s, want %s", got, want)
	}

	in = control.CustomizationInput{ProjectID: s.red, Public: true, Name: "odd", FirstBoot: hostnameContent("x")}
	s.wantRefusedAt("a public spec of a project", "public", "fleet-wide", func() error {
		_, err := s.CreateCustomization(t.Context(), chief, in)
		return err
	})
	in.ProjectID = ""
	s.wantRefused("by a member", fleet.Forbidden, "", func() error {
		_, err := s.CreateCustomization(t.Context(), s.member, in)
		return err
	})
	v, err := s.CreateCustomization(t.Context(), chief, in)
	if err != nil || len(v.Grants) != 1 || v.Grants[0].ProjectID != "" || v.Grants[0].By != chief.Name {
		t.Errorf("a public spec: %+v %v", v.Grants, err)
	}
}

// Members of projects get events of the specs of their projects and of those published to them.
func TestEventsOfCustomizationsFollowTheirGrants(t *testing.T) {
	s := newSealedFixture(t)
	r := s.newEventReader(s.member)
	hidden, red := s.fleetSpec("hidden", s.blue), s.fleetSpec("of-red", s.red)
	for _, project := range []fleet.ProjectID{s.red, s.blue} {
		in := control.CustomizationInput{ProjectID: project, Name: "own-of-" + map[bool]string{true: "red", false: "blue"}[project == s.red], FirstBoot: hostnameContent("x")}
		if _, err := s.CreateCustomization(t.Context(), chief, in); err != nil {
			t.Fatal(err)
		}
	}
	r.want("creation", "customization created of-red", "customization changed of-red", "customization created own-of-red")
	if err := s.GrantCustomization(t.Context(), chief, hidden, s.red); err != nil {
		t.Fatal(err)
	}
	r.want("publication", "customization changed hidden")
	if err := s.RevokeCustomization(t.Context(), chief, hidden, s.red); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE customizations SET description = 'x'`)
	r.want("a change of all", "customization changed of-red", "customization changed own-of-red")
	for _, id := range []fleet.CustomizationID{hidden, red} {
		if err := s.DeleteCustomization(t.Context(), chief, id); err != nil {
			t.Fatal(err)
		}
	}
	s.execSQL(`DELETE FROM customizations`)
	r.want("deletion", "customization deleted of-red", "customization deleted own-of-red")
}
