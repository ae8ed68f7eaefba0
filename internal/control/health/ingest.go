// Package health has the use cases of the health of hosts: it stores what the health checks of agents find, and keeps
// the open conditions and the history of each host.
package health

import (
	"context"
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/policy"
)

// Health has the use cases of the health of hosts. Its exported methods are use cases of control.Control.
type Health struct {
	store *store.Store
	judge Judge
}

// Judge judges new events of a host, in the transaction that stores them.
type Judge interface {
	Judge(ctx context.Context, q *db.Queries, host fleet.HostID, events []healthevent.Event) error
}

// New returns the Health of the store, whose events go to the judge.
func New(s *store.Store, j Judge) *Health { return &Health{store: s, judge: j} }

// eventRow and conditionRow are rows as the statements of host_health.sql read them.
type eventRow struct {
	AgoSeconds float64             `json:"ago"`
	Kind       healthevent.Kind    `json:"kind"`
	Check      string              `json:"check_name"`
	Object     string              `json:"object"`
	Code       string              `json:"code"`
	Severity   fleet.AlarmSeverity `json:"severity"`
	Text       string              `json:"text"`
	Numbers    map[string]float64  `json:"numbers"`
	Attributes map[string]string   `json:"attributes"`
	Repeats    int64               `json:"repeats"`
	Actor      string              `json:"actor"`
	Occurrence bool                `json:"occurrence"`
}

func rowOf(kind healthevent.Kind, check string, f healthevent.Finding) eventRow {
	return eventRow{
		Kind: kind, Check: check, Object: f.Object, Code: f.Code, Severity: f.Severity, Text: f.Text, Numbers: f.Values, Attributes: f.Attributes, Repeats: 1,
	}
}

// batch collects what one report changes.
type batch struct {
	events     []eventRow
	conditions []eventRow
	ended      []healthevent.Key
}

// ReportHealth stores a health report of the calling host's agent. Repeating a report changes nothing.
func (hs *Health) ReportHealth(ctx context.Context, a fleet.Actor, in healthevent.Report) error {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return err
	}
	report, dropped := in.Valid()
	dropped += int(min(max(in.Dropped, 0), 1<<40))
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		last, err := q.LockHostHealth(ctx, a.HostID)
		if err != nil {
			return store.NotFoundError(err, "host")
		}
		if last.Instance != report.Instance {
			last.Number = 0
		}
		var b batch
		if len(report.Checks) > 0 {
			rows, err := q.ConditionsOfHost(ctx, a.HostID)
			if err != nil {
				return err
			}
			b.addChecks(conditionsFromRows(rows), report.Checks)
			if err := q.SetHostChecks(ctx, db.SetHostChecksParams{HostID: a.HostID, Checks: mustJSON(report.Checks)}); err != nil {
				return err
			}
		}
		isNew := b.addOccurrences(report, last.Number)
		if dropped > 0 && (isNew || len(report.Occurrences) == 0 && len(report.Checks) == 0) {
			b.add(droppedEvent(dropped))
		}
		if isNew {
			if err := q.SetHostHealth(ctx, db.SetHostHealthParams{HostID: a.HostID, Instance: report.Instance, Number: report.Number}); err != nil {
				return err
			}
		}
		events, err := b.write(ctx, q, a.HostID)
		if err != nil {
			return err
		}
		return hs.judge.Judge(ctx, q, a.HostID, events)
	})
}

// addChecks adds the difference between the open conditions and the reports of checks.
func (b *batch) addChecks(open []healthevent.Condition, reports []healthevent.CheckReport) {
	for _, r := range reports {
		changes := healthevent.Diff(open, r)
		for _, f := range changes.Raise {
			b.add(rowOf(healthevent.Raised, r.Check, f))
			b.conditions = append(b.conditions, rowOf("", r.Check, f))
		}
		for _, f := range changes.Update {
			b.conditions = append(b.conditions, rowOf("", r.Check, f))
		}
		for _, f := range changes.Notify {
			b.add(rowOf(healthevent.Changed, r.Check, f))
		}
		for _, f := range changes.Clear {
			b.add(rowOf(healthevent.Cleared, r.Check, f))
			b.ended = append(b.ended, healthevent.Key{Check: r.Check, Object: f.Object, Code: f.Code})
		}
	}
}

