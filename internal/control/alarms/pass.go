package alarms

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/alarm"
	"quantix/internal/control/metrics"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/remedy"
)

// EvaluationInterval is the interval of EvaluateAlarms.
const EvaluationInterval = 10 * time.Second

// alarmAge is how long cleared alarms are kept.
const alarmAge = 90 * 24 * time.Hour

const maxSweptAlarms = 5000

// EvaluateAlarms compares the rules with the state and the newest metrics of all objects, and raises and clears alarms.
// It adds the default rules first.
func (as *Alarms) EvaluateAlarms(ctx context.Context, a fleet.Actor) error {
	return as.store.RunPass(ctx, a, "alarms", func(q *db.Queries) error {
		if err := addDefaultRules(ctx, q); err != nil {
			return err
		}
		mark, err := q.MarkAlarmEvaluation(ctx)
		if err != nil {
			return err
		}
		var paused time.Duration
		if gap := time.Duration(mark.Seconds * float64(time.Second)); gap > 3*EvaluationInterval {
			paused = gap - EvaluationInterval
		}
		rules, err := q.AllAlarmRules(ctx)
		if err != nil {
			return err
		}
		open, err := openAlarms(ctx, q)
		if err != nil {
			return err
		}
		found := findings{alarms: as, q: q, actor: a}
		for _, r := range rules {
			rule := store.AlarmRuleFromRow(r)
			var holding []alarm.Finding
			if !rule.Spec.Disabled {
				if holding, err = found.of(ctx, rule, rules, open[rule.ID]); err != nil {
					return fmt.Errorf("evaluate the rule %s: %w", rule.Name, err)
				}
			}
			changes := alarm.Evaluate(holding, staleness(rule, open[rule.ID]), time.Duration(rule.Spec.ForSeconds)*time.Second, paused, mark.At)
			if err := write(ctx, q, rule.ID, changes); err != nil {
				return err
			}
		}
		_, err = q.SweepAlarms(ctx, db.SweepAlarmsParams{Age: alarmAge, Most: maxSweptAlarms})
		return err
	})
}

func openAlarms(ctx context.Context, q *db.Queries) (map[fleet.AlarmRuleID][]alarm.Open, error) {
	rows, err := q.OpenAlarms(ctx)
	out := map[fleet.AlarmRuleID][]alarm.Open{}
	for _, r := range rows {
		out[r.RuleID] = append(out[r.RuleID], alarm.Open{
			ID: r.ID, Key: alarm.Key{Subject: r.Subject, HostID: r.HostID, Cause: r.Cause}, Severity: r.Severity, Text: r.Text, Remedy: r.Remedy, Value: r.Value,
			Count: r.Count, Since: r.Since, RaisedAt: r.RaisedAt, ClearSince: r.ClearSince, Stale: r.Stale,
		})
	}
	return out, err
}

// staleness leaves Stale only where the condition needs a fresh report of the host. A metric that has not yet raised an
// alarm starts again after a gap.
func staleness(rule fleet.AlarmRule, open []alarm.Open) []alarm.Open {
	k, _ := fleet.AlarmConditionOf(rule.Spec.Condition)
	for i, o := range open {
		open[i].Stale = o.Stale && k.Reported && !rule.Spec.Disabled && (o.RaisedAt != nil || k.Key != fleet.AlarmMetricCondition)
	}
	return open
}

// findings reads the objects of each condition once per evaluation.
type findings struct {
	alarms *Alarms
	q      *db.Queries
	actor  fleet.Actor

	byCondition map[string][]query.AlarmFinding
	values      map[metrics.MetricKey][]metrics.NewestValue
	objects     map[fleet.Subject][]db.AlarmSampleObjectsRow
}

// of returns the objects that meet the rule's condition.
func (f *findings) of(ctx context.Context, rule fleet.AlarmRule, rules []db.AlarmRule, open []alarm.Open) ([]alarm.Finding, error) {
	raised := map[alarm.Key]bool{}
	for _, o := range open {
		raised[o.Key] = o.RaisedAt != nil
	}
	all, err := f.read(ctx, rule, rules)
	if err != nil {
		return nil, err
	}
	condition, _ := fleet.AlarmConditionOf(rule.Spec.Condition)
	var out []alarm.Finding
	for _, x := range all {
		if !alarm.InScope(rule.Spec.Scope, x.Scope) {
			continue
		}
		if !condition.Rated {
			x.Severity = rule.Spec.Severity
		}
		if rule.Spec.Threshold != nil {
			if x.Value == nil || !alarm.Holds(rule.Spec, *x.Value, raised[x.Key]) {
				continue
			}
			x.Severity = alarm.SeverityOf(rule.Spec, *x.Value)
		}
		out = append(out, x.Finding)
	}
	return out, nil
}

