package query

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/alarm"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	alarmIsOpenSQL     = "al.cleared_at IS NULL"
	alarmIsRaisedSQL   = "al.raised_at IS NOT NULL"
	alarmIsSilencedSQL = "COALESCE(al.silenced_until > now(), false)"
	// alarmSeverityRankSQL orders severities, the most serious one first.
	alarmSeverityRankSQL = "array_position(ARRAY['critical', 'warning', 'info'], al.severity)"
)

var alarmsByTime = sortOrder[fleet.Alarm]{[]sortColumn{timeColumn("al.raised_at"), textColumn("al.id")}, func(v fleet.Alarm) []string {
	return []string{formatTime(v.RaisedAt), string(v.ID)}
}}

// alarmFilter are the conditions of fleet.AlarmKeys.
var alarmFilter = listFilter{
	"state":        exactTextCondition("CASE WHEN " + alarmIsOpenSQL + " THEN 'open' ELSE 'cleared' END"),
	"severity":     exactTextCondition("al.severity"),
	"acknowledged": yesNoCondition("al.acknowledged_at IS NOT NULL"),
	"silenced":     yesNoCondition(alarmIsSilencedSQL),
	"rule":         containsTextCondition("r.name"),
	"object":       containsTextCondition("al.subject_name"),
	"alarm":        containsTextCondition("al.plain"),
	"raised":       dayCondition("al.raised_at"),
	"uuid":         lowerTextCondition("al.id"),
}

var alarmList = list[fleet.Alarm]{
	name: "alarm", see: policy.VMSee, sort: "-raised", keys: fleet.AlarmKeys, filter: alarmFilter, id: "al.id", read: (*Queries).readAlarms,
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		s.addCondition(alarmIsRaisedSQL)
		s.whereAlarmVisible(a)
		if project != "" {
			s.addCondition("al.project_id = " + s.addKeyArg(string(project)))
		}
	},
	orders: sortOrders[fleet.Alarm]{"raised": alarmsByTime},
}

// whereAlarmVisible limits alarms (alias al) to those that the actor may see.
func (s *statementBuilder) whereAlarmVisible(a fleet.Actor) {
	if !store.SeesHosts(a) {
		s.addCondition(s.oneOfSQL("al.project_id", store.VisibleProjects(a)))
	}
}

const alarmColumnsSQL = `SELECT al.id, al.rule_id, r.name, r.spec, al.subject, al.subject_name, al.project_id, al.host_id,
	COALESCE((SELECT h.name FROM hosts h WHERE h.id = al.host_id), ''), al.cause, al.severity, al.text, al.plain, al.remedy, al.value, al.count, al.raised_at,
	al.acknowledged_at, al.acknowledged_by, al.note, al.silenced_until, al.cleared_at FROM alarms al JOIN alarm_rules r ON r.id = al.rule_id`

func scanAlarm(a fleet.Actor) pgx.RowToFunc[fleet.Alarm] {
	sees := store.SeesHosts(a)
	return func(row pgx.CollectableRow) (v fleet.Alarm, err error) {
		var spec fleet.AlarmRuleSpec
		var plain string
		err = row.Scan(&v.ID, &v.RuleID, &v.RuleName, &spec, &v.Subject, &v.SubjectName, &v.ProjectID, &v.HostID, &v.HostName, &v.Cause, &v.Severity, &v.Text, &plain, &v.Remedy,
			&v.Value, &v.Count, &v.RaisedAt, &v.AcknowledgedAt, &v.AcknowledgedBy, &v.Note, &v.SilencedUntil, &v.ClearedAt)
		if v.Value != nil {
			v.Unit = alarm.UnitOf(spec)
		}
		if v.Threshold = spec.Threshold; !sees {
			v.Text, v.Cause, v.Remedy, v.HostID, v.HostName = plain, plain, "", "", ""
		}
		return v, err
	}
}

func (b *Queries) readAlarms(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]fleet.Alarm, error) {
	return collectRows(ctx, b, alarmColumnsSQL+s.whereClause()+tail, s, scanAlarm(a))
}

