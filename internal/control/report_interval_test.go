package control_test

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"quantix/internal/control/hosts"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportSettings sends a full report with settings of agent.yaml; nil is an older agent.
func (r *hostFixture) reportSettings(digest string, settings *fleet.AgentSettings, vms ...wire.VMReport) wire.ReportAnswer {
	r.t.Helper()
	return r.sendReport(wire.Report{Seq: r.nextSeq(), Digest: digest, State: &wire.State{Host: fleet.HostStatus{Connected: true, Settings: settings}, VMs: vms}})
}

func (r *hostFixture) sendReport(in wire.Report) wire.ReportAnswer {
	r.t.Helper()
	answer, err := r.Report(r.t.Context(), r.agent, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// setReportInterval sets the interval in the host's spec.
func (r *hostFixture) setReportInterval(seconds int) {
	r.t.Helper()
	spec := fleet.DefaultHostSpec()
	spec.ReportInterval = seconds
	if _, err := r.UpdateHost(r.t.Context(), chief, r.agent.HostID, hosts.UpdateHost{Spec: spec}); err != nil {
		r.t.Fatal(err)
	}
}

// wantLiveness checks everything that depends on the freshness of the host's report. The report is age old.
func (r *hostFixture) wantLiveness(when string, id fleet.VMID, age time.Duration, host fleet.HostPhase, vm fleet.Phase) {
	r.t.Helper()
	r.execSQL(`UPDATE host_sessions SET seen_at = now() - $1::interval, last_look = now() - $1::interval`, age)
	ctx := r.t.Context()
	if h, err := r.GetHost(ctx, fleet.SystemActor, r.agent.HostID); err != nil || h.Phase != host {
		r.t.Errorf("%s: the host is %s after %s (%v), want %s", when, h.Phase, age, err, host)
	}
	if page, err := r.ListHosts(ctx, fleet.SystemActor, fleet.Query{Filter: "state:" + string(host)}); err != nil || len(page.Items) != 1 {
		r.t.Errorf("%s: the filter finds %d hosts after %s, %v", when, len(page.Items), age, err)
	}
	if v, err := r.GetVM(ctx, fleet.SystemActor, id); err != nil || v.Phase != vm {
		r.t.Errorf("%s: the VM is %s after %s (%v), want %s", when, v.Phase, age, err, vm)
	}
	if page, err := r.ListVMs(ctx, fleet.SystemActor, fleet.Query{Filter: "phase:" + string(vm)}); err != nil || len(page.Items) != 1 || page.Items[0].Phase != vm {
		r.t.Errorf("%s: the filter finds %d VMs after %s, %v", when, len(page.Items), age, err)
	}
	stale, err := r.StaleHosts(ctx, fleet.SystemActor)
	if _, found := stale[r.agent.HostID]; err != nil || found != (host != fleet.HostOnline) {
		r.t.Errorf("%s: the stale hosts are %v after %s, %v", when, stale, age, err)
	}
}

func TestHostIsOfflineAfterThreeReportIntervals(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil {
		t.Fatal(err)
	}
	web := wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}}
	for i, c := range []struct {
		name     string
		spec     int
		settings *fleet.AgentSettings
		interval int // expected
	}{
		{"default", 0, &fleet.AgentSettings{}, 10},
		{"of the portal", 60, &fleet.AgentSettings{}, 60},
		{"of agent.yaml", 0, &fleet.AgentSettings{ReportInterval: 20}, 20},
		{"of both", 60, &fleet.AgentSettings{ReportInterval: 5}, 5},
		{"of an older agent", 60, nil, 10},
		{"that is too short", 0, &fleet.AgentSettings{ReportInterval: 1}, 10},
	} {
		r.setReportInterval(c.spec)
		r.reportSettings(strconv.Itoa(i), c.settings, web)
		h, err := r.GetHost(t.Context(), fleet.SystemActor, r.agent.HostID)
		if err != nil || h.ReportInterval != c.interval || h.SeenAt.Limit() != fleet.FreshFor(c.interval) {
			t.Errorf("an interval %s: the host reports every %d s and is fresh for %s, %v", c.name, h.ReportInterval, h.SeenAt.Limit(), err)
		}
		if stored := queryValue[int](r, `SELECT report_interval FROM hosts`); stored != c.interval {
			t.Errorf("an interval %s: stored is %d, want %d", c.name, stored, c.interval)
		}
		// The ages leave time for the queries.
		limit := fleet.FreshFor(c.interval)
		r.wantLiveness("an interval "+c.name, id, limit*2/3, fleet.HostOnline, fleet.PhaseRunning)
		r.wantLiveness("an interval "+c.name, id, limit+time.Second, fleet.HostUnknown, fleet.PhaseUnknown)
	}
}

// An agent that still waits for the end of a long interval is not offline.
func TestShorterReportIntervalCountsOnceAgentKnowsIt(t *testing.T) {
	r := newHostFixture(t)
	r.setReportInterval(60)
	if answer := r.reportSettings("a", &fleet.AgentSettings{}); answer.ReportInterval != 60 {
		t.Errorf("the full report is answered with %d s", answer.ReportInterval)
	}
	freshFor := func() time.Duration { return queryValue[time.Duration](r, `SELECT fresh_for FROM host_sessions`) }
	r.setReportInterval(5)
	if got := freshFor(); got != 3*time.Minute {
		t.Errorf("before the next report the limit is %s", got)
	}
	beat := func() wire.ReportAnswer { return r.sendReport(wire.Report{Seq: r.nextSeq(), Digest: "a"}) }
	if answer := beat(); answer.ReportInterval != 5 || answer.Resend || freshFor() != 15*time.Second {
		t.Errorf("the heartbeat is answered with %d s, and the limit is %s", answer.ReportInterval, freshFor())
	}
	r.setReportInterval(0)
	if answer := beat(); answer.ReportInterval != 0 || freshFor() != fleet.Freshness {
		t.Errorf("without an interval, the heartbeat is answered with %d s, and the limit is %s", answer.ReportInterval, freshFor())
	}
}

