package control_test

import (
	"errors"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// withoutNICLimitsSQL is SQL that makes h1 report that its kernel cannot limit the bandwidth of NICs.
const withoutNICLimitsSQL = `UPDATE hosts SET status = jsonb_set(status, '{inventory,vmGaps}',
	'[{"field":"nics.limits.inKiB","why":"The kernel lacks sch_sfq."},{"field":"nics.limits.outKiB","why":"The kernel lacks sch_sfq."}]') WHERE id = $1`

func TestNICLimitsRefusedWithoutKernelSupport(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields("[]")
	lan := s.addNetwork(fleet.NetworkLibvirt, "lan", `{"active":true,"forward":"nat"}`)
	s.execSQL(`UPDATE networks SET spec = '{"mode":"nat","portGroups":[{"name":"slow","toGuest":{"averageKiB":100}},{"name":"free"}]}' WHERE id = $1`, lan)
	s.execSQL(`UPDATE assignments SET asked = 'assign' WHERE network_id = $1`, lan)
	admin := s.addUser("ada", fleet.RoleAdmin)
	nicEdit := func(change func(*fleet.NIC)) func(*fleet.VMSpec) {
		return func(v *fleet.VMSpec) {
			n := fleet.NIC{Network: "lan"}
			if len(v.NICs) > 0 {
				n = v.NICs[0]
			}
			change(&n)
			v.NICs = []fleet.NIC{n}
		}
	}
	in := func(n *fleet.NIC) { n.Limits.InKiB = 1000 }
	out := func(n *fleet.NIC) { n.Limits.OutKiB = 1000 }
	slow := func(n *fleet.NIC) { n.PortGroup = "slow" }
	create := func(a fleet.Actor, name string, host fleet.HostID, change func(*fleet.NIC)) func() error {
		return func() error {
			spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 256}
			nicEdit(change)(&spec)
			_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: name, HostID: host, Spec: spec})
			return err
		}
	}
	at := func(name, field string, do func() error) {
		t.Helper()
		var refused *fleet.Error
		if err := do(); !errors.As(err, &refused) || len(refused.Fields) != 1 || refused.Fields[0].Field != field {
			t.Errorf("%s: %v, want a refusal at %s", name, err, field)
		}
	}
	running := s.createVM("on", fleet.Running)
	edit := func(change func(*fleet.NIC)) func() error {
		return func() error {
			vm, _, err := s.UpdateVM(t.Context(), admin, running.ID, editedSpec(running, nicEdit(change)))
			if err == nil {
				running = vm
			}
			return err
		}
	}
	if err := edit(func(*fleet.NIC) {})(); err != nil {
		t.Fatal(err)
	}
	s.execSQL(withoutNICLimitsSQL, s.h1)
	s.wantRefused("an inbound limit", fleet.Invalid, "does not support this: inbound limit. The kernel lacks sch_sfq.", create(admin, "a", s.h1, in))
	s.wantRefused("an outbound limit", fleet.Invalid, "does not support this: outbound limit.", create(admin, "b", s.h1, out))
	s.wantRefused("a port group with a limit", fleet.Invalid, "cannot enforce the limits of port group slow. The kernel lacks sch_sfq.", create(admin, "c", s.h1, slow))
	at("an inbound limit", "spec.nics[0].limits.inKiB", create(admin, "a", s.h1, in))
	at("a port group with a limit", "spec.nics[0].portGroup", create(admin, "c", s.h1, slow))
	s.wantRefused("a limit of a running VM", fleet.Invalid, "does not support this: inbound limit.", edit(in))
	at("a limit of a running VM", "spec.nics[0].limits.inKiB", edit(in))
	if err := create(admin, "free", s.h1, func(n *fleet.NIC) { n.PortGroup = "free" })(); err != nil {
		t.Errorf("a port group without a limit: %v", err)
	}

	// An edit does not check NIC limits that the VM has already, and can remove them on a host without support.
	s.execSQL(`UPDATE hosts SET status = status #- '{inventory,vmGaps}' WHERE id = $1`, s.h1)
	if err := edit(in)(); err != nil {
		t.Fatal(err)
	}
	s.execSQL(withoutNICLimitsSQL, s.h1)
	if err := edit(func(n *fleet.NIC) { n.LinkDown = true })(); err != nil {
		t.Errorf("another field of a limited NIC: %v", err)
	}
	s.wantRefused("another limit", fleet.Invalid, "inbound limit", edit(func(n *fleet.NIC) { n.Limits.InKiB = 2000 }))
	if err := edit(func(n *fleet.NIC) { n.Limits = fleet.NICLimits{} })(); err != nil {
		t.Errorf("no limit any more: %v", err)
	}
}
