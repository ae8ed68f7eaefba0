package alarm_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"quantix/internal/alarm"
	"quantix/internal/fleet"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// rig is one rule with its open alarms. Steps evaluate it as the pass does.
type rig struct {
	t    *testing.T
	wait time.Duration
	now  time.Time
	open map[alarm.Key]*alarm.Open
}

func newRig(t *testing.T, wait time.Duration) *rig {
	t.Helper()
	return &rig{t, wait, noon, map[alarm.Key]*alarm.Open{}}
}

var web = alarm.Key{Subject: "vm:web", Cause: "no space"}

// step evaluates the rule after a time. It returns what happened to the alarm of web: "", "raised", "cleared" or
// "severity".
func (r *rig) step(after time.Duration, stale bool, paused time.Duration, found ...alarm.Finding) (event string) {
	r.t.Helper()
	r.now = r.now.Add(after)
	var open []alarm.Open
	for _, o := range r.open {
		o.Stale = stale
		open = append(open, *o)
	}
	c := alarm.Evaluate(found, open, r.wait, paused, r.now)
	for _, u := range c.Update {
		*r.open[u.Key] = u.Open
		if u.Raised {
			event = "raised"
		} else if u.Escalated {
			event = "severity"
		}
	}
	for _, id := range append(c.Clear, c.Forget...) {
		for k, o := range r.open {
			if o.ID == id {
				if o.RaisedAt != nil {
					event = "cleared"
				}
				delete(r.open, k)
			}
		}
	}
	for _, f := range c.Add {
		o := &alarm.Open{ID: fleet.AlarmID(f.Subject), Key: f.Key, Severity: f.Severity, Text: f.Text, Value: f.Value, Count: f.Count, Since: r.now}
		if c.Raise[f.Key] {
			o.RaisedAt, event = &r.now, "raised"
		}
		r.open[f.Key] = o
	}
	return event
}

func (r *rig) want(event, when string, after time.Duration, stale bool, found ...alarm.Finding) {
	r.t.Helper()
	if got := r.step(after, stale, 0, found...); got != event {
		r.t.Errorf("%s: %q, want %q", when, got, event)
	}
}

func fault() alarm.Finding { return alarm.Finding{Key: web, Severity: fleet.AlarmWarning, Count: 1} }

func TestConditionMustHoldForDurationWithoutGap(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	r.want("", "at first", 0, false, fault())
	r.want("", "after 50 s", 50*time.Second, false, fault())
	r.want("", "after a gap", 5*time.Second, false)
	r.want("", "again", 5*time.Second, false, fault())
	r.want("", "again for 59 s", 59*time.Second, false, fault())
	r.want("raised", "again for 60 s", time.Second, false, fault())
}

func TestAlarmWithoutDurationIsRaisedAtOnceAndClearedAfterDelay(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	r.want("raised", "at first", 0, false, fault())
	r.want("", "without the fault", 10*time.Second, false)
	r.want("", "with the fault again", 10*time.Second, false, fault())
	r.want("", "without the fault again", 10*time.Second, false)
	r.want("", "shortly before the delay", alarm.ClearDelay-time.Second, false)
	r.want("cleared", "after the delay", time.Second, false)
}

func TestStaleReportsNeitherRaiseNorClear(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	r.want("", "at first", 0, false, fault())
	r.want("", "unknown for an hour", time.Hour, true)
	if len(r.open) != 1 {
		t.Fatal("the condition was forgotten while it was unknown")
	}
	r = newRig(t, 0)
	r.want("raised", "at first", 0, false, fault())
	r.want("", "unknown for a day", 24*time.Hour, true)
	r.want("", "known without the fault", time.Second, false)
	r.want("cleared", "after the delay", alarm.ClearDelay, false)
}

func TestPauseOfEvaluationDoesNotCountAsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t, time.Minute)
	r.want("", "at first", 0, false, fault())
	if got := r.step(time.Hour, false, time.Hour-10*time.Second, fault()); got != "" {
		t.Errorf("after a pause: %q", got)
	}
	r.want("", "40 s after the pause", 40*time.Second, false, fault())
	r.want("raised", "50 s after the pause", 10*time.Second, false, fault())
}