// ListAlarms returns one page of alarms, open and cleared. Sorts: raised.
func (b *Queries) ListAlarms(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Alarm], error) {
	return alarmList.readPage(ctx, b, a, q)
}

// GetAlarm returns one alarm with its history, the newest entry first.
func (b *Queries) GetAlarm(ctx context.Context, a fleet.Actor, id fleet.AlarmID) (fleet.AlarmDetails, error) {
	v, err := alarmList.readOne(ctx, b, a, string(id))
	if err != nil {
		return fleet.AlarmDetails{}, err
	}
	rows, err := b.store.AlarmEvents(ctx, id)
	out := fleet.AlarmDetails{Alarm: v, Events: make([]fleet.AlarmEvent, len(rows))}
	for i, r := range rows {
		out.Events[i] = fleet.AlarmEvent{ID: r.ID, At: r.At, Kind: r.Kind, Actor: r.Actor, Text: r.Text}
		if !store.SeesHosts(a) && r.Actor == "" {
			out.Events[i].Text = ""
		}
	}
	return out, store.UserError(err)
}

// AlarmsOf returns the open alarms of an object, the most serious ones first.
func (b *Queries) AlarmsOf(ctx context.Context, a fleet.Actor, subject fleet.Subject) ([]fleet.Alarm, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition(alarmIsOpenSQL + " AND " + alarmIsRaisedSQL + " AND al.subject = " + s.addKeyArg(string(subject)))
	s.whereAlarmVisible(a)
	return b.readAlarms(ctx, a, &s, " ORDER BY "+alarmSeverityRankSQL+", al.raised_at DESC, al.id LIMIT "+strconv.Itoa(fleet.AttentionNames))
}

// maxAlarmGroups is the maximum number of groups of open alarms.
const maxAlarmGroups = 100

// AlarmGroups returns the open alarms that the actor may see, grouped by rule and cause, the most serious ones first.
// Silenced groups come last. more says that there are more groups.
func (b *Queries) AlarmGroups(ctx context.Context, a fleet.Actor) (groups []fleet.AlarmGroup, more bool, err error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, false, err
	}
	cause := "al.cause"
	if !store.SeesHosts(a) {
		cause = "al.plain"
	}
	var s statementBuilder
	s.addCondition(alarmIsOpenSQL + " AND " + alarmIsRaisedSQL)
	s.whereAlarmVisible(a)
	sql := `SELECT g.*, r.name, COALESCE(r.spec->>'description', '') FROM (SELECT al.rule_id, ` + cause + ` AS cause, (array_agg(al.severity ORDER BY ` + alarmSeverityRankSQL + `))[1], count(*), sum(al.count)::bigint,
		count(al.acknowledged_at), count(*) FILTER (WHERE ` + alarmIsSilencedSQL + `), min(al.raised_at), max(al.raised_at), COALESCE(max(al.remedy) FILTER (WHERE al.remedy <> ''), ''),
		(array_agg(al.id ORDER BY al.subject_name, al.id))[1:` + strconv.Itoa(fleet.AttentionNames) + `] AS ids
		FROM alarms al` + s.whereClause() + ` GROUP BY 1, 2
		ORDER BY bool_and(` + alarmIsSilencedSQL + `), min(` + alarmSeverityRankSQL + `), count(al.acknowledged_at) = count(*), max(al.raised_at) DESC, 1, 2 LIMIT ` + strconv.Itoa(maxAlarmGroups+1) + `) g
		JOIN alarm_rules r ON r.id = g.rule_id`
	ids := map[int][]string{}
	groups, err = collectRows(ctx, b, sql, &s, func(row pgx.CollectableRow) (g fleet.AlarmGroup, err error) {
		var first []string
		err = row.Scan(&g.RuleID, &g.Cause, &g.Severity, &g.Count, &g.Occurrences, &g.Acknowledged, &g.Silenced, &g.RaisedAt, &g.NewestAt, &g.Remedy, &first, &g.RuleName, &g.Description)
		if ids[len(ids)] = first; !store.SeesHosts(a) {
			g.Remedy = ""
		}
		return g, err
	})
	if err != nil {
		return nil, false, err
	}
	if more = len(groups) > maxAlarmGroups; more {
		groups = groups[:maxAlarmGroups]
	}
	var all []string
	for i := range groups {
		all = append(all, ids[i]...)
	}
	if len(all) == 0 {
		return groups, more, nil
	}
	var one statementBuilder
	one.addCondition("al.id = ANY (" + one.addKeyArg(all) + "::text[])")
	alarms, err := b.readAlarms(ctx, a, &one, " ORDER BY al.subject_name, al.id")
	byID := make(map[string]fleet.Alarm, len(alarms))
	for _, v := range alarms {
		byID[string(v.ID)] = v
	}
	for i := range groups {
		for _, id := range ids[i] {
			if v, ok := byID[id]; ok {
				groups[i].Alarms = append(groups[i].Alarms, v)
			}
		}
	}
	return groups, more, err
}