// addOccurrences adds the occurrences after the last accepted one. It reports whether there are any. An occurrence that
// is more than information is an open condition until a user resolves it.
func (b *batch) addOccurrences(r healthevent.Report, accepted int64) bool {
	first := r.Number - int64(len(r.Occurrences)) + 1
	isNew := false
	place := map[healthevent.Key]int{}
	for i, o := range r.Occurrences {
		if first+int64(i) <= accepted {
			continue
		}
		isNew = true
		e := rowOf(healthevent.Occurred, o.Check, o.Finding)
		e.AgoSeconds, e.Repeats, e.Occurrence = float64(o.AgoMs)/1000, o.Repeats, true
		b.add(e)
		if o.Finding.Severity == fleet.AlarmInfo {
			continue
		}
		key := healthevent.Key{Check: o.Check, Object: o.Finding.Object, Code: o.Finding.Code}
		if at, twice := place[key]; twice { // one statement writes a row once
			e.Repeats += b.conditions[at].Repeats
			b.conditions[at] = e
			continue
		}
		place[key] = len(b.conditions)
		b.conditions = append(b.conditions, e)
	}
	return isNew
}

func (b *batch) add(e eventRow) { b.events = append(b.events, e) }

// droppedEvent is the event for occurrences that were too many to be sent or stored.
func droppedEvent(n int) eventRow {
	return rowOf(healthevent.Occurred, "agent", healthevent.Finding{
		Code: "events-dropped", Severity: fleet.AlarmInfo, Text: fmt.Sprintf("%s of this host were dropped, because there were too many.", fleet.CountWithUnit(n, "event")),
		Values: map[string]float64{"dropped": float64(n)},
	})
}

// write stores the batch and returns the stored events.
func (b *batch) write(ctx context.Context, q *db.Queries, host fleet.HostID) ([]healthevent.Event, error) {
	if len(b.ended) > 0 {
		if _, err := q.EndHostConditions(ctx, db.EndHostConditionsParams{HostID: host, Keys: mustJSON(b.ended)}); err != nil {
			return nil, err
		}
	}
	if len(b.conditions) > 0 {
		if err := q.SetHostConditions(ctx, db.SetHostConditionsParams{HostID: host, Conditions: mustJSON(b.conditions)}); err != nil {
			return nil, err
		}
	}
	if len(b.events) == 0 {
		return nil, nil
	}
	ids, err := q.AddHostEvents(ctx, db.AddHostEventsParams{HostID: host, Events: mustJSON(b.events)})
	if err != nil {
		return nil, err
	}
	out := make([]healthevent.Event, len(b.events))
	for i, e := range b.events {
		out[i] = healthevent.Event{
			ID: ids[i].ID, HostID: host, Kind: e.Kind, Check: e.Check, At: ids[i].At, Repeats: e.Repeats, Actor: e.Actor,
			Finding: healthevent.Finding{Object: e.Object, Code: e.Code, Severity: e.Severity, Text: e.Text, Values: e.Numbers, Attributes: e.Attributes},
		}
	}
	return out, nil
}

func conditionsFromRows(rows []db.HostCondition) []healthevent.Condition {
	out := make([]healthevent.Condition, len(rows))
	for i, r := range rows {
		out[i] = healthevent.Condition{
			HostID: r.HostID, Check: r.CheckName, Since: r.Since, LastAt: r.LastAt, Count: r.Count, Occurrence: r.Occurrence,
			Finding: healthevent.Finding{Object: r.Object, Code: r.Code, Severity: r.Severity, Text: r.Text, Values: r.Numbers, Attributes: r.Attributes},
		}
	}
	return out
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