func TestSeverityFollowsValueAndSmallChangesAreNotWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	with := func(value float64, severity fleet.AlarmSeverity) alarm.Finding {
		f := fault()
		f.Value, f.Severity = &value, severity
		return f
	}
	r.want("raised", "at first", 0, false, with(90, fleet.AlarmWarning))
	r.want("severity", "at 97", time.Second, false, with(97, fleet.AlarmCritical))
	var open []alarm.Open
	for _, o := range r.open {
		open = append(open, *o)
	}
	if c := alarm.Evaluate([]alarm.Finding{with(98, fleet.AlarmCritical)}, open, 0, 0, r.now); len(c.Update) != 0 {
		t.Errorf("a change from 97 to 98 is written: %+v", c.Update)
	}
	if c := alarm.Evaluate([]alarm.Finding{with(120, fleet.AlarmCritical)}, open, 0, 0, r.now); len(c.Update) != 1 {
		t.Error("a change from 97 to 120 is not written")
	}
}

func TestEqualFindingsMakeOneAlarm(t *testing.T) {
	t.Parallel()
	c := alarm.Evaluate([]alarm.Finding{fault(), fault()}, nil, 0, 0, noon)
	if len(c.Add) != 1 {
		t.Errorf("%d alarms", len(c.Add))
	}
}

func TestScopeOfRule(t *testing.T) {
	t.Parallel()
	red := fleet.ProjectID("red")
	vm := alarm.Object{Subject: "vm:1", Clusters: []fleet.ClusterID{"a", "b"}, ProjectID: &red, Labels: map[string]string{"env": "prod"}}
	for _, c := range []struct {
		scope fleet.AlarmScope
		want  bool
	}{
		{fleet.AlarmScope{}, true},
		{fleet.AlarmScope{ClusterID: "b"}, true},
		{fleet.AlarmScope{ClusterID: "c"}, false},
		{fleet.AlarmScope{ProjectID: "red"}, true},
		{fleet.AlarmScope{ProjectID: "blue"}, false},
		{fleet.AlarmScope{Labels: "env=prod"}, true},
		{fleet.AlarmScope{Labels: "env=test"}, false},
		{fleet.AlarmScope{Labels: "=,=!(("}, false},
		{fleet.AlarmScope{Subject: "vm:1"}, true},
		{fleet.AlarmScope{Subject: "vm:2"}, false},
		{fleet.AlarmScope{ClusterID: "a", ProjectID: "blue"}, false},
	} {
		if got := alarm.InScope(c.scope, vm); got != c.want {
			t.Errorf("%+v: %v", c.scope, got)
		}
	}
	if alarm.InScope(fleet.AlarmScope{ProjectID: "red"}, alarm.Object{Subject: "host:1"}) {
		t.Error("an object of the fleet is in the scope of a project")
	}
}

func TestThresholdsHaveHysteresisInBothDirections(t *testing.T) {
	t.Parallel()
	above := fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.full", Threshold: new(90.0), Critical: new(97.0), Clear: new(88.0)}
	days := fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.predicted", Threshold: new(7.0), Critical: new(1.0), Clear: new(10.0)}
	for _, c := range []struct {
		rule     fleet.AlarmRuleSpec
		value    float64
		raises   bool
		keeps    bool
		severity fleet.AlarmSeverity
	}{
		{above, 87, false, false, fleet.AlarmWarning},
		{above, 89, false, true, fleet.AlarmWarning},
		{above, 90, true, true, fleet.AlarmWarning},
		{above, 97, true, true, fleet.AlarmCritical},
		{above, math.NaN(), false, false, fleet.AlarmWarning},
		{days, 11, false, false, fleet.AlarmWarning},
		{days, 9, false, true, fleet.AlarmWarning},
		{days, 7, true, true, fleet.AlarmWarning},
		{days, 1, true, true, fleet.AlarmCritical},
	} {
		if raises, keeps := alarm.Holds(c.rule, c.value, false), alarm.Holds(c.rule, c.value, true); raises != c.raises || keeps != c.keeps {
			t.Errorf("%s at %v: raises %v, keeps %v", c.rule.Condition, c.value, raises, keeps)
		}
		if got := alarm.SeverityOf(c.rule, c.value); got != c.severity {
			t.Errorf("%s at %v is %s", c.rule.Condition, c.value, got)
		}
	}
}

