package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/connectivity"
	"quantix/internal/control"
	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// A security group is applied on the hosts of its member NICs, with the addresses of the groups that its rules name. It
// is removed from a host after the host's last member NIC.
func TestSecurityGroupAppliedOnHostsOfItsNICs(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	clients := s.addSecurityGroup(s.member, s.red, "clients")
	in := allowRule(secgroup.Ingress, secgroup.TCP, 80)
	in.GroupID = clients.ID
	web := s.addSecurityGroup(s.member, s.red, "web", in, secgroup.AllowAllEgressRule())
	a, b := s.vmWithNIC("a"), s.vmWithNIC("b")
	if _, err := s.setSecurityGroups(s.member, b.ID, web.ID); err != nil {
		t.Fatal(err)
	}
	work := s.claimAndFinishJobs(h1, "")
	if len(work) != 1 || work[0].Kind != fleet.VMApply || len(work[0].SecurityGroups) != 1 || work[0].SecurityGroups[0].Name != "web" || len(work[0].SecurityGroups[0].Rules) != 2 || len(work[0].SecurityGroups[0].Rules[0].Remotes) != 0 {
		t.Fatalf("the VM's work: %+v", work)
	}
	s.runSecurityGroupPass()
	if got := s.groupStatus(web.ID); got != "h1 assign" {
		t.Errorf("the group is on %q", got)
	}
	if work = s.claimAndFinishJobs(h1, ""); len(work) != 1 || work[0].Kind != fleet.SecurityGroupApply || work[0].SecurityGroup == nil || work[0].Generation != 1 {
		t.Fatalf("the group's work: %+v", work)
	}
	if s.runSecurityGroupPass(); len(s.claimAndFinishJobs(h1, "")) != 0 {
		t.Error("a pass in which nothing changed gives work")
	}
	// A NIC joins the group that a rule of the first group names. The rule on the host then contains the NIC's address.
	if _, err := s.setSecurityGroups(s.member, a.ID, clients.ID); err != nil {
		t.Fatal(err)
	}
	s.reportAddress(a.ID, "10.0.0.7")
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	found := ""
	for _, w := range s.claimAndFinishJobs(h1, "") {
		if w.SecurityGroup.Name == "web" {
			found = fmt.Sprint(w.SecurityGroup.Rules[0].Remotes, w.Generation)
		}
	}
	if found != "[10.0.0.7/32] 2" {
		t.Errorf("with a member the host gets %q", found)
	}
	// The host reports a new IP address of VM a, a member of the security group.
	s.reportAddress(a.ID, "10.0.0.8")
	s.runSecurityGroupPass()
	if work = s.claimAndFinishJobs(h1, ""); len(work) != 1 || fmt.Sprint(work[0].SecurityGroup.Rules[0].Remotes) != "[10.0.0.8/32]" {
		t.Errorf("with another address: %+v", work)
	}
	// After the last NIC has left the group, the host keeps the group until the VM's job has ended, because the NIC uses
	// the group's filter until then.
	if _, err := s.setSecurityGroups(s.member, b.ID); err != nil {
		t.Fatal(err)
	}
	s.runSecurityGroupPass()
	if got := s.groupStatus(web.ID); got != "h1 assign" {
		t.Errorf("before the NIC has left on its host the group is on %q", got)
	}
	s.claimAndFinishJobs(h1, "")
	s.execSQL(`UPDATE vms SET observed_generation = generation`)
	s.runSecurityGroupPass()
	if got := s.groupStatus(web.ID); got != "h1 release" {
		t.Errorf("after the last NIC has left the group is on %q", got)
	}
	if work = s.claimAndFinishJobs(h1, ""); len(work) != 1 || work[0].Kind != fleet.SecurityGroupRelease {
		t.Errorf("the release: %+v", work)
	}
	if got := s.groupStatus(web.ID); got != "" {
		t.Errorf("after the release the group is on %q", got)
	}
	if err := s.DeleteSecurityGroup(t.Context(), s.member, web.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetSecurityGroup(t.Context(), chief, web.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the deleted group is still there: %v", err)
	}
}

// A rule may name its own group: the members of the group may then connect to one another.
func TestSelfReferringSecurityGroupAdmitsItsMembers(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	g := s.addSecurityGroup(s.member, s.red, "peers")
	in := allowRule(secgroup.Ingress, secgroup.AnyProtocol, 0)
	in.GroupID = g.ID
	g, err := s.UpdateSecurityGroup(t.Context(), s.member, g.ID, network.UpdateSecurityGroup{Spec: &secgroup.Spec{Rules: []secgroup.Rule{in, secgroup.AllowAllEgressRule()}}, IfGeneration: g.Generation})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := s.vmWithNIC("a"), s.vmWithNIC("b"), s.vmWithNIC("c")
	for i, vm := range []fleet.VMView{a, b, c} {
		if i < 2 {
			if _, err := s.setSecurityGroups(s.member, vm.ID, g.ID); err != nil {
				t.Fatal(err)
			}
		}
		s.reportAddress(vm.ID, fmt.Sprintf("10.0.0.%d", 1+i))
	}
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	work := s.claimAndFinishJobs(h1, "")
	if len(work) != 1 || fmt.Sprint(work[0].SecurityGroup.Rules[0].Remotes) != "[10.0.0.1/32 10.0.0.2/32]" {
		t.Fatalf("the host gets %+v", work)
	}
	ask := func(from, to fleet.VMID) connectivity.PassAnswer {
		t.Helper()
		out, err := s.CheckConnection(t.Context(), s.member, connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: from}, To: connectivity.ConnectionEnd{VMID: to}, Protocol: secgroup.TCP, Port: 22})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := ask(a.ID, b.ID); !out.Pass || out.To.GroupName != "peers" || !strings.Contains(out.To.Why, "in any from members of peers") || out.To.State != secgroup.Applied {
		t.Errorf("between members: %+v", out)
	}
	s.execSQL(`UPDATE vms SET status = status #- '{nics,0,filter}', observed_generation = generation WHERE id = $1`, b.ID)
	if out := ask(a.ID, b.ID); out.To.State != secgroup.NotApplied {
		t.Errorf("to a NIC whose filter was removed on the host: %+v", out)
	}
	if out := ask(c.ID, b.ID); out.Pass || !out.Known || !out.From.Pass {
		t.Errorf("from a NIC outside the group: %+v", out)
	}
	if out := ask(b.ID, c.ID); !out.Pass {
		t.Errorf("to a NIC outside the group: %+v", out)
	}
	if err := s.DeleteSecurityGroup(t.Context(), s.member, g.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "a, b") {
		t.Errorf("a group with NICs in it was deleted: %v", err)
	}
}

