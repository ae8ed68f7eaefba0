package control_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/internal/alarm"
	"quantix/internal/channel"
	"quantix/internal/control"
	"quantix/internal/control/channels"
	"quantix/internal/control/health"
	"quantix/internal/control/healthpolicies"
	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
)

// policyFixture is a fleet whose health policies act.
type policyFixture struct {
	*hostFixture
	numbers map[fleet.HostID]int64
}

func newPolicyFixture(t *testing.T) *policyFixture {
	t.Helper()
	f := &policyFixture{newHostFixture(t), map[fleet.HostID]int64{}}
	f.pass()
	return f
}

func (f *policyFixture) pass() {
	f.t.Helper()
	if err := f.ActOnHealth(f.t.Context(), fleet.SystemActor); err != nil {
		f.t.Fatal(err)
	}
}

// occur reports an occurrence of the agent's host.
func (f *policyFixture) occur(agent fleet.Actor, check string, found healthevent.Finding) {
	f.t.Helper()
	f.numbers[agent.HostID]++
	r := healthevent.Report{Instance: "run", Number: f.numbers[agent.HostID], Occurrences: []healthevent.Occurrence{{Check: check, Finding: found, Repeats: 1}}}
	if err := f.ReportHealth(f.t.Context(), agent, r); err != nil {
		f.t.Fatal(err)
	}
}

// report reports the findings of a check.
func (f *policyFixture) report(agent fleet.Actor, check string, found ...healthevent.Finding) {
	f.t.Helper()
	r := healthevent.Report{Instance: "run", Number: f.numbers[agent.HostID], Checks: []healthevent.CheckReport{{Check: check, State: healthevent.CheckOK, Findings: found}}}
	if err := f.ReportHealth(f.t.Context(), agent, r); err != nil {
		f.t.Fatal(err)
	}
}

func xid(number int) healthevent.Finding {
	return healthevent.Finding{
		Object: "gpu/0000:41:00.0", Code: fmt.Sprintf("xid-%d", number), Severity: fleet.AlarmCritical, Text: fmt.Sprintf("XID %d: the GPU has fallen off the bus.", number), Values: map[string]float64{"xid": float64(number)},
	}
}

var smartFailing = healthevent.Finding{Object: "disk/sda", Code: "smart-failing", Severity: fleet.AlarmCritical, Text: "The disk fails."}