// read returns the objects of the rule's condition, with their values if it has a threshold.
func (f *findings) read(ctx context.Context, rule fleet.AlarmRule, rules []db.AlarmRule) ([]query.AlarmFinding, error) {
	key := rule.Spec.Condition
	if key == fleet.AlarmMetricCondition {
		return f.ofMetric(ctx, rule, rules)
	}
	if all, known := f.byCondition[key]; known {
		return all, nil
	}
	if f.byCondition == nil {
		f.byCondition = map[string][]query.AlarmFinding{}
	}
	var some map[string][]query.AlarmFinding
	var err error
	switch q := f.alarms.queries; key {
	case "host.lost", "host.degraded", "host.conflict":
		some, err = q.HostAlarmFindings(ctx, f.actor)
	case "pool.unhealthy", "pool.full":
		some, err = q.PoolAlarmFindings(ctx, f.actor)
	case "vm.io", "vm.disk", "vm.expiry", "vm.fault":
		some, err = q.VMAlarmFindings(ctx, f.actor)
	case "network.unhealthy":
		f.byCondition[key], err = q.NetworkAlarmFindings(ctx, f.actor)
	case "host.health":
		f.byCondition[key], err = f.healthMatches(ctx)
	case "host.certificate", "host.rejoin":
		some, err = f.certificates(ctx)
	case "pool.predicted":
		f.byCondition[key], err = f.predictedPools(ctx)
	case "project.soft":
		f.byCondition[key], err = f.projectsAboveSoftLimits(ctx)
	case "drift":
		f.byCondition[key], err = f.drifted(ctx)
	case "task.failed":
		f.byCondition[key], err = f.failedTasks(ctx)
	}
	maps.Copy(f.byCondition, some)
	if _, known := f.byCondition[key]; !known {
		f.byCondition[key] = nil
	}
	return f.byCondition[key], err
}

func projectOrNil(id string) *fleet.ProjectID {
	if id == "" {
		return nil
	}
	p := fleet.ProjectID(id)
	return &p
}

func (f *findings) drifted(ctx context.Context) (out []query.AlarmFinding, err error) {
	rows, err := f.q.DriftedAlarmObjects(ctx)
	for _, r := range rows {
		subject := fleet.Subject(r.Subject)
		const text = "The definition on the host differs from what was set here (drift)."
		x := query.AlarmFinding{
			Finding: alarm.Finding{
				Key: alarm.Key{Subject: subject, HostID: fleet.HostID(r.Host), Cause: text}, SubjectName: r.Name, ProjectID: projectOrNil(r.Project), Text: text, Remedy: remedy.Drift, Count: 1,
			},
			Scope: alarm.Object{Subject: subject, Clusters: []fleet.ClusterID{fleet.ClusterID(r.Cluster)}, ProjectID: projectOrNil(r.Project), Labels: r.Labels},
		}
		out = append(out, x)
	}
	return out, err
}