// The end of an offline period counts from the host's own limit.
func TestOfflinePeriodBeginsAfterOwnFreshnessLimit(t *testing.T) {
	r := newHostFixture(t)
	r.setReportInterval(60)
	r.reportSettings("a", &fleet.AgentSettings{})
	for _, c := range []struct {
		age     time.Duration
		periods int
	}{{time.Minute, 0}, {4 * time.Minute, 1}} {
		r.execSQL(`UPDATE host_sessions SET seen_at = now() - $1::interval, last_look = now() - $1::interval`, c.age)
		r.sendReport(wire.Report{Seq: r.nextSeq(), Digest: "a", StateAgeMs: 1})
		if n := queryValue[int](r, `SELECT count(*) FROM host_silences`); n != c.periods {
			t.Errorf("after %s without a report there are %d offline periods, want %d", c.age, n, c.periods)
		}
	}
}

func TestReportIntervalOutsideLimitsRefused(t *testing.T) {
	s := newProjectFixture(t)
	for _, n := range []int{-1, 4, 61} {
		spec := fleet.DefaultHostSpec()
		spec.ReportInterval = n
		s.wantRefused(strconv.Itoa(n), fleet.Invalid, "Give an interval from 5 to 60 seconds", func() error {
			_, err := s.UpdateHost(t.Context(), chief, s.h1, hosts.UpdateHost{Spec: spec})
			return err
		})
	}
}

func TestInvalidSettingsOfAgentAreIgnored(t *testing.T) {
	r := newHostFixture(t)
	r.reportSettings("a", &fleet.AgentSettings{ReportInterval: 3600, Labels: map[string]string{"Bad Key": "x"}})
	h, err := r.GetHost(t.Context(), fleet.SystemActor, r.agent.HostID)
	if err != nil || h.ReportInterval != fleet.DefaultReportInterval || len(h.Labels) > 0 || h.Status.Settings == nil {
		t.Errorf("the host has %d s, labels %v and settings %v, %v", h.ReportInterval, h.Labels, h.Status.Settings, err)
	}
}

// Labels of agent.yaml count like those of the portal, and win over them.
func TestLabelsOfAgentYAMLCountLikeOthers(t *testing.T) {
	s := newProjectFixture(t)
	s.setLabels(s.h1, map[string]string{"rack": "4", "zone": "b"})
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{settings}', '{"labels": {"rack": "9", "ssd": "yes"}}') WHERE id = $1`, s.h1)
	h, err := s.GetHost(t.Context(), chief, s.h1)
	want := map[string]string{"rack": "9", "ssd": "yes", "zone": "b"}
	if err != nil || !maps.Equal(h.Labels, want) || h.Spec.Labels["rack"] != "4" {
		t.Fatalf("the host has labels %v, want %v; %v", h.Labels, want, err)
	}
	var stored map[string]string
	if err := s.pool.QueryRow(t.Context(), `SELECT labels FROM hosts WHERE id = $1`, s.h1).Scan(&stored); err != nil || !maps.Equal(stored, want) {
		t.Errorf("stored are %v, %v", stored, err)
	}
	for filter, n := range map[string]int{"label:rack=9": 1, "label:rack=4": 0, "label:ssd": 1, "label:zone=b": 1} {
		if page, err := s.ListHosts(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != n {
			t.Errorf("%s finds %d hosts, want %d; %v", filter, len(page.Items), n, err)
		}
	}
	if hits, err := s.Search(t.Context(), chief, "ssd=yes", 10); err != nil || len(hits) != 1 {
		t.Errorf("the search finds %v, %v", hits, err)
	}
	pool := s.addPool("fast", `{"kind":"dir","path":"/srv/fast","shared":false}`)
	s.assignPoolByLabel(pool, "ssd, rack=9")
	s.runAssignPass()
	s.wantAssigned("by a label of agent.yaml", pool, "h1")

	rack9 := fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "rack=9"}
	vm, err := s.createWithRules(chief, "web", "", rack9)
	if err != nil || s.getVM(vm.ID).HostID != s.h1 {
		t.Errorf("with the rule rack=9 the VM is on %s, %v", s.getVM(vm.ID).HostName, err)
	}
	s.settleRules()
	if got := s.getVM(vm.ID); len(got.Misplaced) > 0 {
		t.Errorf("the VM violates %v", got.Misplaced)
	}
	s.wantRefused("a label that agent.yaml replaced", fleet.Invalid, "rack=4", func() error {
		_, err := s.createWithRules(chief, "other", "", fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "rack=4"})
		return err
	})
}

// A new label in agent.yaml wakes the pass that assigns pools and networks by label.
func TestReportedLabelsWakeAssignmentByLabel(t *testing.T) {
	r := newHostFixture(t)
	r.drainHub()
	sub := r.hub.Subscribe("labels")
	defer sub.Close()
	r.reportSettings("a", &fleet.AgentSettings{ReportInterval: 20})
	r.drainHub()
	if got := sub.TakeKeys(); len(got) > 0 {
		t.Errorf("a report without labels wakes %v", got)
	}
	r.reportSettings("b", &fleet.AgentSettings{Labels: map[string]string{"rack": "9"}})
	r.drainHub()
	if got := sub.TakeKeys(); len(got) != 1 {
		t.Errorf("a report with a label wakes %v", got)
	}
}
