package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// Hosts cannot filter the traffic of some networks. Filter settings of NICs on them are refused, because they would
// have no effect. A NIC that moves to another network gets anti-spoofing.
func TestFiltersRefusedForNICsOnUnfilteredNetworks(t *testing.T) {
	s := newProjectFixture(t)
	group := s.addSecurityGroup(chief, s.red, "web")
	lan := s.dhcpNetwork("lan", "10.7.0.")
	s.setNetworkStatus(lan.ID, s.h1, `{"active":true}`)
	yes, no := true, false
	for name, spec := range map[string]fleet.NetworkSpec{
		"switched": {Mode: fleet.NetworkOVS, Bridge: "ovs0"}, "straight": {Mode: fleet.NetworkMacvtap, Device: "eth5"}, "fast": {Mode: fleet.NetworkSRIOV, Device: "eth4"},
	} {
		n := s.defineNetwork(name, spec, s.h1)
		s.setNetworkStatus(n.ID, s.h1, `{"active":true,"nics":{"total":9,"used":0}}`)
		s.execSQL(`INSERT INTO network_grants (network_id, project_id) VALUES ($1, $2)`, n.ID, s.red)
		create := func(vm string, nic fleet.NIC) (fleet.VMView, error) {
			spec := smallSpec
			spec.NICs = []fleet.NIC{nic}
			return s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name + vm, Spec: spec})
		}
		on := fleet.NIC{NetworkID: n.ID}
		grouped, guarded := on, on
		grouped.SecurityGroups, guarded.AntiSpoofing = []fleet.SecurityGroupID{group.ID}, &yes
		s.wantRefused(name+": a security group", fleet.Invalid, "Hosts cannot filter the traffic of a NIC on "+name+", so a security group would have no effect there.", func() error { _, err := create("-a", grouped); return err })
		s.wantRefused(name+": anti-spoofing", fleet.Invalid, "so anti-spoofing would have no effect there.", func() error { _, err := create("-a", guarded); return err })
		v, err := create("-b", on)
		if err != nil || v.Spec.NICs[0].HasAntiSpoofing() {
			t.Fatalf("%s: a member's NIC: %+v %v", name, v.Spec.NICs, err)
		}
		move := func(v fleet.VMView, to fleet.NetworkView, guard *bool) (fleet.VMView, error) {
			spec := s.getVM(v.ID).Spec
			spec.NICs[0].NetworkID, spec.NICs[0].Network, spec.NICs[0].AntiSpoofing = to.ID, to.Name, guard
			out, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
			return out, err
		}
		s.wantRefused(name+": out of there without a guard", fleet.Invalid, "Only those who may change infrastructure may turn anti-spoofing off", func() error { _, err := move(v, lan, &no); return err })
		if v, err = move(v, lan, nil); err != nil || !v.Spec.NICs[0].HasAntiSpoofing() {
			t.Errorf("%s: a NIC moved off the network: %+v %v", name, v.Spec.NICs, err)
		}
		if v, err = move(v, n, &yes); err != nil || v.Spec.NICs[0].HasAntiSpoofing() {
			t.Errorf("%s: a NIC with anti-spoofing moved to the network by a form: %+v %v", name, v.Spec.NICs, err)
		}
		// Filter settings stored by an older release stay until an edit changes them, and do not block other edits.
		s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{nics,0,antiSpoofing}', 'true') WHERE id = $1`, v.ID)
		if v, err = move(v, n, nil); err != nil || !v.Spec.NICs[0].HasAntiSpoofing() {
			t.Errorf("%s: an edit of another field: %+v %v", name, v.Spec.NICs, err)
		}
		if v, err = move(v, n, &no); err != nil || v.Spec.NICs[0].HasAntiSpoofing() {
			t.Errorf("%s: taken off: %+v %v", name, v.Spec.NICs, err)
		}
	}
}
