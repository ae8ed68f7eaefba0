// Package alarms has the use cases of alarm rules and alarms, and the pass that evaluates the rules.
package alarms

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/alarm"
	"quantix/internal/control/metrics"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Alarms has the use cases of alarm rules and alarms.
type Alarms struct {
	store   *store.Store
	queries *query.Queries
	newest  *metrics.Newest

	softLimits softLimits
}

// New returns Alarms that use the store and read by queries.
func New(s *store.Store, q *query.Queries, newest *metrics.Newest) *Alarms {
	return &Alarms{store: s, queries: q, newest: newest}
}

// maxAlarmRules is the maximum number of alarm rules.
const maxAlarmRules = 200

// AlarmRuleInput is the input for a new or changed alarm rule.
type AlarmRuleInput struct {
	Name         string
	Spec         fleet.AlarmRuleSpec
	IfGeneration int64 // of a change: the expected generation; 0: not checked
}

func (in AlarmRuleInput) check() error {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	alarm.CheckRule(&checks, "spec", in.Spec)
	return checks.Err()
}

// CreateAlarmRule creates an alarm rule.
func (as *Alarms) CreateAlarmRule(ctx context.Context, a fleet.Actor, in AlarmRuleInput) (fleet.AlarmRuleView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.AlarmRuleView{}, err
	}
	if err := in.check(); err != nil {
		return fleet.AlarmRuleView{}, err
	}
	id := fleet.NewID[fleet.AlarmRuleID]()
	err := as.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockAlarmRuleList(ctx); err != nil {
			return err
		}
		n, err := q.CountAlarmRules(ctx)
		if err != nil {
			return err
		}
		if n >= maxAlarmRules {
			return fleet.Errorf(fleet.Conflict, "There are %d alarm rules, which is the maximum. Delete some first.", n)
		}
		if err := q.AddAlarmRule(ctx, db.AddAlarmRuleParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return ruleNameTakenError(err, in.Name)
		}
		return auditRule(ctx, q, a, "alarm-rule.create", id, in.Name, ruleChanges(fleet.AlarmRule{}, fleet.AlarmRule{Name: in.Name, Spec: in.Spec}))
	})
	if err != nil {
		return fleet.AlarmRuleView{}, err
	}
	return as.queries.GetAlarmRule(ctx, a, id)
}

func ruleNameTakenError(err error, name string) error {
	return store.NameTakenError(err, "alarm_rule_name_taken", "An alarm rule named %q exists already. Choose another name.", name)
}

func auditRule(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id fleet.AlarmRuleID, name string, changes []string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeAlarmRule, id), name, strings.Join(changes, ", "))
}

// changeRule calls do with the locked rule.
func (as *Alarms) changeRule(ctx context.Context, a fleet.Actor, id fleet.AlarmRuleID, do func(q *db.Queries, r fleet.AlarmRule) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(string(id), "alarm rule"); err != nil {
		return err
	}
	return as.store.Tx(ctx, func(q *db.Queries) error {
		r, err := q.LockAlarmRule(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "alarm rule")
		}
		return do(q, store.AlarmRuleFromRow(r))
	})
}

// UpdateAlarmRule replaces an alarm rule's name and spec. Open alarms follow at the next evaluation.
func (as *Alarms) UpdateAlarmRule(ctx context.Context, a fleet.Actor, id fleet.AlarmRuleID, in AlarmRuleInput) (fleet.AlarmRuleView, error) {
	err := as.changeRule(ctx, a, id, func(q *db.Queries, old fleet.AlarmRule) error {
		if err := in.check(); err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return store.ChangedMeanwhileError("alarm rule", old.Generation, in.IfGeneration)
		}
		to := old
		to.Name, to.Spec = in.Name, in.Spec
		changes := ruleChanges(old, to)
		if len(changes) == 0 {
			return nil
		}
		if err := q.ChangeAlarmRule(ctx, db.ChangeAlarmRuleParams{ID: id, Name: to.Name, Spec: to.Spec}); err != nil {
			return ruleNameTakenError(err, to.Name)
		}
		return auditRule(ctx, q, a, "alarm-rule.edit", id, to.Name, changes)
	})
	if err != nil {
		return fleet.AlarmRuleView{}, err
	}
	return as.queries.GetAlarmRule(ctx, a, id)
}

// DeleteAlarmRule deletes an alarm rule with its alarms and their history.
func (as *Alarms) DeleteAlarmRule(ctx context.Context, a fleet.Actor, id fleet.AlarmRuleID) error {
	return as.changeRule(ctx, a, id, func(q *db.Queries, r fleet.AlarmRule) error {
		if err := q.DeleteAlarmRule(ctx, id); err != nil {
			return err
		}
		return auditRule(ctx, q, a, "alarm-rule.delete", id, r.Name, nil)
	})
}