// AlarmCounts returns the numbers of open alarms that the actor may see, without silenced ones, by severity.
func (b *Queries) AlarmCounts(ctx context.Context, a fleet.Actor) (fleet.AlarmCounts, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition(alarmIsOpenSQL + " AND " + alarmIsRaisedSQL + " AND NOT " + alarmIsSilencedSQL)
	s.whereAlarmVisible(a)
	out := fleet.AlarmCounts{}
	_, err := collectRows(ctx, b, "SELECT al.severity, count(*) FROM alarms al"+s.whereClause()+" GROUP BY 1", &s, func(row pgx.CollectableRow) (none struct{}, err error) {
		var severity fleet.AlarmSeverity
		var n int
		err = row.Scan(&severity, &n)
		out[severity] = n
		return none, err
	})
	return out, err
}

var rulesByName = sortOrder[fleet.AlarmRuleView]{[]sortColumn{textColumn("r.name"), textColumn("r.id")}, func(v fleet.AlarmRuleView) []string {
	return []string{v.Name, string(v.ID)}
}}

// alarmRuleFilter are the conditions of fleet.AlarmRuleKeys.
var alarmRuleFilter = listFilter{
	"name":        lowerTextCondition("r.name"),
	"severity":    exactTextCondition("r.spec->>'severity'"),
	"enabled":     yesNoCondition("NOT COALESCE((r.spec->>'disabled')::boolean, false)"),
	"description": containsTextCondition("r.spec->>'description'"),
	"uuid":        lowerTextCondition("r.id"),
}

var alarmRuleList = list[fleet.AlarmRuleView]{
	name: "alarm rule", see: policy.InfraSee, sort: "name", keys: fleet.AlarmRuleKeys, filter: alarmRuleFilter, id: "r.id", read: (*Queries).readAlarmRules,
	orders: sortOrders[fleet.AlarmRuleView]{"name": rulesByName},
}

func (b *Queries) readAlarmRules(ctx context.Context, _ fleet.Actor, s *statementBuilder, tail string) ([]fleet.AlarmRuleView, error) {
	sql := `SELECT r.id, r.name, r.builtin, r.spec, r.generation, r.created_at,
		(SELECT count(*) FROM alarms al WHERE al.rule_id = r.id AND ` + alarmIsOpenSQL + ` AND ` + alarmIsRaisedSQL + `) FROM alarm_rules r` + s.whereClause() + tail
	return collectRows(ctx, b, sql, s, func(row pgx.CollectableRow) (v fleet.AlarmRuleView, err error) {
		err = row.Scan(&v.ID, &v.Name, &v.Builtin, &v.Spec, &v.Generation, &v.CreatedAt, &v.Open)
		return v, err
	})
}

// ListAlarmRules returns one page of alarm rules. Sorts: name.
func (b *Queries) ListAlarmRules(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.AlarmRuleView], error) {
	return alarmRuleList.readPage(ctx, b, a, q)
}

// GetAlarmRule returns one alarm rule.
func (b *Queries) GetAlarmRule(ctx context.Context, a fleet.Actor, id fleet.AlarmRuleID) (fleet.AlarmRuleView, error) {
	return alarmRuleList.readOne(ctx, b, a, string(id))
}