// A host's error for a group is shown on the group's page, at the NIC and in the Needs attention list.
func TestFailedSecurityGroupNeedsAttention(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	g := s.addSecurityGroup(s.member, s.red, "web")
	a := s.vmWithNIC("a")
	if _, err := s.setSecurityGroups(s.member, a.ID, g.ID); err != nil {
		t.Fatal(err)
	}
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	const errText = "internal error: Failed to run firewall command /usr/sbin/iptables -w"
	s.claimAndFinishJobs(h1, errText)
	s.execSQL(`UPDATE host_sessions SET seen_at = now()`)
	v, err := s.GetSecurityGroup(t.Context(), chief, g.ID)
	if err != nil || len(v.Hosts) != 1 || v.Hosts[0].State != secgroup.NotApplied || v.Hosts[0].Status.Error != errText || v.SeverityCounts.Bad != 1 {
		t.Errorf("the group: %+v %v", v, err)
	}
	nics, err := s.NICFilterStates(t.Context(), chief, a.ID)
	if err != nil || len(nics) != 1 || nics[0].State != secgroup.NotApplied || !strings.Contains(nics[0].Problem, errText) {
		t.Errorf("the NIC: %+v %v", nics, err)
	}
	attentionOf := func(a fleet.Actor) string {
		t.Helper()
		o, err := s.Overview(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(o.Attention)
	}
	if got := attentionOf(chief); !strings.Contains(got, "web") || !strings.Contains(got, errText) {
		t.Errorf("what needs attention: %s", got)
	}
	if got := attentionOf(s.member); !strings.Contains(got, "web") || strings.Contains(got, "/usr/sbin") || strings.Contains(got, "h1") {
		t.Errorf("what a tenant gets: %s", got)
	}
	if got := attentionOf(s.blueMember); strings.Contains(got, "Not applied") {
		t.Errorf("what another tenant gets: %s", got)
	}
	if s.runSecurityGroupPass(); len(s.claimAndFinishJobs(h1, "")) != 0 {
		t.Error("a failed group is retried immediately and endlessly")
	}
	if err := s.RetrySecurityGroup(t.Context(), s.member, g.ID); err != nil {
		t.Fatal(err)
	}
	if work := s.claimAndFinishJobs(h1, ""); len(work) != 1 || work[0].Generation != 2 {
		t.Errorf("the other try: %+v", work)
	}
	if v, err = s.GetSecurityGroup(t.Context(), chief, g.ID); err != nil || v.Hosts[0].State != secgroup.Applied {
		t.Errorf("after another try: %+v %v", v, err)
	}
	if v, err = s.GetSecurityGroup(t.Context(), s.member, g.ID); err != nil || len(v.Hosts) != 0 || v.SeverityCounts != (fleet.SeverityCounts{OK: 1}) {
		t.Errorf("a member is shown %+v %v", v, err)
	}
}

// Tenants create groups in their projects and can use global groups. A group of another project is refused with the
// error for an unknown group.
func TestTenantsUseOnlyOwnAndGlobalSecurityGroups(t *testing.T) {
	s := newProjectFixture(t)
	mine, theirs := s.addSecurityGroup(s.member, s.red, "web"), s.addSecurityGroup(s.blueMember, s.blue, "web")
	shared := s.addSecurityGroup(chief, "", "web")
	a := s.vmWithNIC("a")
	names := func(a fleet.Actor) (n int) {
		t.Helper()
		page, err := s.ListSecurityGroups(t.Context(), a, fleet.Query{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	if names(chief) != 3 || names(s.member) != 2 || names(s.viewer) != 2 {
		t.Errorf("people see %d, %d and %d groups", names(chief), names(s.member), names(s.viewer))
	}
	create := func(a fleet.Actor, project fleet.ProjectID) func() error {
		return func() error {
			_, err := s.CreateSecurityGroup(t.Context(), a, network.CreateSecurityGroup{ProjectID: project, Name: "new"})
			return err
		}
	}
	update := func(a fleet.Actor, id fleet.SecurityGroupID, rules ...secgroup.Rule) func() error {
		return func() error {
			_, err := s.UpdateSecurityGroup(t.Context(), a, id, network.UpdateSecurityGroup{Spec: &secgroup.Spec{Rules: rules}})
			return err
		}
	}
	drop := func(a fleet.Actor, id fleet.SecurityGroupID) func() error {
		return func() error { return s.DeleteSecurityGroup(t.Context(), a, id) }
	}
	setGroup := func(a fleet.Actor, vm fleet.VMID, id fleet.SecurityGroupID) func() error {
		return func() error { _, err := s.setSecurityGroups(a, vm, id); return err }
	}
	guard := func(who fleet.Actor, on bool) func() error {
		return func() error {
			spec := s.getVM(a.ID).Spec
			spec.NICs[0].AntiSpoofing = &on
			_, _, err := s.UpdateVM(t.Context(), who, a.ID, control.UpdateVM{Spec: &spec})
			return err
		}
	}
	to := func(id fleet.SecurityGroupID) secgroup.Rule {
		r := allowRule(secgroup.Ingress, secgroup.TCP, 80)
		r.GroupID = id
		return r
	}
	if err := guard(s.member, true)(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		do   func() error
	}{
		{"a viewer makes a group", fleet.Forbidden, "", create(s.viewer, s.red)},
		{"a member makes one of the fleet", fleet.Forbidden, "", create(s.member, "")},
		{"a member makes one of another project", fleet.NotFound, "", create(s.member, s.blue)},
		{"one of no project", fleet.NotFound, "project", create(chief, "none")},
		{"a member changes the fleet's", fleet.Forbidden, "", update(s.member, shared.ID)},
		{"a member changes another project's", fleet.NotFound, "There is no such", update(s.member, theirs.ID)},
		{"a viewer changes the project's", fleet.Forbidden, "", update(s.viewer, mine.ID)},
		{"a rule names another project's", fleet.Invalid, "There is no such security group", update(s.member, mine.ID, to(theirs.ID))},
		{"a rule of the fleet names a project's", fleet.Invalid, "There is no such security group", update(chief, shared.ID, to(mine.ID))},
		{"a rule names none", fleet.Invalid, "There is no such security group", update(s.member, mine.ID, to(fleet.NewID[fleet.SecurityGroupID]()))},
		{"a member deletes the fleet's", fleet.Forbidden, "", drop(s.member, shared.ID)},
		{"a member deletes another project's", fleet.NotFound, "", drop(s.member, theirs.ID)},
		{"a NIC in another project's", fleet.Invalid, "There is no such security group", setGroup(s.member, a.ID, theirs.ID)},
		{"an administrator puts a NIC in another project's", fleet.Invalid, "There is no such security group", setGroup(chief, a.ID, theirs.ID)},
		{"a member takes the guard off", fleet.Invalid, "may turn anti-spoofing off", guard(s.member, false)},
		{"a name twice", fleet.Conflict, "exists already", func() error {
			_, err := s.CreateSecurityGroup(t.Context(), s.member, network.CreateSecurityGroup{ProjectID: s.red, Name: "web"})
			return err
		}},
		{"a packet to another's VM", fleet.NotFound, "no such VM", func() error {
			_, err := s.CheckConnection(t.Context(), s.blueMember, connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: a.ID}, To: connectivity.ConnectionEnd{Address: "10.0.0.1"}, Protocol: secgroup.TCP, Port: 1})
			return err
		}},
	} {
		s.wantRefused(c.name, c.code, c.says, c.do)
	}
	if _, err := s.setSecurityGroups(s.member, a.ID, mine.ID, shared.ID); err != nil {
		t.Errorf("a member may not use the project's and the fleet's: %v", err)
	}
	if err := guard(chief, false)(); err != nil || s.getVM(a.ID).Spec.NICs[0].AntiSpoofing != nil {
		t.Errorf("an administrator may not take the guard off: %v", err)
	}
	if err := update(s.member, mine.ID, to(shared.ID))(); err != nil {
		t.Errorf("a rule may not name the fleet's: %v", err)
	}
	seen, err := s.GetSecurityGroup(t.Context(), s.blueMember, shared.ID)
	if err != nil || seen.NICs != 0 || len(seen.Members) != 0 {
		t.Errorf("a tenant is shown others' NICs in a group of the fleet: %+v %v", seen, err)
	}
}

// A new NIC has anti-spoofing by default if a tenant creates it, but not if an administrator does. Existing NICs do not
// change.
func TestAntiSpoofingDefaultsOnForTenants(t *testing.T) {
	s := newProjectFixture(t)
	make := func(a fleet.Actor, name string, on *bool) fleet.VMView {
		t.Helper()
		spec := smallSpec
		spec.NICs = []fleet.NIC{{Network: "default", AntiSpoofing: on}}
		v, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: s.red, Name: name, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	yes, no := true, false
	if v := make(s.member, "a", nil); !v.Spec.NICs[0].HasAntiSpoofing() {
		t.Error("a tenant's NIC has no anti-spoofing")
	}
	if v := make(chief, "b", nil); v.Spec.NICs[0].HasAntiSpoofing() {
		t.Error("an administrator's NIC has anti-spoofing by default")
	}
	if v := make(chief, "c", &yes); !v.Spec.NICs[0].HasAntiSpoofing() {
		t.Error("a NIC lacks the requested anti-spoofing")
	}
	spec := smallSpec
	spec.NICs = []fleet.NIC{{Network: "default", AntiSpoofing: &no}}
	s.wantRefused("a tenant's NIC without anti-spoofing", fleet.Invalid, "may turn anti-spoofing off", func() error {
		_, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "d", Spec: spec})
		return err
	})
	// A NIC without anti-spoofing, such as a NIC from before the setting, does not change when a tenant edits another
	// field.
	old := s.vmWithNIC("old")
	g := s.addSecurityGroup(s.member, s.red, "web")
	if v, err := s.setSecurityGroups(s.member, old.ID, g.ID); err != nil || v.Spec.NICs[0].HasAntiSpoofing() {
		t.Errorf("a NIC that was not guarded: %v", err)
	}
}
