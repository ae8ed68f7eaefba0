package control_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/alarm"
	"quantix/internal/control/alarms"
	"quantix/internal/control/metrics"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/notify"
	"quantix/internal/wire"
)

// evaluateAlarms evaluates the rules as if the given time had passed since the last evaluation, with rules evaluated in
// between.
func (s *projectFixture) evaluateAlarms(passed time.Duration) {
	s.t.Helper()
	s.execSQL(`UPDATE alarms SET since = since - $1::interval, clear_since = clear_since - $1::interval WHERE cleared_at IS NULL`, passed)
	s.evaluateAlarmsNow()
}

func (s *projectFixture) evaluateAlarmsNow() {
	s.t.Helper()
	if err := s.EvaluateAlarms(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// openAlarms returns "severity rule [objects]: cause" for each group that the actor sees.
func (s *projectFixture) openAlarms(a fleet.Actor) (out []string) {
	s.t.Helper()
	groups, _, err := s.AlarmGroups(s.t.Context(), a)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, g := range groups {
		var names []string
		for _, v := range g.Alarms {
			names = append(names, strings.TrimSpace(v.SubjectName+" "+v.HostName))
		}
		out = append(out, fmt.Sprintf("%s %s %v: %s", g.Severity, g.RuleName, names, g.Cause))
	}
	return out
}

func (s *projectFixture) wantAlarms(when string, a fleet.Actor, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.openAlarms(a)); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// sampleHost makes the value the only sample of the first host.
func (s *projectFixture) sampleHost(name string, value float64) {
	s.t.Helper()
	s.execSQL(`DELETE FROM metric_samples`)
	metrics.NewWriter(store.New(s.pool, notify.NewHub()), slog.Default()).Write(s.t.Context(), []metrics.HostSamples{{Host: s.h1, Samples: metric.Samples{
		Seconds: 10, Host: metric.Table{Values: map[string][]fleet.MetricValue{name: {fleet.MetricValue(value)}}},
	}}})
}

func TestAlarmIsRaisedAfterItsDurationAndCleared(t *testing.T) {
	s := newProjectFixture(t)
	s.evaluateAlarms(0)
	s.wantAlarms("at the start", chief)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds', last_look = now() - interval '31 seconds'`)
	s.evaluateAlarms(0)
	s.evaluateAlarms(59 * time.Second)
	s.wantAlarms("after 59 s", chief)
	s.evaluateAlarms(2 * time.Second)
	lost := "critical host-lost [h1 h2]: Its agent is offline. Its last report may be outdated."
	s.wantAlarms("after 61 s", chief, lost)

	groups, _, err := s.AlarmGroups(t.Context(), chief)
	if err != nil {
		t.Fatal(err)
	}
	g := groups[0]
	if n, err := s.AcknowledgeAlarms(t.Context(), chief, alarms.AlarmSelection{RuleID: g.RuleID, Cause: g.Cause}, "The switch of rack 4 is being replaced."); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := s.SilenceAlarms(t.Context(), chief, alarms.AlarmSelection{ID: g.Alarms[0].ID}, time.Now().Add(time.Hour)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	counts, err := s.AlarmCounts(t.Context(), chief)
	if err != nil || counts[fleet.AlarmCritical] != 1 {
		t.Errorf("%v %v, want 1 critical alarm that is not silenced", counts, err)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
	s.evaluateAlarms(0)
	s.wantAlarms("before the delay", chief, lost)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("with online hosts", chief)
	v, err := s.GetAlarm(t.Context(), chief, g.Alarms[0].ID)
	if err != nil || v.ClearedAt == nil || v.Note == "" {
		t.Errorf("%+v, %v", v, err)
	}
	var kinds []fleet.AlarmEventKind
	for _, e := range v.Events {
		kinds = append(kinds, e.Kind)
	}
	if want := []fleet.AlarmEventKind{fleet.AlarmCleared, fleet.AlarmSilenced, fleet.AlarmAcknowledged, fleet.AlarmRaised}; !slices.Equal(kinds, want) {
		t.Errorf("history %v, want %v", kinds, want)
	}
}

// A portal that was down for ten minutes finds hosts whose last reports are old. They get the rule's duration to report
// again.
func TestPausedEvaluationRaisesNoAlarm(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds', last_look = now() - interval '31 seconds'`)
	s.evaluateAlarms(0)
	s.execSQL(`UPDATE alarms SET since = since - interval '10 minutes'`)
	s.execSQL(`UPDATE alarm_evaluation SET at = at - interval '10 minutes'`)
	s.evaluateAlarmsNow()
	s.wantAlarms("after the pause", chief)
	s.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
	s.evaluateAlarms(time.Minute)
	s.wantAlarms("with online hosts", chief)
}

func TestAlarmsOfHostInMaintenanceAreNotRaised(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE hosts SET maintenance = '{"enteredAt": "2026-01-01T00:00:00Z"}'`)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds', last_look = now() - interval '31 seconds'`)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	s.wantAlarms("in maintenance", chief)
}

func TestPoolAlarmHasOneGroupForAllHostsAndEscalates(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE assignments SET status = jsonb_build_object('state', 'failed', 'error', 'the server timed out') WHERE pool_id = $1`, s.nfs)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("with a failed NFS server", chief, "critical pool-unhealthy [nfs h1 nfs h2]: Failed: the server timed out")
	s.wantAlarms("for a tenant", s.member)

	s.execSQL(`UPDATE assignments SET status = '{"state":"active","capacityBytes":1000,"usedBytes":910,"availableBytes":90}' WHERE pool_id = $1`, s.nfs)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	full := " pool-full [nfs]: Much of the space is used."
	if got := s.openAlarms(chief); len(got) != 1 || !strings.HasSuffix(got[0], full) || !strings.HasPrefix(got[0], "warning") {
		t.Errorf("with a used pool: %q", got)
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"active","capacityBytes":1000,"usedBytes":980,"availableBytes":20}' WHERE pool_id = $1`, s.nfs)
	s.evaluateAlarms(0)
	s.wantAlarms("with a full pool", chief, "critical"+full)
	// Between the value that clears and the threshold the alarm stays.
	s.execSQL(`UPDATE assignments SET status = '{"state":"active","capacityBytes":1000,"usedBytes":890,"availableBytes":110}' WHERE pool_id = $1`, s.nfs)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	s.wantAlarms("at 89 %", chief, "warning"+full)
	s.execSQL(`UPDATE assignments SET status = '{"state":"active","capacityBytes":1000,"usedBytes":870,"availableBytes":130}' WHERE pool_id = $1`, s.nfs)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("at 87 %", chief)
}

func TestVMAlarmStaysWhileHostIsOfflineAndTenantSeesNoHost(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	s.execSQL(`DELETE FROM jobs`)
	s.execSQL(`DELETE FROM tasks`)
	s.execSQL(`UPDATE vms SET status = status || '{"faults": [{"code": "disk", "text": "/var/lib/libvirt/secret/web.qcow2 is missing on h1", "disk": null}]}' WHERE id = $1`, v.ID)
	s.evaluateAlarms(0)
	raised := "critical vm-disk-missing [web]: "
	if got := s.openAlarms(chief); len(got) != 1 || !strings.HasPrefix(got[0], raised) || !strings.Contains(got[0], "secret") {
		t.Fatalf("%q", got)
	}
	for _, got := range s.openAlarms(s.member) {
		if !strings.HasPrefix(got, raised) || strings.Contains(got, "secret") || strings.Contains(got, "h1") {
			t.Errorf("a tenant reads %q", got)
		}
	}
	if len(s.openAlarms(s.member)) != 1 {
		t.Error("a tenant does not see the alarm of the own VM")
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds', last_look = now() - interval '31 seconds'`)
	s.execSQL(`UPDATE hosts SET maintenance = '{"enteredAt": "2026-01-01T00:00:00Z"}'`)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	if got := s.openAlarms(chief); len(got) != 1 {
		t.Errorf("with an offline host the alarms are %q", got)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
	s.execSQL(`UPDATE vms SET status = status - 'faults' WHERE id = $1`, v.ID)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("with the disk", chief)
}

func TestRepeatedFailureIsOneAlarmWithCount(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	s.execSQL(`DELETE FROM jobs`)
	s.execSQL(`DELETE FROM tasks`)
	fail := func() {
		s.execSQL(`INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, state, error, created_by, created_at, ended_at)
			VALUES ($1, $2, $3, 'vm.start', 'vm:' || $4, 'web', 'failed', 'no firmware', 'ann', now(), now())`, fleet.NewID[fleet.TaskID](), s.h1, s.red, v.ID)
		s.evaluateAlarms(5 * time.Minute)
	}
	for range 4 {
		fail()
	}
	s.wantAlarms("after four failures", chief, "warning task-failed [web]: Start failed: no firmware")
	groups, _, err := s.AlarmGroups(t.Context(), s.member)
	if err != nil || len(groups) != 1 || groups[0].Alarms[0].Count != 4 {
		t.Fatalf("%+v, %v", groups, err)
	}
	s.execSQL(`INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, state, created_by, created_at, ended_at)
		VALUES ($1, $2, $3, 'vm.start', 'vm:' || $4, 'web', 'done', 'ann', now(), now() + interval '1 second')`, fleet.NewID[fleet.TaskID](), s.h1, s.red, v.ID)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("after a success", chief)
}

func TestChangedDefaultRuleStaysAndDeletedOneDoesNotReturn(t *testing.T) {
	s := newProjectFixture(t)
	s.evaluateAlarmsNow()
	page, err := s.ListAlarmRules(t.Context(), chief, fleet.Query{})
	if err != nil || len(page.Items) != len(alarm.DefaultRules()) {
		t.Fatalf("%d default rules, %v", len(page.Items), err)
	}
	first, second := page.Items[0], page.Items[1]
	if err := s.DeleteAlarmRule(t.Context(), chief, first.ID); err != nil {
		t.Fatal(err)
	}
	second.Spec.Disabled = true
	if _, err := s.UpdateAlarmRule(t.Context(), chief, second.ID, alarms.AlarmRuleInput{Name: "mine", Spec: second.Spec}); err != nil {
		t.Fatal(err)
	}
	s.evaluateAlarmsNow()
	again, err := s.ListAlarmRules(t.Context(), chief, fleet.Query{})
	if err != nil || len(again.Items) != len(page.Items)-1 {
		t.Fatalf("%d rules, %v", len(again.Items), err)
	}
	if v, err := s.GetAlarmRule(t.Context(), chief, second.ID); err != nil || !v.Spec.Disabled || v.Name != "mine" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestMetricRuleComparesNewestValues(t *testing.T) {
	s := newProjectFixture(t)
	threshold, clear := 80.0, 60.0
	rule, err := s.CreateAlarmRule(t.Context(), chief, alarms.AlarmRuleInput{Name: "busy", Spec: fleet.AlarmRuleSpec{
		Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeHost, Name: "pressure.cpu"},
		Threshold: &threshold, Clear: &clear, ForSeconds: 60,
	}})
	if err != nil {
		t.Fatal(err)
	}
	sample := func(percent float64) { t.Helper(); s.sampleHost("pressure.cpu", percent) }
	sample(90)
	s.evaluateAlarms(0)
	s.evaluateAlarms(61 * time.Second)
	busy := "warning busy [h1]: CPU (Pressure) is at least 80 %."
	s.wantAlarms("at 90 %", chief, busy)
	sample(70)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	s.wantAlarms("at 70 %", chief, busy)
	sample(50)
	s.evaluateAlarms(0)
	s.evaluateAlarms(31 * time.Second)
	s.wantAlarms("at 50 %", chief)
	if _, err := s.CreateAlarmRule(t.Context(), chief, alarms.AlarmRuleInput{Name: "busy", Spec: rule.Spec}); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a second rule with the name: %v", err)
	}
}

func TestPredictedFullPoolRaisesAlarmUntilPredictionIsFurtherAway(t *testing.T) {
	s := newProjectFixture(t)
	predict := func(days int) {
		s.execSQL(`INSERT INTO pool_predictions (pool_id, host_id, full_at) SELECT $1, $2, now() + make_interval(days => $3) ON CONFLICT (pool_id, host_id) DO UPDATE SET full_at = EXCLUDED.full_at`, s.nfs, s.h1, days)
		s.evaluateAlarms(31 * time.Second)
		s.evaluateAlarms(31 * time.Second)
	}
	predict(8)
	s.wantAlarms("8 days before", chief)
	predict(5)
	soon := "warning pool-predicted-full [nfs]: The pool will soon be full."
	s.wantAlarms("5 days before", chief, soon)
	predict(9)
	s.wantAlarms("9 days before", chief, soon)
	predict(20)
	s.wantAlarms("20 days before", chief)
}

func TestCertificateThatIsNotRenewedRaisesAlarm(t *testing.T) {
	s := newProjectFixture(t)
	agent := fleet.Actor{HostID: s.h1, Name: "host h1", CertificateEnd: time.Now().Add(3 * time.Hour)}
	hello := func() {
		t.Helper()
		if _, err := s.Hello(t.Context(), agent, wire.Hello{Instance: "i", Fingerprint: "f"}); err != nil {
			t.Fatal(err)
		}
		s.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
		s.evaluateAlarms(0)
		s.evaluateAlarms(301 * time.Second)
	}
	hello()
	s.wantAlarms("3 hours before the end", chief, "warning agent-certificate-near-its-end [h1]: The agent's certificate ends soon and was not renewed.")
	agent.CertificateEnd = time.Now().Add(9 * time.Hour)
	hello()
	s.wantAlarms("9 hours before the end", chief)

	s.execSQL(`UPDATE hosts SET maintenance = '{"enteredAt": "2026-01-01T00:00:00Z"}'`)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '20 days', last_look = now() - interval '20 days', certificate_end = now() - interval '19 days' WHERE host_id = $1`, s.h1)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	s.wantAlarms("after 20 days in maintenance", chief)
	s.execSQL(`UPDATE host_sessions SET certificate_end = now() - interval '28 days' WHERE host_id = $1`, s.h1)
	s.evaluateAlarms(0)
	s.evaluateAlarms(time.Hour)
	s.wantAlarms("two days before it must join again", chief,
		"warning offline-host-must-soon-join-again [h1]: The host is offline and must soon join again, because its certificate can no longer be renewed then.")
}

func TestHostWithWrongClockRaisesAlarm(t *testing.T) {
	s := newProjectFixture(t)
	for _, c := range []struct {
		offset float64
		want   []string
	}{{3, nil}, {6, []string{"warning host-clock-wrong [h1]: Difference to the portal's clock (Clock) is at least 5 s."}}, {1, nil}} {
		s.sampleHost("clock.offset", c.offset)
		s.evaluateAlarms(0)
		s.evaluateAlarms(301 * time.Second)
		s.wantAlarms(fmt.Sprintf("%v s", c.offset), chief, c.want...)
	}
}