// AlarmSelection names one alarm, or the open alarms of a rule with one cause.
type AlarmSelection struct {
	ID     fleet.AlarmID
	RuleID fleet.AlarmRuleID
	Cause  string
}

// maxAlarmNote is the maximum length of a note in bytes.
const maxAlarmNote = 1000

// maxAlarmSilence is the longest silence of an alarm.
const maxAlarmSilence = 366 * 24 * time.Hour

// AcknowledgeAlarms acknowledges open alarms with a note. It returns their number.
func (as *Alarms) AcknowledgeAlarms(ctx context.Context, a fleet.Actor, which AlarmSelection, note string) (int, error) {
	var checks fleet.Checks
	if fleet.CheckDescription(&checks, "note", note); len(note) > maxAlarmNote {
		checks.Add("note", "The note may have at most %d characters.", maxAlarmNote)
	}
	if err := checks.Err(); err != nil {
		return 0, err
	}
	return as.changeAlarms(ctx, a, which, "alarm.acknowledge", note, func(q *db.Queries, ids []string) error {
		return q.AcknowledgeAlarms(ctx, db.AcknowledgeAlarmsParams{Ids: ids, Actor: a.Name, Note: note})
	})
}

// SilenceAlarms silences open alarms until a time, or ends their silence if until is zero. It returns their number.
func (as *Alarms) SilenceAlarms(ctx context.Context, a fleet.Actor, which AlarmSelection, until time.Time) (int, error) {
	p := db.SilenceAlarmsParams{Actor: a.Name}
	action := "alarm.unsilence"
	if !until.IsZero() {
		if wait := time.Until(until); wait <= 0 || wait > maxAlarmSilence {
			var checks fleet.Checks
			checks.Add("until", "Give a time within the next year.")
			return 0, checks.Err()
		}
		p.Until, p.Text, action = &until, "until "+until.UTC().Format(time.RFC3339), "alarm.silence"
	}
	return as.changeAlarms(ctx, a, which, action, p.Text, func(q *db.Queries, ids []string) error {
		p.Ids = ids
		return q.SilenceAlarms(ctx, p)
	})
}

// changeAlarms calls do with the IDs of the selected open alarms that the actor may change: those of objects whose VMs
// the actor may change, and all for an actor who may change hosts.
func (as *Alarms) changeAlarms(ctx context.Context, a fleet.Actor, which AlarmSelection, action, detail string, do func(q *db.Queries, ids []string) error) (n int, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return 0, err
	}
	if id := string(which.ID); id != "" {
		err = store.CheckID(id, "alarm")
	} else {
		err = store.CheckID(string(which.RuleID), "alarm")
	}
	if err != nil {
		return 0, err
	}
	err = as.store.Tx(ctx, func(q *db.Queries) error {
		ids, err := q.FindAlarms(ctx, db.FindAlarmsParams{
			ID: string(which.ID), RuleID: string(which.RuleID), Cause: which.Cause,
			AllProjects: policy.May(a, policy.InfraChange, ""), Projects: store.ProjectsWithPermission(a, policy.VMChange),
		})
		if err != nil {
			return err
		}
		if n = len(ids); n == 0 {
			return fleet.Errorf(fleet.NotFound, "There is no such open alarm that you may change.")
		}
		subject, name := fleet.SubjectOf(fleet.TypeAlarm, which.ID), which.Cause
		if which.ID == "" {
			subject = fleet.SubjectOf(fleet.TypeAlarmRule, which.RuleID)
			detail = strings.TrimSpace(fmt.Sprintf("%d alarms %s", n, detail))
		}
		if err := store.Audit(ctx, q, a, action, subject, name, detail); err != nil {
			return err
		}
		return do(q, store.ToStrings(ids))
	})
	return n, err
}

// addDefaultRules adds the default rules that were never added.
func addDefaultRules(ctx context.Context, q *db.Queries) error {
	var p db.AddDefaultAlarmRulesParams
	for _, r := range alarm.DefaultRules() {
		spec, err := json.Marshal(r.Spec)
		if err != nil {
			return err
		}
		p.Ids, p.Builtins = append(p.Ids, string(fleet.NewID[fleet.AlarmRuleID]())), append(p.Builtins, r.Builtin)
		p.Names, p.Specs = append(p.Names, r.Name), append(p.Specs, string(spec))
	}
	n, err := q.CountAlarmDefaults(ctx, p.Builtins)
	if err != nil || int(n) == len(p.Builtins) {
		return err
	}
	return q.AddDefaultAlarmRules(ctx, p)
}
