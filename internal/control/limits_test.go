package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// A host that a member names is checked like a host that placement chooses. Host h1 has 16384 MiB of memory, and VMs
// may use 15360 MiB.
func TestOnlyAdministratorsMayOvercommitMemory(t *testing.T) {
	s := newProjectFixture(t)
	create := func(a fleet.Actor, name string, mib int) (fleet.VMView, error) {
		return s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: mib}})
	}
	first, err := create(s.member, "first", 15000)
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(first.ID, fleet.Stopped)
	s.wantRefused("a member names a host", fleet.Invalid, "Not enough memory.", func() error { _, err := create(s.member, "more", 512); return err })
	grow := func(a fleet.Actor, mib int) func() error {
		return func() error {
			_, _, err := s.UpdateVM(t.Context(), a, first.ID, editedSpec(s.getVM(first.ID), func(s *fleet.VMSpec) { s.MemoryMiB = mib }))
			return err
		}
	}
	s.wantRefused("a member's VM grows", fleet.Invalid, "Not enough memory.", grow(s.member, 15361))
	if err := grow(s.member, 15360)(); err != nil {
		t.Errorf("an edit up to the free memory: %v", err)
	}
	operator := fleet.Actor{UserID: "chief", Name: "olga", Role: fleet.RoleOperator}
	s.wantRefused("an operator without consent", fleet.Invalid, "2 fields", func() error { _, err := create(operator, "more", 512); return err })
	over := control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "more", Overcommit: true, Spec: smallSpec}
	over.Spec.MemoryMiB = 512
	if _, err := s.CreateVM(t.Context(), operator, over); err != nil {
		t.Errorf("an operator: %v", err)
	}
	text := "as before"
	s.reportPower(first.ID, fleet.Stopped)
	if _, _, err := s.UpdateVM(t.Context(), s.member, first.ID, control.UpdateVM{Description: &text}); err != nil {
		t.Errorf("an edit of something else, on an overcommitted host: %v", err)
	}
}

func TestConcurrentCreatesDoNotOvercommitMemory(t *testing.T) {
	s := newProjectFixture(t)
	got := countCodes(runConcurrently(8, func(i int) error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{
			ProjectID: s.red, HostID: s.h1, Name: fmt.Sprintf("vm-%d", i), Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 6000},
		})
		return err
	}))
	if got[""] != 2 || got[fleet.Invalid] != 6 {
		t.Errorf("of 15360 MiB, 6000 were allocated to %v", got)
	}
}

// addNetwork adds a network to h1. A libvirt network is published to all projects, a bridge to none.
func (s *projectFixture) addNetwork(kind fleet.NetworkKind, name, status string) fleet.NetworkID {
	s.t.Helper()
	id := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ($1, $2, $3)`, id, name, kind)
	s.execSQL(`INSERT INTO network_grants (network_id) SELECT id FROM networks WHERE id = $1 AND kind = 'libvirt'`, id)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', $1, $2, $3)`, id, s.h1, status)
	return id
}

func TestBridgeUsableOnlyWithGrant(t *testing.T) {
	s := newProjectFixture(t)
	bridge := s.addNetwork(fleet.NetworkBridge, "br0", `{"active":true}`)
	lan := s.addNetwork(fleet.NetworkLibvirt, "lan", `{"active":true}`)
	s.execSQL(`DELETE FROM network_grants WHERE network_id = $1`, lan)
	create := func(a fleet.Actor, project fleet.ProjectID, name string, nics ...fleet.NIC) func() error {
		return func() error {
			in := control.CreateVM{ProjectID: project, Name: name, Spec: smallSpec}
			in.Spec.NICs = nics
			_, err := s.CreateVM(t.Context(), a, in)
			return err
		}
	}
	onBridge, onLAN := fleet.NIC{Bridge: "br0"}, fleet.NIC{Network: "lan"}
	names := func(a fleet.Actor) string {
		t.Helper()
		usable, err := s.UsableNetworks(t.Context(), a)
		listed, errList := s.ListNetworks(t.Context(), a, fleet.Query{})
		found, errFound := s.Search(t.Context(), a, "br0", 8)
		all, errAll := s.Complete(t.Context(), a, "vms", "network:b")
		if err != nil || errList != nil || errFound != nil || errAll != nil {
			t.Fatal(err, errList, errFound, errAll)
		}
		var names []any
		for _, n := range usable {
			names = append(names, n.Name)
		}
		return strings.TrimSpace(fmt.Sprintln(append(names, len(listed.Items), len(found), len(all))...))
	}
	const closed = "br0 is not published to this project."
	s.wantRefused("a bridge", fleet.Invalid, closed, create(s.member, s.red, "web", onBridge))
	s.wantRefused("a libvirt network in bridge mode", fleet.Invalid, "lan is not published", create(s.member, s.red, "web", onLAN))
	s.wantRefused("a bridge that does not exist", fleet.Invalid, "br7 is not published to this project.", create(s.member, s.red, "web", fleet.NIC{Bridge: "br7"}))
	s.wantRefused("a member's grant", fleet.Forbidden, "do not have permission", func() error { return s.GrantNetwork(t.Context(), s.member, bridge, s.red) })
	s.wantRefused("to no project", fleet.NotFound, "no such project", func() error { return s.GrantNetwork(t.Context(), chief, bridge, "nowhere") })
	_, err := s.GetNetwork(t.Context(), s.member, bridge)
	wantCode(t, err, fleet.NotFound)
	if got := names(s.member); got != "default 1 0 0" {
		t.Errorf("before the grant the member sees %s", got)
	}
	if err := create(chief, s.red, "by-hand", onBridge)(); err != nil {
		t.Errorf("an administrator: %v", err)
	}

	for range 2 {
		if err := s.GrantNetwork(t.Context(), chief, bridge, s.red); err != nil {
			t.Fatal(err)
		}
	}
	s.auditActions("network.grant")
	if err := create(s.member, s.red, "web", onBridge)(); err != nil {
		t.Errorf("with a grant: %v", err)
	}
	s.wantRefused("another project", fleet.Invalid, closed, create(s.blueMember, s.blue, "web", onBridge))
	if got, other := names(s.member), names(s.blueMember); got != "br0 default 2 1 1" || other != "default 1 0 0" {
		t.Errorf("the member sees %s, the user of another project %s", got, other)
	}

	// VMs on the bridge stay connected to it and can still be edited.
	if err := s.RevokeNetwork(t.Context(), chief, bridge, s.red); err != nil {
		t.Fatal(err)
	}
	s.auditActions("network.revoke")
	page, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: "name:web"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%+v %v", page, err)
	}
	s.reportPower(page.Items[0].ID, fleet.Stopped)
	edit := editedSpec(page.Items[0], func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB = 2, 300 })
	if _, _, err := s.UpdateVM(t.Context(), s.member, page.Items[0].ID, edit); err != nil {
		t.Errorf("an edit that leaves the NIC alone: %v", err)
	}

	if err := s.GrantNetwork(t.Context(), chief, lan, ""); err != nil {
		t.Fatal(err)
	}
	if err := create(s.blueMember, s.blue, "web", onLAN)(); err != nil {
		t.Errorf("open to all: %v", err)
	}
	v, err := s.GetNetwork(t.Context(), s.blueMember, lan)
	if err != nil || !v.Restricted || len(v.Grants) != 1 || v.Grants[0].ProjectID != "" {
		t.Errorf("%+v %v", v, err)
	}
}