func TestInvalidRulesAreRefused(t *testing.T) {
	t.Parallel()
	valid := func(change func(*fleet.AlarmRuleSpec)) fleet.AlarmRuleSpec {
		s := fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.full", Threshold: new(90.0)}
		change(&s)
		return s
	}
	metric := func(of fleet.ResourceType, name string) func(*fleet.AlarmRuleSpec) {
		return func(s *fleet.AlarmRuleSpec) {
			s.Condition, s.Metric = fleet.AlarmMetricCondition, &fleet.AlarmMetric{Type: of, Name: name}
		}
	}
	for name, c := range map[string]struct {
		change func(*fleet.AlarmRuleSpec)
		field  string // empty: valid
	}{
		"valid":                  {func(*fleet.AlarmRuleSpec) {}, ""},
		"unknown severity":       {func(s *fleet.AlarmRuleSpec) { s.Severity = "fatal" }, "spec.severity"},
		"unknown condition":      {func(s *fleet.AlarmRuleSpec) { s.Condition = "moon.full" }, "spec.condition"},
		"no threshold":           {func(s *fleet.AlarmRuleSpec) { s.Threshold = nil }, "spec.threshold"},
		"not a number":           {func(s *fleet.AlarmRuleSpec) { s.Threshold = new(math.NaN()) }, "spec.threshold"},
		"infinite":               {func(s *fleet.AlarmRuleSpec) { s.Threshold = new(math.Inf(1)) }, "spec.threshold"},
		"negative":               {func(s *fleet.AlarmRuleSpec) { s.Threshold = new(-1.0) }, "spec.threshold"},
		"above the largest":      {func(s *fleet.AlarmRuleSpec) { s.Threshold = new(101.0) }, "spec.threshold"},
		"critical below":         {func(s *fleet.AlarmRuleSpec) { s.Critical = new(80.0) }, "spec.critical"},
		"clear above":            {func(s *fleet.AlarmRuleSpec) { s.Clear = new(95.0) }, "spec.clear"},
		"clear below":            {func(s *fleet.AlarmRuleSpec) { s.Clear = new(85.0) }, ""},
		"days: clear below":      {func(s *fleet.AlarmRuleSpec) { s.Condition, s.Clear = "pool.predicted", new(80.0) }, "spec.clear"},
		"days: clear above":      {func(s *fleet.AlarmRuleSpec) { s.Condition, s.Clear = "pool.predicted", new(95.0) }, ""},
		"threshold of a state":   {func(s *fleet.AlarmRuleSpec) { s.Condition = "host.lost" }, "spec.threshold"},
		"negative duration":      {func(s *fleet.AlarmRuleSpec) { s.ForSeconds = -1 }, "spec.forSeconds"},
		"duration of a year":     {func(s *fleet.AlarmRuleSpec) { s.ForSeconds = 365 * 24 * 3600 }, "spec.forSeconds"},
		"metric":                 {metric(fleet.TypeHost, "pressure.cpu"), ""},
		"unknown metric":         {metric(fleet.TypeHost, "pressure.moon"), "spec.metric"},
		"metric of a network":    {metric(fleet.TypeNetwork, "cpu.usage"), "spec.metric"},
		"metric missing":         {func(s *fleet.AlarmRuleSpec) { s.Condition = fleet.AlarmMetricCondition }, "spec.metric"},
		"needless metric":        {func(s *fleet.AlarmRuleSpec) { s.Metric = &fleet.AlarmMetric{Type: fleet.TypeVM, Name: "cpu.usage"} }, "spec.metric"},
		"project of a pool":      {func(s *fleet.AlarmRuleSpec) { s.Scope.ProjectID = "red" }, "spec.scope.projectId"},
		"labels of a pool":       {func(s *fleet.AlarmRuleSpec) { s.Scope.Labels = "a=b" }, "spec.scope.labels"},
		"object of another type": {func(s *fleet.AlarmRuleSpec) { s.Scope.Subject = "vm:1" }, "spec.scope.subject"},
		"huge object":            {func(s *fleet.AlarmRuleSpec) { s.Scope.Subject = fleet.Subject("pool:" + strings.Repeat("x", 1<<20)) }, "spec.scope.subject"},
		"huge description":       {func(s *fleet.AlarmRuleSpec) { s.Description = strings.Repeat("x", 1<<20) }, "spec.description"},
	} {
		var checks fleet.Checks
		alarm.CheckRule(&checks, "spec", valid(c.change))
		err := checks.Err()
		if c.field == "" && err != nil || c.field != "" && (err == nil || !strings.Contains(fieldsOf(err), c.field)) {
			t.Errorf("%s: %v (fields %s), want an error at %q", name, err, fieldsOf(err), c.field)
		}
	}
}

// fieldsOf returns the names of the fields of an Invalid error.
func fieldsOf(err error) string {
	var refused *fleet.Error
	if !errors.As(err, &refused) {
		return ""
	}
	names := make([]string, len(refused.Fields))
	for i, f := range refused.Fields {
		names[i] = f.Field
	}
	return strings.Join(names, " ")
}

func TestDefaultRulesAreValid(t *testing.T) {
	t.Parallel()
	for _, r := range alarm.DefaultRules() {
		var checks fleet.Checks
		fleet.CheckName(&checks, "name", r.Name)
		alarm.CheckRule(&checks, "spec", r.Spec)
		if err := checks.Err(); err != nil {
			t.Errorf("%s: %v", r.Builtin, err)
		}
	}
}
