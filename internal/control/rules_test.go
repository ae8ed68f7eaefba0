package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

var (
	webAffinityRule     = fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: "tier=web"}
	webAntiAffinityRule = fleet.PlacementRule{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"}
	hostH2Rule          = fleet.PlacementRule{Of: fleet.RuleHost, Name: "h2"}
)

func (s *projectFixture) createWithRules(a fleet.Actor, name string, host fleet.HostID, rules ...fleet.PlacementRule) (fleet.VMView, error) {
	spec := smallSpec
	spec.Rules = rules
	return s.CreateVM(s.t.Context(), a, control.CreateVM{ProjectID: s.red, HostID: host, Name: name, Labels: map[string]string{"tier": "web"}, Spec: spec})
}

func (s *projectFixture) settleRules() {
	s.t.Helper()
	if err := s.RecordBrokenRules(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// An anti-affinity rule applies if the new VM has it or if an existing VM has it. It also applies if the request names
// the host.
func TestPlacementFollowsRules(t *testing.T) {
	s := newProjectFixture(t)
	one, err := s.createWithRules(chief, "web-1", "", webAntiAffinityRule)
	if err != nil || one.HostID != s.h1 {
		t.Fatalf("the first is on %s: %v", one.HostName, err)
	}
	two, err := s.createWithRules(s.member, "web-2", "", webAntiAffinityRule)
	if err != nil || s.getVM(two.ID).HostID != s.h2 {
		t.Fatalf("the second is on %s: %v", s.getVM(two.ID).HostName, err)
	}
	before := s.countRows("vms")
	s.wantRefused("a third VM", fleet.Invalid, "h1: h1 has web-1, and the VM must be apart from VMs with tier=web", func() error { _, err := s.createWithRules(chief, "web-3", "", webAntiAffinityRule); return err })
	s.wantRefused("a third VM on a named host", fleet.Invalid, "2 fields", func() error { _, err := s.createWithRules(chief, "web-3", s.h2, webAntiAffinityRule); return err })
	s.wantRefused("a third VM without rules", fleet.Invalid, "which must be apart from this VM", func() error { _, err := s.createWithRules(chief, "web-3", ""); return err })
	s.wantRefused("of a member", fleet.Invalid, "2 hosts: the VM must be apart from VMs with tier=web", func() error { _, err := s.createWithRules(s.member, "web-3", "", webAntiAffinityRule); return err })
	s.wantRefused("a rule with an unknown VM", fleet.Invalid, "there is no such VM in the project", func() error {
		_, err := s.createWithRules(chief, "web-3", "", fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"})
		return err
	})
	if n := s.countRows("vms"); n != before {
		t.Errorf("refused requests created %d VMs", n-before)
	}
	// An anti-affinity rule does not match VMs of other projects.
	spec := smallSpec
	spec.Rules = []fleet.PlacementRule{webAntiAffinityRule}
	other, err := s.CreateVM(t.Context(), s.blueMember, control.CreateVM{ProjectID: s.blue, Name: "web", Labels: map[string]string{"tier": "web"}, Spec: spec})
	if err != nil || s.getVM(other.ID).HostID != s.h1 {
		t.Errorf("a VM of another project: %v", err)
	}
	s.wantRefused("with a VM of another project", fleet.Invalid, "2 hosts: the VM must be with the VM web-1, and there is no such VM", func() error {
		spec.Rules = []fleet.PlacementRule{{Of: fleet.RuleVM, Name: "web-1"}}
		_, err := s.CreateVM(t.Context(), s.blueMember, control.CreateVM{ProjectID: s.blue, Name: "spy", Spec: spec})
		return err
	})
}

// Anti-affinity rules also separate VMs that are created concurrently.
func TestPlacementRulesHoldForConcurrentCreates(t *testing.T) {
	s := newProjectFixture(t)
	made := make(chan error, 4)
	for _, name := range []string{"a", "b", "c", "d"} {
		go func() {
			_, err := s.createWithRules(chief, name, "", webAntiAffinityRule)
			made <- err
		}()
	}
	refused := 0
	for range 4 {
		if err := <-made; err != nil {
			refused++
		}
	}
	if n := s.countRows("(SELECT host_id FROM vms GROUP BY 1) h"); n != 2 || refused != 2 {
		t.Errorf("on %d hosts, %d refused", n, refused)
	}
}

// Actors who cannot see hosts can neither read nor change rules that name hosts.
func TestPlacementRulesHideHostsFromTenants(t *testing.T) {
	s := newProjectFixture(t)
	s.wantRefused("a member names a host", fleet.Invalid, "Only people who can see hosts", func() error { _, err := s.createWithRules(s.member, "web", "", hostH2Rule); return err })
	v, err := s.createWithRules(chief, "web", "", hostH2Rule)
	if err != nil || v.HostID != s.h2 {
		t.Fatalf("on %s: %v", v.HostName, err)
	}
	s.reportPower(v.ID, fleet.Running)
	shown, err := s.GetVM(t.Context(), s.member, v.ID)
	if err != nil || len(shown.Spec.Rules) != 0 {
		t.Fatalf("a member reads %+v: %v", shown.Spec.Rules, err)
	}
	edit := func(a fleet.Actor, rules ...fleet.PlacementRule) error {
		_, _, err := s.UpdateVM(t.Context(), a, v.ID, editedSpec(shown, func(s *fleet.VMSpec) { s.Rules = rules }))
		return err
	}
	if err := edit(s.member); err != nil || s.getVM(v.ID).Generation != v.Generation {
		t.Errorf("a member changes nothing: %v, generation %d", err, s.getVM(v.ID).Generation)
	}
	s.wantRefused("a member adds a host", fleet.Invalid, "Only people who can see hosts", func() error { return edit(s.member, hostH2Rule) })
	if err := edit(s.member, webAffinityRule); err != nil {
		t.Fatal(err)
	}
	if now := s.getVM(v.ID).Spec.Rules; !slices.Equal(now, []fleet.PlacementRule{hostH2Rule, webAffinityRule}) {
		t.Errorf("after a member's edit the rules are %+v", now)
	}
	if n := s.countRows("audit WHERE detail LIKE '%h2%' AND action = 'vm.update'"); n != 0 {
		t.Errorf("%d lines of the audit name the host", n)
	}
}

// An edit may violate a placement rule: the VM stays on its host and needs attention. The text for members names no
// hosts. The VM no longer needs attention once the rule is satisfied.
func TestVMViolatingPlacementRuleNeedsAttention(t *testing.T) {
	s := newProjectFixture(t)
	one, err := s.createWithRules(chief, "web-1", s.h1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.createWithRules(chief, "web-2", s.h1)
	if err != nil {
		t.Fatal(err)
	}
	s.reportPower(one.ID, fleet.Running)
	s.reportPower(two.ID, fleet.Running)
	if _, _, err := s.UpdateVM(t.Context(), chief, one.ID, editedSpec(s.getVM(one.ID), func(s *fleet.VMSpec) { s.Rules = []fleet.PlacementRule{hostH2Rule, webAntiAffinityRule} })); err != nil {
		t.Fatal(err)
	}
	s.reportPower(one.ID, fleet.Running)
	s.settleRules()
	fault := func(a fleet.Actor, id fleet.VMID) string {
		v, err := s.GetVM(t.Context(), a, id)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(v.Status.Faults, func(f fleet.Fault) bool { return f.Code == fleet.FaultPlacement })
		if (i >= 0) != v.Attention || i < 0 {
			return ""
		}
		return v.Status.Faults[i].Text
	}
	if text := fault(chief, one.ID); !strings.Contains(text, "must be on the host h2") || !strings.Contains(text, "must be apart from VMs with tier=web") {
		t.Errorf("an administrator reads %q", text)
	}
	if text := fault(s.member, one.ID); strings.Contains(text, "h2") || !strings.Contains(text, "must be apart from VMs with tier=web") {
		t.Errorf("a member reads %q", text)
	}
	if fault(chief, two.ID) != "" || s.getVM(one.ID).HostID != s.h1 {
		t.Error("the other is notified of, or the VM has moved")
	}
	page, err := s.ListVMs(t.Context(), s.member, fleet.Query{Filter: "attention:yes"})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != one.ID || strings.Contains(page.Items[0].Status.Faults[0].Text, "h2") {
		t.Errorf("in need are %d VMs: %v", len(page.Items), err)
	}
	if _, err := s.ListVMRows(t.Context(), s.member, fleet.Query{}); err != nil {
		t.Error(err)
	}
	if _, _, err := s.UpdateVM(t.Context(), chief, one.ID, editedSpec(s.getVM(one.ID), func(s *fleet.VMSpec) { s.Rules = nil })); err != nil {
		t.Fatal(err)
	}
	s.reportPower(one.ID, fleet.Running)
	s.settleRules()
	if now := s.getVM(one.ID); now.Attention || len(now.Misplaced) != 0 {
		t.Errorf("without rules the VM is %+v", now.Misplaced)
	}
}

// The preview names the chosen host and gives a reason for each other host. The preview for a member names no hosts.
func TestPlacementPreviewFollowsRules(t *testing.T) {
	s := newProjectFixture(t)
	if _, err := s.createWithRules(chief, "web-1", s.h1); err != nil {
		t.Fatal(err)
	}
	soft := webAntiAffinityRule
	soft.Preferred = true
	spec := smallSpec
	for name, c := range map[string]struct {
		rule fleet.PlacementRule
		says string
	}{"must": {webAntiAffinityRule, "h1 has web-1, and the VM must be apart"}, "should": {soft, "It could take the VM, which should be apart from VMs with tier=web."}} {
		spec.Rules = []fleet.PlacementRule{c.rule}
		p, err := s.PreviewVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web-2", Spec: spec})
		if err != nil || p.Host != "h2" || len(p.Hosts) != 1 || !strings.Contains(p.Hosts[0].Why, c.says) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	p, err := s.PreviewVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "web-2", Spec: spec})
	if err != nil || !p.Placed || p.Host != "" || len(p.Hosts) != 0 {
		t.Errorf("a member reads %+v: %v", p, err)
	}
}

// A migration is refused for a VM whose policy pins it to its host. The VM's bandwidth limit applies to its migrations.
func TestMigrationPolicyLimitsMigrations(t *testing.T) {
	s := newLibraryFixture(t)
	s.imageOnOneHost()
	v := s.vmToMigrate("web")
	set := func(m fleet.VMMigration) {
		t.Helper()
		if _, _, err := s.UpdateVM(t.Context(), chief, v.ID, editedSpec(s.getVM(v.ID), func(s *fleet.VMSpec) { s.Migration = m })); err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
		s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, v.ID)
	}
	go1 := func() error {
		_, err := s.MigrateVM(t.Context(), chief, v.ID, control.MigrateVM{HostID: s.h2, RateBytes: 10 << 20})
		return err
	}
	set(fleet.VMMigration{Stays: true})
	s.wantRefused("a VM that must stay on its host", fleet.Conflict, "The VM's configuration forbids migration.", go1)
	set(fleet.VMMigration{LimitMiB: 3})
	if err := go1(); err != nil {
		t.Fatal(err)
	}
	for _, in := range s.claimedWork(s.h2, fleet.VolumeReceive) {
		if rate := in.Args.Volume.Transfer.RateBytes; rate != 3<<20 {
			t.Errorf("a disk goes with %d bytes a second", rate)
		}
	}
}