func (f *policyFixture) host(id fleet.HostID) fleet.HostView {
	f.t.Helper()
	h, err := f.GetHost(f.t.Context(), chief, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

func (f *policyFixture) taints(id fleet.HostID) string {
	f.t.Helper()
	var out []string
	for _, t := range f.host(id).Spec.Taints {
		out = append(out, t.Text())
	}
	return strings.Join(out, " ")
}

func (f *policyFixture) matches(id fleet.HostID) []healthpolicy.Match {
	f.t.Helper()
	m, err := f.HealthMatchesOfHost(f.t.Context(), chief, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return m.Matches
}

func (f *policyFixture) create(name, expression string, a healthpolicy.Actions, change ...func(*healthpolicies.PolicyInput)) (healthpolicy.Policy, error) {
	in := healthpolicies.PolicyInput{Name: name, Spec: healthpolicy.Spec{Expression: expression, Severity: fleet.AlarmWarning, Actions: a}}
	for _, c := range change {
		c(&in)
	}
	return f.CreateHealthPolicy(f.t.Context(), chief, in)
}

func (f *policyFixture) mustCreate(name, expression string, a healthpolicy.Actions, change ...func(*healthpolicies.PolicyInput)) healthpolicy.Policy {
	f.t.Helper()
	p, err := f.create(name, expression, a, change...)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *policyFixture) named(name string) healthpolicy.Policy {
	f.t.Helper()
	all, err := f.ListHealthPolicies(f.t.Context(), chief)
	if err != nil {
		f.t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p healthpolicy.Policy) bool { return p.Name == name })
	if i < 0 {
		f.t.Fatalf("there is no policy %s", name)
	}
	return all[i]
}

func (f *policyFixture) resolve(m healthpolicy.Match) {
	f.t.Helper()
	if err := f.ResolveCondition(f.t.Context(), chief, m.HostID, m.Key()); err != nil {
		f.t.Fatal(err)
	}
}

const gpuFailed = "gpu-failed:NoExecute"

func TestXIDTaintsHostUntilItIsResolved(t *testing.T) {
	f := newPolicyFixture(t)
	h := f.agent.HostID
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	m := f.matches(h)
	if f.taints(h) != gpuFailed || len(m) != 1 || m[0].PolicyName != "gpu-failed" || m[0].State != healthpolicy.Active || m[0].Cause() != "XID 79 on gpu/0000:41:00.0" {
		t.Fatalf("the host has the taints %q and the matches %+v", f.taints(h), m)
	}
	page, err := f.HostEvents(t.Context(), chief, h, health.EventQuery{Limit: 1})
	if err != nil || !slices.Equal(page.Items[0].Policy, []string{"gpu-failed"}) {
		t.Errorf("the event names the policies %+v, %v", page, err)
	}
	var actor, detail string
	if err := f.pool.QueryRow(t.Context(), `SELECT actor, detail FROM audit WHERE action = 'host.edit' ORDER BY at DESC LIMIT 1`).Scan(&actor, &detail); err != nil {
		t.Fatal(err)
	}
	if actor != fleet.SystemActor.Name || !strings.Contains(detail, "health policy gpu-failed: taint gpu-failed:NoExecute because of XID 79 on gpu/0000:41:00.0") {
		t.Errorf("the audit log says %s: %s", actor, detail)
	}
	f.occur(f.agent, "gpu", xid(13)) // a fault of a program
	if f.pass(); len(f.matches(h)) != 1 {
		t.Error("XID 13 matches")
	}
	f.resolve(m[0])
	if f.pass(); f.taints(h) != "" || len(f.matches(h)) != 0 {
		t.Errorf("after its end, the host has %q", f.taints(h))
	}
}

func TestAlarmNamesPolicyAndIsClearedWithCondition(t *testing.T) {
	f := newPolicyFixture(t)
	f.mustCreate("second", `event.check == "smart"`, healthpolicy.Actions{Alarm: true})
	f.report(f.agent, "smart", smartFailing)
	f.pass()
	f.evaluate()
	if f.host(f.agent.HostID).Spec.Schedulable {
		t.Error("the host is not cordoned")
	}
	all, err := f.AlarmsOf(t.Context(), chief, fleet.SubjectHost(f.agent.HostID))
	if err != nil || len(all) != 1 || all[0].Severity != fleet.AlarmCritical || all[0].Text != "The disk fails. (Health policies disk-failing, second)" || all[0].Cause != "smart-failing on disk/sda" {
		t.Fatalf("the alarms are %+v, %v", all, err)
	}
	f.report(f.agent, "smart")
	f.pass()
	f.evaluate()
	f.execSQL(`UPDATE alarms SET clear_since = clear_since - $1::interval`, alarm.ClearDelay)
	f.evaluate()
	if all, err := f.AlarmsOf(t.Context(), chief, fleet.SubjectHost(f.agent.HostID)); err != nil || len(all) != 0 {
		t.Errorf("the alarms are %+v, %v", all, err)
	}
	if !f.host(f.agent.HostID).Spec.Schedulable {
		t.Error("the host is still cordoned")
	}
}

func (f *policyFixture) evaluate() {
	f.t.Helper()
	if err := f.EvaluateAlarms(f.t.Context(), fleet.SystemActor); err != nil {
		f.t.Fatal(err)
	}
}

func TestDefaultPoliciesComeOnce(t *testing.T) {
	f := newPolicyFixture(t)
	p := f.named("nic-errors")
	if err := f.DeleteHealthPolicy(t.Context(), chief, p.ID, false); err != nil {
		t.Fatal(err)
	}
	disk := f.named("disk-failing")
	spec := disk.Spec
	spec.Disabled = true
	if _, err := f.UpdateHealthPolicy(t.Context(), chief, disk.ID, healthpolicies.PolicyInput{Name: "disks", Spec: spec}); err != nil {
		t.Fatal(err)
	}
	f.pass()
	all, err := f.ListHealthPolicies(t.Context(), chief)
	if err != nil || len(all) != len(healthpolicy.Defaults())-1 || !f.named("disks").Spec.Disabled {
		t.Errorf("%d policies, %v", len(all), err)
	}
	f.report(f.agent, "smart", smartFailing)
	if f.pass(); len(f.matches(f.agent.HostID)) != 0 {
		t.Error("a disabled policy matches")
	}
}

func TestTaintOfUserStays(t *testing.T) {
	f := newPolicyFixture(t)
	h := f.agent.HostID
	spec := f.host(h).Spec
	spec.Taints = []fleet.Taint{fleet.ParseTaint(gpuFailed)}
	if _, err := f.UpdateHost(t.Context(), chief, h, hosts.UpdateHost{Spec: spec}); err != nil {
		t.Fatal(err)
	}
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	f.resolve(f.matches(h)[0])
	if f.pass(); f.taints(h) != gpuFailed {
		t.Errorf("the host has %q", f.taints(h))
	}
}

func TestReleaseUndoesActUntilConditionEnds(t *testing.T) {
	f := newPolicyFixture(t)
	h := f.agent.HostID
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	m := f.matches(h)[0]
	if err := f.ReleaseHealthMatch(t.Context(), chief, m.ID); err != nil {
		t.Fatal(err)
	}
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	if got := f.matches(h)[0]; f.taints(h) != "" || got.State != healthpolicy.Released || got.ReleasedBy != chief.Name || got.Count != 2 {
		t.Errorf("after the release, the host has %q and %+v", f.taints(h), got)
	}
	if err := f.ReleaseHealthMatch(t.Context(), chief, m.ID); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a second release gives %v", err)
	}
	f.resolve(m)
	f.occur(f.agent, "gpu", xid(79))
	if f.pass(); f.taints(h) != gpuFailed {
		t.Error("the next condition does not taint the host")
	}
}

func TestHostsAreEvacuatedOneAfterTheOther(t *testing.T) {
	f := newPolicyFixture(t)
	second, third := f.addHost("h2"), f.addHost("h3")
	for _, agent := range []fleet.Actor{f.agent, second, third} {
		f.occur(agent, "gpu", xid(79))
	}
	tainted := func() (out []string) {
		for _, a := range []fleet.Actor{f.agent, second, third} {
			if f.taints(a.HostID) != "" {
				out = append(out, f.host(a.HostID).Name)
			}
		}
		return out
	}
	f.pass()
	if got := tainted(); !slices.Equal(got, []string{"h1"}) {
		t.Fatalf("%v are tainted", got)
	}
	if m := f.matches(second.HostID)[0]; m.State != healthpolicy.Waiting || m.Reason != "1 host is being drained for health policies; at most 1 at once." {
		t.Errorf("%+v", m)
	}
	f.resolve(f.matches(f.agent.HostID)[0])
	f.pass()
	if got := tainted(); !slices.Equal(got, []string{"h2"}) {
		t.Errorf("after the end of the first, %v are tainted", got)
	}
	if err := f.SetHealthPolicySettings(t.Context(), chief, healthpolicies.HealthPolicySettings{MaxHosts: 5}); err != nil {
		t.Fatal(err)
	}
	f.pass()
	if got := tainted(); !slices.Equal(got, []string{"h2", "h3"}) {
		t.Errorf("with a higher maximum, %v are tainted", got)
	}
}

func TestDryRunOnlyRecords(t *testing.T) {
	f := newPolicyFixture(t)
	h := f.agent.HostID
	p := f.mustCreate("dry", `event.check == "smart"`, healthpolicy.Actions{Drain: true, Alarm: true}, func(in *healthpolicies.PolicyInput) { in.Spec.DryRun = true })
	if err := f.DeleteHealthPolicy(t.Context(), chief, f.named("disk-failing").ID, false); err != nil {
		t.Fatal(err)
	}
	f.report(f.agent, "smart", smartFailing)
	f.pass()
	f.evaluate()
	all, err := f.AlarmsOf(t.Context(), chief, fleet.SubjectHost(h))
	if m := f.matches(h)[0]; err != nil || len(all) > 0 || f.taints(h) != "" || !f.host(h).Spec.Schedulable || m.Reason != "Dry run: would drain and raise an alarm." {
		t.Errorf("%+v, %v, %v", m, all, err)
	}
	spec := p.Spec
	spec.DryRun = false
	if _, err := f.UpdateHealthPolicy(t.Context(), chief, p.ID, healthpolicies.PolicyInput{Name: p.Name, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	if f.pass(); f.taints(h) != healthpolicy.DrainTaint || f.host(h).Spec.Schedulable {
		t.Errorf("without the dry run, the host has %q", f.taints(h))
	}
}

func TestStormOfEqualEventsIsOneMatch(t *testing.T) {
	f := newPolicyFixture(t)
	r := healthevent.Report{Instance: "run", Number: 0}
	for range 10 {
		r.Occurrences = nil
		for range 200 {
			r.Number++
			r.Occurrences = append(r.Occurrences, healthevent.Occurrence{Check: "gpu", Finding: xid(79), Repeats: 5})
		}
		if err := f.ReportHealth(t.Context(), f.agent, r); err != nil {
			t.Fatal(err)
		}
	}
	if m := f.matches(f.agent.HostID); len(m) != 1 || m[0].Count != 10_000 {
		t.Errorf("%+v", m)
	}
}

func TestInformationIsNotedAndEndsSoon(t *testing.T) {
	f := newPolicyFixture(t)
	f.mustCreate("boots", `event.check == "boot"`, healthpolicy.Actions{Cordon: true})
	f.occur(f.agent, "boot", healthevent.Finding{Code: "booted", Severity: fleet.AlarmInfo, Text: "The host has booted."})
	f.pass()
	if m := f.matches(f.agent.HostID); len(m) != 1 || !f.host(f.agent.HostID).Spec.Schedulable || !strings.Contains(m[0].Reason, "An information has no duration") {
		t.Fatalf("%+v", m)
	}
	f.execSQL(`UPDATE health_matches SET last_at = now() - interval '2 minutes'`)
	if f.pass(); len(f.matches(f.agent.HostID)) != 0 {
		t.Error("the match has not ended")
	}
}

func TestDeletionUndoesActsAfterConfirmation(t *testing.T) {
	f := newPolicyFixture(t)
	h := f.agent.HostID
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	p := f.named("gpu-failed")
	err := f.DeleteHealthPolicy(t.Context(), chief, p.ID, false)
	if err == nil || !strings.Contains(err.Error(), "taint gpu-failed:NoExecute on h1") {
		t.Fatalf("without a confirmation: %v", err)
	}
	spec := p.Spec
	spec.Disabled = true
	if _, err := f.UpdateHealthPolicy(t.Context(), chief, p.ID, healthpolicies.PolicyInput{Name: p.Name, Spec: spec}); err == nil || !strings.Contains(err.Error(), "on h1") {
		t.Errorf("without a confirmation, disabling gives %v", err)
	}
	if err := f.DeleteHealthPolicy(t.Context(), chief, p.ID, true); err != nil {
		t.Fatal(err)
	}
	if f.pass(); f.taints(h) != "" {
		t.Errorf("the host has %q", f.taints(h))
	}
}

func TestPolicyThatChangesManyHostsAsksForConfirmation(t *testing.T) {
	f := newPolicyFixture(t)
	second := f.addHost("h2")
	for _, a := range []fleet.Actor{f.agent, second} {
		f.report(a, "nic", healthevent.Finding{Object: "nic/eth0", Code: "nic-errors", Severity: fleet.AlarmWarning, Text: "Errors."})
	}
	drain := healthpolicy.Actions{Drain: true}
	_, err := f.create("nics", `event.check == "nic"`, drain)
	if err == nil || !strings.Contains(err.Error(), "This policy would drain 2 of 2 hosts now") {
		t.Fatalf("without a confirmation: %v", err)
	}
	f.mustCreate("nics", `event.check == "nic"`, drain, func(in *healthpolicies.PolicyInput) { in.Confirm = true })
	f.pass()
	if f.taints(f.agent.HostID)+f.taints(second.HostID) != healthpolicy.DrainTaint {
		t.Errorf("the hosts have %q and %q", f.taints(f.agent.HostID), f.taints(second.HostID))
	}
}

func TestFailingPolicyDoesNotAffectOthersAndIsShown(t *testing.T) {
	f := newPolicyFixture(t)
	f.mustCreate("broken", `1 / (event.repeats - 1) == 1`, healthpolicy.Actions{Cordon: true})
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	if p := f.named("broken"); !strings.Contains(p.LastError, "divides by zero") || p.LastErrorAt == nil {
		t.Errorf("%+v", p)
	}
	if f.taints(f.agent.HostID) != gpuFailed {
		t.Error("the other policy did not act")
	}
	if _, err := f.create("worse", `event.chek == "gpu"`, healthpolicy.Actions{}); err == nil || !strings.Contains(err.Error(), "event has no field") {
		t.Errorf("a wrong expression gives %v", err)
	}
}

func TestChangedSeverityEndsMatch(t *testing.T) {
	f := newPolicyFixture(t)
	f.mustCreate("critical-disks", `event.check == "smart" && event.severity == "critical"`, healthpolicy.Actions{Taint: "disk"})
	if err := f.DeleteHealthPolicy(t.Context(), chief, f.named("disk-failing").ID, false); err != nil {
		t.Fatal(err)
	}
	f.report(f.agent, "smart", smartFailing)
	f.pass()
	better := smartFailing
	better.Severity = fleet.AlarmWarning
	f.report(f.agent, "smart", better)
	if f.pass(); len(f.matches(f.agent.HostID)) != 0 || f.taints(f.agent.HostID) != "" {
		t.Errorf("%+v, %q", f.matches(f.agent.HostID), f.taints(f.agent.HostID))
	}
}

func TestTrialOfExpression(t *testing.T) {
	f := newPolicyFixture(t)
	f.addHost("h2")
	f.occur(f.agent, "gpu", xid(79))
	f.occur(f.agent, "gpu", xid(13))
	f.report(f.agent, "smart", smartFailing)
	got, err := f.TryHealthPolicy(t.Context(), chief, `event.values.xid > 50`)
	if err != nil || got.Events != 3 || got.Matched != 1 || got.Missing != 1 || !slices.Equal(got.NowHosts, []string{"h1"}) || got.Hosts != 2 || !strings.Contains(got.Missed, `event.values has no "xid"`) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := f.TryHealthPolicy(t.Context(), chief, `event.values.xid >`); err == nil {
		t.Error("a wrong expression is tried")
	}
}

// Two portals judge, act and change policies at the same time.
func TestTwoPortalsActOnce(t *testing.T) {
	f := newPolicyFixture(t)
	other := control.New(f.pool, control.Options{})
	agents := []fleet.Actor{f.agent}
	for i := range 4 {
		agents = append(agents, f.addHost(fmt.Sprint("other", i)))
	}
	p := f.mustCreate("any", `event.check == "gpu"`, healthpolicy.Actions{Cordon: true})
	var all sync.WaitGroup
	for i, a := range agents {
		c := []*control.Control{f.Control, other}[i%2]
		all.Go(func() {
			for n := range 10 {
				if err := c.ReportHealth(t.Context(), a, healthevent.Report{Instance: "run", Number: int64(n + 1), Occurrences: []healthevent.Occurrence{{Check: "gpu", Finding: xid(79), Repeats: 1}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, c := range []*control.Control{f.Control, other} {
		all.Go(func() {
			for range 5 {
				if err := c.ActOnHealth(t.Context(), fleet.SystemActor); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 4 {
			spec := p.Spec
			spec.Order = i + 1
			if _, err := other.UpdateHealthPolicy(t.Context(), chief, p.ID, healthpolicies.PolicyInput{Name: p.Name, Spec: spec, Confirm: true}); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	f.pass()
	tainted := 0
	for _, a := range agents {
		m := f.matches(a.HostID)
		if len(m) != 2 || m[0].Count != 10 || m[1].Count != 10 || f.host(a.HostID).Spec.Schedulable {
			t.Errorf("%+v", m)
		}
		if f.taints(a.HostID) != "" {
			tainted++
		}
	}
	if tainted != 1 {
		t.Errorf("%d hosts are tainted", tainted)
	}
}

func TestPolicyNotifiesChannelOnce(t *testing.T) {
	f := newPolicyFixture(t)
	to, err := f.CreateChannel(t.Context(), chief, channels.ChannelInput{Name: "ops", Spec: channel.Spec{Kind: channel.Email, To: []string{"ops@example.org"}}})
	if err != nil {
		t.Fatal(err)
	}
	notify := healthpolicy.Actions{Notify: to.ID}
	f.mustCreate("mail", `event.values.xid == 79`, notify)
	for range 2 {
		f.occur(f.agent, "gpu", xid(79))
		f.pass()
	}
	list, err := f.ListDeliveries(t.Context(), chief, to.ID)
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Summary, "XID 79 on gpu/0000:41:00.0") {
		t.Errorf("%+v, %v", list, err)
	}
	f.execSQL(`DELETE FROM channels`)
	f.resolve(f.matches(f.agent.HostID)[0])
	f.occur(f.agent, "gpu", xid(79))
	f.pass()
	if m := f.matches(f.agent.HostID); !slices.ContainsFunc(m, func(m healthpolicy.Match) bool {
		return m.Reason == "No message was sent, because the channel was deleted."
	}) {
		t.Errorf("%+v", m)
	}
	if _, err := f.create("other", `true`, notify); err == nil || !strings.Contains(err.Error(), "no such channel") {
		t.Errorf("a deleted channel gives %v", err)
	}
}
