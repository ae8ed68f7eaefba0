package control_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// sendHeartbeat sends a heartbeat of the host with packet counts.
func (s *projectFixture) sendHeartbeat(a fleet.Actor, counts secgroup.FilterCounts) error {
	s.t.Helper()
	base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, a.HostID)
	in := wire.Report{Seq: base + finishSeq.Add(1), Digest: "1", StateAgeMs: 1, Filters: &counts}
	if err := wire.EnforceBounds(&in); err != nil {
		return err
	}
	_, err := s.Report(s.t.Context(), a, in)
	return err
}

// Packet counts of NICs are summed per rule and shown per NIC. Outdated counts, and counts that a host reports for NICs
// of another host, are ignored. Without a valid count the page shows unknown instead of zero.
func TestPacketCountsSummedPerSecurityGroupRule(t *testing.T) {
	s := newProjectFixture(t)
	h1, h2 := s.agentSession(s.h1), s.agentSession(s.h2)
	g := s.addSecurityGroup(s.member, s.red, "web", allowRule(secgroup.Ingress, secgroup.TCP, 80), secgroup.AllowAllEgressRule())
	other := s.addSecurityGroup(s.member, s.red, "ssh", allowRule(secgroup.Ingress, secgroup.TCP, 22))
	a, b := s.vmWithNIC("a"), s.vmWithNIC("b")
	if _, err := s.setSecurityGroups(s.member, a.ID, g.ID, other.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.setSecurityGroups(s.member, b.ID, g.ID); err != nil {
		t.Fatal(err)
	}
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	s.claimAndFinishJobs(h1, "")
	in, out := g.Spec.Rules[0].ID, g.Spec.Rules[1].ID
	nic := func(vm fleet.VMView, since int64, rules ...secgroup.RuleCount) secgroup.NICCount {
		return secgroup.NICCount{ID: vm.ID, MAC: strings.ToUpper(s.getVM(vm.ID).Spec.NICs[0].MAC), SinceMs: since, Rules: rules, Dropped: secgroup.PassCount{Packets: 2, Bytes: 120}}
	}
	rule := func(id string, packets int64) secgroup.RuleCount {
		return secgroup.RuleCount{Rule: id, PassCount: secgroup.PassCount{Packets: packets, Bytes: 100 * packets}}
	}
	shows := func(who fleet.Actor, want string) *secgroup.Count {
		t.Helper()
		v, err := s.GetSecurityGroup(t.Context(), who, g.ID)
		if err != nil || v.Count == nil {
			t.Fatalf("%+v %v", v, err)
		}
		c := v.Count
		one, known := c.CountOfRule(in)
		two, _ := c.CountOfRule(out)
		if got := fmt.Sprintf("%d of %d: %v %d %d, dropped %d", c.NICs, c.Of, known, one.Packets, two.Packets, c.Dropped.Packets); got != want {
			t.Errorf("shown %q, want %q", got, want)
		}
		return c
	}
	shows(chief, "0 of 2: false 0 0, dropped 0")
	if err := s.sendHeartbeat(h1, secgroup.FilterCounts{NICs: []secgroup.NICCount{nic(a, 60000, rule(in, 5), rule(out, 7), rule(other.Spec.Rules[0].ID, 9)), nic(b, 10000, rule(in, 1))}}); err != nil {
		t.Fatal(err)
	}
	if c := shows(chief, "2 of 2: true 6 7, dropped 4"); c.Since == nil || c.At.Sub(*c.Since).Round(1e9).Seconds() != 60 {
		t.Errorf("since %v, as of %v", c.Since, c.At)
	}
	shows(s.member, "2 of 2: true 6 7, dropped 4")
	nics, err := s.NICFilterStates(t.Context(), s.member, a.ID)
	if err != nil || len(nics) != 1 || nics[0].Hits == nil {
		t.Fatalf("%+v %v", nics, err)
	}
	var summary strings.Builder
	for _, h := range nics[0].Hits.Rules {
		fmt.Fprintf(&summary, "%s %s: %d; ", h.Group, h.Words, h.Packets)
	}
	if summary.String() != "ssh in tcp 22 from anybody: 9; web in tcp 80 from anybody: 5; web out any to anybody: 7; " || nics[0].Hits.Dropped.Bytes != 120 {
		t.Errorf("the NIC: %s %+v", summary.String(), nics[0].Hits)
	}
	// Another host's counts of these NICs are ignored, although that host has the group too. Negative and implausible
	// counts are also ignored.
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id) VALUES ('secgroup', $1, $2)`, g.ID, s.h2)
	if err := s.sendHeartbeat(h2, secgroup.FilterCounts{NICs: []secgroup.NICCount{nic(a, 1, rule(in, 1000))}}); err != nil {
		t.Fatal(err)
	}
	shows(chief, "2 of 2: true 6 7, dropped 4")
	if err := s.sendHeartbeat(h1, secgroup.FilterCounts{NICs: []secgroup.NICCount{nic(a, 1, rule(in, -5), rule(out, 1<<62)), nic(a, 1, rule(in, 3))}}); err != nil {
		t.Fatal(err)
	}
	if v, err := s.GetSecurityGroup(t.Context(), chief, g.ID); err != nil || v.Count.NICs != 1 || v.Count.Of != 2 {
		t.Errorf("after implausible counts: %+v %v", v.Count, err)
	}
	bulkOrder := make([]secgroup.NICCount, 5)
	for i := range bulkOrder {
		bulkOrder[i] = secgroup.NICCount{ID: fleet.NewID[fleet.VMID](), MAC: "52:54:00:00:00:01", Rules: make([]secgroup.RuleCount, 1000)}
	}
	if err := s.sendHeartbeat(h1, secgroup.FilterCounts{NICs: bulkOrder}); fleet.CodeOf(err) != fleet.Invalid {
		t.Errorf("more rules than a report has: %v", err)
	}
	// An outdated count is shown as unknown, as for a host that cannot count packets.
	s.execSQL(`UPDATE host_filter_counts SET at = at - interval '5 minutes'`)
	shows(chief, "0 of 2: false 0 0, dropped 0")
	if nics, err := s.NICFilterStates(t.Context(), s.member, a.ID); err != nil || nics[0].Hits != nil {
		t.Errorf("an old count is shown: %+v %v", nics, err)
	}
	if err := s.sendHeartbeat(h1, secgroup.FilterCounts{Error: "count packets: this host has no iptables-save"}); err != nil {
		t.Fatal(err)
	}
	if c := shows(chief, "0 of 2: false 0 0, dropped 0"); !strings.Contains(c.Error, "iptables-save") {
		t.Errorf("why nothing is counted: %q", c.Error)
	}
}

// Rule ids are unique among all groups: a new rule with the id of another group's rule gets a new id.
func TestSecurityGroupRuleIDsAreUnique(t *testing.T) {
	s := newProjectFixture(t)
	first := s.addSecurityGroup(s.member, s.red, "first", allowRule(secgroup.Ingress, secgroup.TCP, 80))
	stolen := first.Spec.Rules[0]
	second := s.addSecurityGroup(s.member, s.red, "second", stolen)
	if second.Spec.Rules[0].ID == stolen.ID {
		t.Error("a new group has the id of another group's rule")
	}
	spec := second.Spec
	kept := spec.Rules[0].ID
	stolen.FromPort, stolen.ToPort = 81, 81
	spec.Rules = append(spec.Rules, stolen)
	second, err := s.UpdateSecurityGroup(t.Context(), s.member, second.ID, network.UpdateSecurityGroup{Spec: &spec})
	if err != nil || second.Spec.Rules[0].ID != kept || second.Spec.Rules[1].ID == stolen.ID {
		t.Errorf("after a change: %+v %v", second.Spec, err)
	}
}

// A security group that somebody changed on a host is shown as not applied on the group's page, at its NICs and in the
// Needs attention list. The group is reapplied only on request.
func TestSecurityGroupChangedOnHostNeedsAttention(t *testing.T) {
	s := newProjectFixture(t)
	h1 := s.agentSession(s.h1)
	g := s.addSecurityGroup(s.member, s.red, "web", allowRule(secgroup.Ingress, secgroup.TCP, 80))
	a := s.vmWithNIC("a")
	if _, err := s.setSecurityGroups(s.member, a.ID, g.ID); err != nil {
		t.Fatal(err)
	}
	s.claimAndFinishJobs(h1, "")
	s.runSecurityGroupPass()
	s.claimAndFinishJobs(h1, "")
	base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, s.h1)
	says := func(from fleet.Actor, vm fleet.VMStatus, changed ...wire.GroupReport) {
		t.Helper()
		if from.HostID != s.h1 {
			base = queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, from.HostID)
		}
		seq := base + finishSeq.Add(1)
		state := wire.State{Host: fleet.HostStatus{Connected: true}, Groups: changed}
		if from.HostID == s.h1 {
			state.VMs = []wire.VMReport{{ID: a.ID, Name: "a", Generation: s.getVM(a.ID).Generation, Status: vm}}
		}
		in := wire.Report{Seq: seq, Digest: strconv.FormatInt(seq, 10), StateAgeMs: 1, State: &state}
		if _, err := s.Report(t.Context(), from, in); err != nil {
			t.Fatal(err)
		}
	}
	well := s.getVM(a.ID)
	status := fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 128, NICs: []fleet.NICState{{MAC: well.Spec.NICs[0].MAC, Source: "network default", Filter: "quantix-nic-x"}}}
	state := func() (string, secgroup.NICFilter) {
		t.Helper()
		v, err := s.GetSecurityGroup(t.Context(), chief, g.ID)
		if err != nil || len(v.Hosts) != 1 {
			t.Fatalf("%+v %v", v, err)
		}
		nics, err := s.NICFilterStates(t.Context(), s.member, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(v.Hosts[0].State, ", ", v.SeverityCounts.Bad, ", ", nics[0].State), nics[0]
	}
	says(h1, status)
	if got, _ := state(); got != "applied, 0, applied" {
		t.Errorf("before the change: %s", got)
	}
	const driftText = "Somebody changed the network filter quantix-group-x on the host."
	says(h1, status, wire.GroupReport{ID: g.ID, Changed: driftText})
	got, nic := state()
	if got != "changed on the host, 1, changed on the host" || nic.Problem != "web: "+driftText {
		t.Errorf("changed: %s, %q", got, nic.Problem)
	}
	if o, err := s.Overview(t.Context(), s.member); err != nil || !strings.Contains(fmt.Sprint(o.Attention), driftText) {
		t.Errorf("what needs attention: %+v %v", o.Attention, err)
	}
	s.runSecurityGroupPass()
	if err := s.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if work := s.claimAndFinishJobs(h1, ""); len(work) != 0 {
		t.Errorf("a changed group is reapplied without a request: %+v", work)
	}
	// A report on the group by a host without the group is ignored.
	says(s.agentSession(s.h2), fleet.VMStatus{})
	if got, _ := state(); got != "changed on the host, 1, changed on the host" {
		t.Errorf("after another host's word: %s", got)
	}
	base = queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, s.h1)
	if err := s.RetrySecurityGroup(t.Context(), s.member, g.ID); err != nil {
		t.Fatal(err)
	}
	if work := s.claimAndFinishJobs(h1, ""); len(work) != 1 || work[0].Kind != fleet.SecurityGroupApply {
		t.Errorf("reapplied: %+v", work)
	}
	if got, _ := state(); got != "applied, 0, applied" {
		t.Errorf("after it was reapplied: %s", got)
	}
	// The host reports that the NIC's own network filter was removed outside Quantix.
	status.RecordFilterDrift(well.Spec.NICs[0].MAC, "Somebody removed the network filter quantix-nic-x from the host.")
	says(h1, status)
	if got, nic := state(); got != "applied, 0, changed on the host" || !strings.Contains(nic.Problem, "removed") {
		t.Errorf("the NIC's own filter: %s, %q", got, nic.Problem)
	}
	if v := s.getVM(a.ID); !v.Attention && len(v.Status.Drift) != 1 {
		t.Errorf("the VM: %+v", v.Status)
	}
	if ok, why := s.getVM(a.ID).Allows(fleet.ActReapply); !ok {
		t.Errorf("it cannot be reapplied: %s", why)
	}
}
