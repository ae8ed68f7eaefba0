package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/connectivity"
	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// Two security groups refer to each other in their rules. One run of the pass sends each group the member addresses of
// the other. Neither group can be deleted while the other refers to it.
func TestMutuallyReferringSecurityGroupsGetEachOthersMembers(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	front, back := s.addSecurityGroup(s.member, s.red, "front"), s.addSecurityGroup(s.member, s.red, "back")
	names := func(of, other secgroup.View, port int) {
		t.Helper()
		in := allowRule(secgroup.Ingress, secgroup.TCP, port)
		in.GroupID = other.ID
		spec := secgroup.Spec{Rules: []secgroup.Rule{in, secgroup.AllowAllEgressRule()}}
		if _, err := s.UpdateSecurityGroup(t.Context(), s.member, of.ID, network.UpdateSecurityGroup{Spec: &spec}); err != nil {
			t.Fatal(err)
		}
	}
	names(front, back, 80)
	names(back, front, 5432)
	web, db := s.vmWithNIC("web"), s.vmWithNIC("db")
	for vm, g := range map[fleet.VMID]fleet.SecurityGroupID{web.ID: front.ID, db.ID: back.ID} {
		if _, err := s.setSecurityGroups(s.member, vm, g); err != nil {
			t.Fatal(err)
		}
	}
	s.reportAddress(web.ID, "10.0.0.1")
	s.reportAddress(db.ID, "10.0.0.2")
	s.claimAndFinishJobs(h1, "")
	members := func() string {
		t.Helper()
		s.runSecurityGroupPass()
		var out []string
		for _, w := range s.claimAndFinishJobs(h1, "") {
			if w.SecurityGroup != nil {
				out = append(out, fmt.Sprint(w.SecurityGroup.Name, w.SecurityGroup.Rules[0].Remotes))
			}
		}
		return strings.Join(out, " ")
	}
	if got := members(); !strings.Contains(got, "front[10.0.0.2/32]") || !strings.Contains(got, "back[10.0.0.1/32]") {
		t.Errorf("the host gets %q", got)
	}
	if got := members(); got != "" {
		t.Errorf("two groups that name each other are updated endlessly: %q", got)
	}
	pass := func(from, to fleet.VMID, port int) connectivity.PassAnswer {
		t.Helper()
		out, err := s.CheckConnection(t.Context(), s.member, connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: from}, To: connectivity.ConnectionEnd{VMID: to}, Protocol: secgroup.TCP, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := pass(web.ID, db.ID, 5432); !out.Pass || out.To.Rule != "in tcp 5432 from members of front" || out.To.State != secgroup.Applied {
		t.Errorf("from the front to the back: %+v", out)
	}
	if pass(db.ID, web.ID, 5432).Pass || !pass(db.ID, web.ID, 80).Pass {
		t.Error("the two rules have the same id")
	}
	// One run of the security group pass sends a member's new address to the hosts of both groups.
	s.reportAddress(web.ID, "10.0.0.9")
	if got := members(); got != "back[10.0.0.9/32]" {
		t.Errorf("after a member's address changed the host gets %q", got)
	}
	if v, err := s.GetSecurityGroup(t.Context(), s.member, front.ID); err != nil || v.Names[string(back.ID)] != "back" || len(v.Members) != 1 || fmt.Sprint(v.Members[0].Addresses) != "[10.0.0.9]" {
		t.Errorf("the page of the front: %+v %v", v, err)
	}
	for _, vm := range []fleet.VMID{web.ID, db.ID} {
		if _, err := s.setSecurityGroups(s.member, vm); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("delete a group that another names", fleet.Conflict, "rules of other groups name it: front", func() error { return s.DeleteSecurityGroup(t.Context(), s.member, back.ID) })
	spec := secgroup.Spec{Rules: []secgroup.Rule{secgroup.AllowAllEgressRule()}}
	if _, err := s.UpdateSecurityGroup(t.Context(), s.member, front.ID, network.UpdateSecurityGroup{Spec: &spec}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSecurityGroup(t.Context(), s.member, back.ID); err != nil {
		t.Errorf("after the rule went: %v", err)
	}
}

// After a rule refers to a group again that it did not refer to for a while, former members of the group are not
// admitted.
func TestSecurityGroupReferencedAgainDropsFormerMembers(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	clients, web := s.addSecurityGroup(s.member, s.red, "clients"), s.addSecurityGroup(s.member, s.red, "web")
	a, b := s.vmWithNIC("a"), s.vmWithNIC("b")
	for vm, g := range map[fleet.VMID]fleet.SecurityGroupID{a.ID: clients.ID, b.ID: web.ID} {
		if _, err := s.setSecurityGroups(s.member, vm, g); err != nil {
			t.Fatal(err)
		}
	}
	s.reportAddress(a.ID, "10.0.0.7")
	let := func(rules ...secgroup.Rule) {
		t.Helper()
		if _, err := s.UpdateSecurityGroup(t.Context(), s.member, web.ID, network.UpdateSecurityGroup{Spec: &secgroup.Spec{Rules: rules}}); err != nil {
			t.Fatal(err)
		}
	}
	in := allowRule(secgroup.Ingress, secgroup.TCP, 80)
	in.GroupID = clients.ID
	members := func() (out string) {
		t.Helper()
		for _, w := range s.claimAndFinishJobs(h1, "") {
			if w.SecurityGroup != nil && w.SecurityGroup.Name == "web" {
				out = fmt.Sprint(w.SecurityGroup.Rules[0].Remotes)
			}
		}
		return out
	}
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	s.claimAndFinishJobs(h1, "")
	let(in)
	s.runSecurityGroupPass()
	if got := members(); got != "[10.0.0.7/32]" {
		t.Fatalf("with a member the host gets %q", got)
	}
	let(secgroup.AllowAllEgressRule())
	s.runSecurityGroupPass()
	members()
	if _, err := s.setSecurityGroups(s.member, a.ID); err != nil {
		t.Fatal(err)
	}
	s.runSecurityGroupPass()
	s.claimAndFinishJobs(h1, "")
	let(in)
	if got := members(); got != "[]" {
		t.Errorf("before members are known the host gets %q", got)
	}
}