func (f *findings) failedTasks(ctx context.Context) (out []query.AlarmFinding, err error) {
	rows, err := f.q.FailedTaskGroups(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	texts, err := f.faultTexts(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.Error != "" && strings.Contains(texts[r.Subject], r.Error) {
			continue // the object has an alarm with the same error
		}
		title := fleet.Task{Kind: r.Kind}.Title()
		text := title + " failed: " + r.Error
		if r.State == string(fleet.JobUnknown) {
			text = title + " may or may not have happened: " + r.Error
		}
		failures := float64(r.Failures)
		out = append(out, query.AlarmFinding{
			Finding: alarm.Finding{
				Key:         alarm.Key{Subject: r.Subject, Cause: fleet.RedactNames(text, r.Name, r.Host)},
				SubjectName: r.Name, ProjectID: projectOrNil(r.Project), Text: text, Plain: fleet.RedactNames(store.RedactText(text, r.Host), r.Name), Remedy: remedy.ForError("", "", r.Error), Value: &failures, Count: r.Failures,
			},
			Scope: alarm.Object{Subject: r.Subject, ProjectID: projectOrNil(r.Project)},
		})
	}
	return out, err
}

// faultTexts returns the texts of the faults of each object, which explain its failed tasks.
func (f *findings) faultTexts(ctx context.Context) (map[fleet.Subject]string, error) {
	out := map[fleet.Subject]string{}
	for _, key := range []string{"pool.unhealthy", "network.unhealthy", "vm.io", "vm.disk", "vm.expiry", "vm.fault"} {
		all, err := f.read(ctx, fleet.AlarmRule{Spec: fleet.AlarmRuleSpec{Condition: key}}, nil)
		if err != nil {
			return nil, err
		}
		for _, x := range all {
			out[x.Subject] += x.Text + "\n"
		}
	}
	return out, nil
}

// ofMetric returns the objects whose newest value of the rule's metric could hold.
func (f *findings) ofMetric(ctx context.Context, rule fleet.AlarmRule, rules []db.AlarmRule) ([]query.AlarmFinding, error) {
	info, ok := rule.Spec.MetricInfo()
	if !ok {
		return nil, nil
	}
	if f.values == nil {
		if err := f.readValues(ctx, rules); err != nil {
			return nil, err
		}
	}
	of := rule.Spec.Metric.Type
	var out []query.AlarmFinding
	for _, v := range f.values[metrics.MetricKey{Type: of, Number: info.Number}] {
		if !alarm.Holds(rule.Spec, v.Value, true) {
			continue
		}
		subject := fleet.SubjectOf(of, v.ID)
		var x query.AlarmFinding
		for _, o := range f.objects[subject] {
			x.Scope.Clusters = append(x.Scope.Clusters, fleet.ClusterID(o.Cluster))
			if x.SubjectName = o.Name; o.Host != string(v.Host) {
				continue
			}
			x.ProjectID, x.Scope.ProjectID, x.Scope.Labels = projectOrNil(o.Project), projectOrNil(o.Project), o.Labels
			if of == fleet.TypePool && !o.Shared {
				x.HostID = v.Host
			}
		}
		if x.SubjectName == "" {
			continue
		}
		value := v.Value
		x.Scope.Subject, x.Subject, x.Value, x.Count = subject, subject, &value, 1
		x.Cause = fmt.Sprintf("%s (%s) is at least %s.", info.Title, info.Chart, alarm.FormatValue(*rule.Spec.Threshold, alarm.UnitOf(rule.Spec)))
		if rule.Spec.Metric.Below {
			x.Cause = fmt.Sprintf("%s (%s) is at most %s.", info.Title, info.Chart, alarm.FormatValue(*rule.Spec.Threshold, alarm.UnitOf(rule.Spec)))
		}
		x.Text = x.Cause
		out = append(out, x)
	}
	return out, nil
}

// readValues reads the newest values of the metrics of all rules, and the objects whose values could hold.
func (f *findings) readValues(ctx context.Context, rules []db.AlarmRule) error {
	specs := map[metrics.MetricKey][]fleet.AlarmRuleSpec{}
	var wanted []metrics.MetricKey
	for _, r := range rules {
		if info, ok := r.Spec.MetricInfo(); ok && !r.Spec.Disabled {
			k := metrics.MetricKey{Type: r.Spec.Metric.Type, Number: info.Number}
			wanted, specs[k] = append(wanted, k), append(specs[k], r.Spec)
		}
	}
	var err error
	if f.values, err = f.alarms.newest.Values(ctx, f.q, wanted); err != nil {
		return err
	}
	var ids db.AlarmSampleObjectsParams
	into := map[fleet.ResourceType]*[]string{fleet.TypeVM: &ids.Vms, fleet.TypeHost: &ids.Hosts, fleet.TypePool: &ids.Pools}
	for k, values := range f.values {
		for _, v := range values {
			for _, s := range specs[k] {
				if alarm.Holds(s, v.Value, true) {
					*into[k.Type] = append(*into[k.Type], v.ID)
					break
				}
			}
		}
	}
	if len(ids.Vms)+len(ids.Hosts)+len(ids.Pools) == 0 {
		return nil
	}
	rows, err := f.q.AlarmSampleObjects(ctx, ids)
	f.objects = make(map[fleet.Subject][]db.AlarmSampleObjectsRow, len(rows))
	for _, r := range rows {
		f.objects[fleet.Subject(r.Subject)] = append(f.objects[fleet.Subject(r.Subject)], r)
	}
	return err
}

// write stores the changes of a rule. An empty statement is left out, because each one wakes pages.
func write(ctx context.Context, q *db.Queries, rule fleet.AlarmRuleID, c alarm.Changes) error {
	if len(c.Add) > 0 {
		if err := hidePoolNames(ctx, q, c.Add); err != nil {
			return err
		}
		p := db.AddAlarmsParams{RuleID: rule}
		for _, f := range c.Add {
			p.Ids, p.Subjects, p.Names = append(p.Ids, string(fleet.NewID[fleet.AlarmID]())), append(p.Subjects, string(f.Subject)), append(p.Names, f.SubjectName)
			project := ""
			if f.ProjectID != nil {
				project = string(*f.ProjectID)
			}
			p.Projects, p.Hosts, p.Causes = append(p.Projects, project), append(p.Hosts, string(f.HostID)), append(p.Causes, f.Cause)
			p.Severities, p.Texts, p.Plain, p.Remedies = append(p.Severities, string(f.Severity)), append(p.Texts, f.Text), append(p.Plain, cmp.Or(f.Plain, f.Cause)), append(p.Remedies, f.Remedy)
			p.Values, p.Counts, p.Raised = append(p.Values, valueOrNaN(f.Value)), append(p.Counts, f.Count), append(p.Raised, c.Raise[f.Key])
		}
		if err := q.AddAlarms(ctx, p); err != nil {
			return err
		}
	}
	if len(c.Update) > 0 {
		var p db.UpdateAlarmsParams
		for _, u := range c.Update {
			p.Ids, p.Severities, p.Texts, p.Remedies = append(p.Ids, string(u.ID)), append(p.Severities, string(u.Severity)), append(p.Texts, u.Text), append(p.Remedies, u.Remedy)
			p.Values, p.Counts, p.Since = append(p.Values, valueOrNaN(u.Value)), append(p.Counts, u.Count), append(p.Since, u.Since)
			p.RaisedAt, p.ClearSince, p.Kinds = append(p.RaisedAt, timeOrZero(u.RaisedAt)), append(p.ClearSince, timeOrZero(u.ClearSince)), append(p.Kinds, eventOf(u))
		}
		if err := q.UpdateAlarms(ctx, p); err != nil {
			return err
		}
	}
	if len(c.Clear) > 0 {
		if err := q.ClearAlarms(ctx, store.ToStrings(c.Clear)); err != nil {
			return err
		}
	}
	if len(c.Forget) > 0 {
		return q.ForgetAlarms(ctx, store.ToStrings(c.Forget))
	}
	return nil
}

// hidePoolNames replaces, in the texts for users who do not see hosts, the names of pools that are not published to the
// project of the alarm's object.
func hidePoolNames(ctx context.Context, q *db.Queries, added []alarm.Finding) error {
	byProject := map[fleet.ProjectID][]int{}
	for i, f := range added {
		if f.ProjectID != nil {
			byProject[*f.ProjectID] = append(byProject[*f.ProjectID], i)
		}
	}
	for project, places := range byProject {
		params := db.UnpublishedPoolNamesInParams{Projects: []string{string(project)}}
		for _, i := range places {
			added[i].Plain = cmp.Or(added[i].Plain, added[i].Cause)
			params.Texts = append(params.Texts, added[i].Plain)
		}
		names, err := q.UnpublishedPoolNamesIn(ctx, params)
		if err != nil {
			return err
		}
		for _, i := range places {
			added[i].Plain = fleet.RedactNames(added[i].Plain, names...)
		}
	}
	return nil
}

func eventOf(u alarm.Update) string {
	switch {
	case u.Raised:
		return string(fleet.AlarmRaised)
	case u.Escalated:
		return string(fleet.AlarmEscalated)
	}
	return ""
}

func valueOrNaN(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func timeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
