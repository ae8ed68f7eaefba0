package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/connectivity"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// A NIC on a port group has the default security groups of the port group, unless the NIC names its own. A changed
// default applies to existing NICs, also of running VMs.
func TestNICsFollowPortGroupDefaults(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	n := s.dhcpNetwork("lab", "10.7.0.")
	s.setNetworkStatus(n.ID, s.h1, `{"active":true}`)
	s.setNetworkStatus(n.ID, s.h2, `{"active":true}`)
	base := s.addSecurityGroup(chief, "", "base", allowRule(secgroup.Ingress, secgroup.TCP, 22), secgroup.AllowAllEgressRule())
	strict := s.addSecurityGroup(chief, "", "strict", secgroup.AllowAllEgressRule())
	own := s.addSecurityGroup(s.member, s.red, "own", allowRule(secgroup.Ingress, secgroup.TCP, 80))
	set := func(guard *bool, groups ...fleet.SecurityGroupID) error {
		_, err := s.SetPortGroup(t.Context(), chief, n.ID, fleet.PortGroup{Name: "staff", SecurityGroups: groups, AntiSpoofing: guard}, false)
		return err
	}
	if err := set(nil); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a group of one project", fleet.Invalid, "There is no such security group for all projects", func() error { return set(nil, own.ID) })
	s.wantRefused("an unknown group", fleet.Invalid, "no such security group", func() error { return set(nil, fleet.NewID[fleet.SecurityGroupID]()) })
	made := func(a fleet.Actor, name string) fleet.VMView {
		t.Helper()
		v, err := s.CreateVM(t.Context(), a, control.CreateVM{
			ProjectID: s.red, Name: name, HostID: s.h1, Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, NICs: []fleet.NIC{{Network: "lab", PortGroup: "staff"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
		s.reportPower(v.ID, fleet.Running)
		return v
	}
	early := made(chief, "early")
	is := func(when string, vm fleet.VMID, want string) {
		t.Helper()
		nic := s.getVM(vm).Spec.NICs[0]
		names := map[fleet.SecurityGroupID]string{base.ID: "base", strict.ID: "strict", own.ID: "own"}
		var in []string
		for _, id := range nic.SecurityGroups {
			in = append(in, names[id])
		}
		nics, err := s.NICFilterStates(t.Context(), s.member, vm)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s guard %v, of the port group %v", strings.Join(in, "+"), nic.HasAntiSpoofing(), nics[0].ByPortGroup); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	follow := func() {
		t.Helper()
		if err := s.ApplyPortGroupDefaults(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	follow()
	is("a port group without defaults", early.ID, " guard false, of the port group []")

	if err := set(nil, base.ID); err != nil {
		t.Fatal(err)
	}
	follow()
	is("a NIC that was there", early.ID, "base guard false, of the port group [securityGroups]")
	if v := s.getVM(early.ID); v.Generation != 2 {
		t.Errorf("its VM is at generation %d", v.Generation)
	}
	work := s.claimAndFinishJobs(h1, "")
	found := false
	for _, w := range work {
		found = found || w.Kind == fleet.VMApply && len(w.SecurityGroups) == 1 && w.SecurityGroups[0].Name == "base"
	}
	if !found {
		t.Errorf("the running guest's host gets %+v", work)
	}
	late := made(s.member, "late")
	is("a NIC that comes later, a tenant's", late.ID, "base guard true, of the port group [securityGroups]")
	pass := func(port int) connectivity.PassAnswer {
		t.Helper()
		out, err := s.CheckConnection(t.Context(), s.member, connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{Address: "10.0.0.9"}, To: connectivity.ConnectionEnd{VMID: late.ID}, Protocol: secgroup.TCP, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if pass(80).Pass || !pass(22).Pass || pass(22).To.GroupName != "base" {
		t.Errorf("connection checks: %+v %+v", pass(80), pass(22))
	}
	for _, vm := range []fleet.VMView{early, late} {
		if _, err := s.setSecurityGroups(s.member, vm.ID, own.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("delete a group that a port group gives", fleet.Conflict, "port groups of networks give it to NICs: lab", func() error {
		return s.DeleteSecurityGroup(t.Context(), chief, base.ID)
	})
	is("a NIC that names its own", late.ID, "own guard true, of the port group []")

	// A NIC whose own security groups are removed has the port group's defaults again. A change of the defaults affects
	// only NICs without groups of their own.
	if _, err := s.setSecurityGroups(s.member, late.ID); err != nil {
		t.Fatal(err)
	}
	is("it follows again", late.ID, "base guard true, of the port group [securityGroups]")
	if err := set(nil, strict.ID); err != nil {
		t.Fatal(err)
	}
	follow()
	is("the port group gives another", late.ID, "strict guard true, of the port group [securityGroups]")
	is("a NIC with its own", early.ID, "own guard false, of the port group []")
	if pass(22).Pass {
		t.Error("the connection check ignores the change")
	}
	generation := s.getVM(late.ID).Generation
	if follow(); s.getVM(late.ID).Generation != generation {
		t.Error("a pass in which nothing changed changes a VM")
	}
	// An edit of the vCPUs also sends the NIC's groups, which are the port group's defaults. After the edit, the NIC still
	// follows the port group's defaults.
	spec := s.getVM(late.ID).Spec
	spec.CPUs = 2
	if _, _, err := s.UpdateVM(t.Context(), s.member, late.ID, control.UpdateVM{Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	is("after another edit", late.ID, "strict guard true, of the port group [securityGroups]")

	// Anti-spoofing defaults apply to new NICs and to NICs that have the port group's defaults.
	off, on := false, true
	if err := set(&off, strict.ID); err != nil {
		t.Fatal(err)
	}
	router := made(s.member, "router")
	is("a tenant's NIC where the port group says off", router.ID, "strict guard false, of the port group [securityGroups antiSpoofing]")
	// A tenant's NIC that leaves the port group gets anti-spoofing, which only administrators may switch off.
	stray := made(s.member, "stray")
	spec = s.getVM(stray.ID).Spec
	spec.CPUs = 2
	if _, _, err := s.UpdateVM(t.Context(), s.member, stray.ID, control.UpdateVM{Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	is("after an edit of something else", stray.ID, "strict guard false, of the port group [securityGroups antiSpoofing]")
	elsewhere := func(guard *bool) error {
		spec := s.getVM(stray.ID).Spec
		spec.NICs[0].PortGroup, spec.NICs[0].AntiSpoofing = "", guard
		_, _, err := s.UpdateVM(t.Context(), s.member, stray.ID, control.UpdateVM{Spec: &spec})
		return err
	}
	s.wantRefused("a tenant who moves a NIC without anti-spoofing", fleet.Invalid, "may turn anti-spoofing off", func() error { return elsewhere(&off) })
	if err := elsewhere(nil); err != nil {
		t.Fatal(err)
	}
	is("off a port group that says off", stray.ID, " guard true, of the port group []")
	if err := set(&on, strict.ID); err != nil {
		t.Fatal(err)
	}
	follow()
	is("it says on", router.ID, "strict guard true, of the port group [securityGroups antiSpoofing]")
	is("a NIC that does not follow in that", early.ID, "own guard false, of the port group []")
	s.wantRefused("a tenant who switches anti-spoofing off", fleet.Invalid, "may turn anti-spoofing off", func() error {
		spec := s.getVM(router.ID).Spec
		spec.NICs[0].AntiSpoofing = &off
		_, _, err := s.UpdateVM(t.Context(), s.member, router.ID, control.UpdateVM{Spec: &spec})
		return err
	})
	// A NIC that leaves the port group loses the default security groups. It keeps anti-spoofing, which only
	// administrators may switch off.
	spec = s.getVM(router.ID).Spec
	spec.NICs[0].PortGroup = ""
	if _, _, err := s.UpdateVM(t.Context(), s.member, router.ID, control.UpdateVM{Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	is("off the port group", router.ID, " guard true, of the port group []")
	if err := set(nil); err != nil {
		t.Fatal(err)
	}
	follow()
	is("a port group that gives nothing any more", late.ID, " guard true, of the port group []")
}
