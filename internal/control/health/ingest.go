// Package health has the use cases of the health of hosts: it stores what the health checks of agents find, and keeps
// the open conditions and the history of each host.
package health

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

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

	encoded []byte // the row as JSON, if its event and its condition are equal; nil: not encoded yet
}

// encode returns the row as JSON.
func (e *eventRow) encode() []byte {
	if e.encoded == nil {
		return mustJSON(e)
	}
	return e.encoded
}

// rowsJSON returns the rows as a JSON array.
func rowsJSON(rows []eventRow) []byte {
	out := []byte{'['}
	for i := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, rows[i].encode()...)
	}
	return append(out, ']')
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
	place      map[healthevent.Key]int // of each condition in conditions
	ended      []healthevent.Key
	dropped    int // events that were too many
}

// setCondition adds a condition. One statement writes a row once, so a later one replaces an earlier one.
func (b *batch) setCondition(c eventRow) {
	if b.place == nil {
		b.place = map[healthevent.Key]int{}
	}
	key := healthevent.Key{Check: c.Check, Object: c.Object, Code: c.Code}
	at, twice := b.place[key]
	if !twice {
		b.place[key] = len(b.conditions)
		b.conditions = append(b.conditions, c)
		return
	}
	if was := b.conditions[at]; was.Occurrence && c.Occurrence {
		c.Repeats += was.Repeats
		c.encoded = nil
	}
	b.conditions[at] = c
}

// keepWithin drops the events that the host may not store now, the least serious ones first. Conditions stay right.
func (b *batch) keepWithin(allowance int) {
	if len(b.events) > max(allowance, 0) {
		serious := func(e eventRow) int { return slices.Index(severities, e.Severity) }
		kept := slices.SortedStableFunc(slices.Values(b.events), func(x, y eventRow) int { return serious(x) - serious(y) })
		b.dropped += len(b.events) - max(allowance, 0)
		b.events = kept[:max(allowance, 0)]
	}
	if b.dropped > 0 && allowance > 0 {
		b.add(rowOf(healthevent.Occurred, healthevent.AgentCheck, healthevent.Dropped(int64(b.dropped))))
	}
}

// severities are the severities, the most serious one first.
var severities = []fleet.AlarmSeverity{fleet.AlarmCritical, fleet.AlarmWarning, fleet.AlarmInfo}

// Limits of what one host can store, so that a broken or hostile agent disturbs no other host.
const (
	eventBurst      = 2000   // events at once
	eventsPerSecond = 20     // events in the long run
	maxConditions   = 500    // open conditions
	maxHostChecks   = 64     // checks
	maxHostEvents   = 20_000 // events kept; the oldest ones go first
)

// ReportHealth stores a health report of the calling host's agent. Repeating a report changes nothing.
func (hs *Health) ReportHealth(ctx context.Context, a fleet.Actor, in healthevent.Report) error {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return err
	}
	report, dropped := in.Valid()
	return hs.store.RunPipelinedTx(ctx, 0, func(t store.PipelinedTx) error {
		q, later := t.Queries, t.DeferredQueries()
		last, err := lockHealth(ctx, q, a.HostID)
		if err != nil {
			return err
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
			checks, err := knownChecks(ctx, q, a.HostID, report.Checks, int(last.Checks))
			if err != nil {
				return err
			}
			b.addChecks(conditionsFromRows(rows), checks)
			if err := later.SetHostChecks(ctx, db.SetHostChecksParams{HostID: a.HostID, Checks: mustJSON(checks)}); err != nil {
				return err
			}
		}
		isNew := b.addOccurrences(report, last.Number)
		if isNew || len(report.Occurrences) == 0 {
			b.dropped = dropped
		}
		if err := b.keepConditions(ctx, q, a.HostID, int(last.Conditions)); err != nil {
			return err
		}
		b.keepWithin(int(last.Allowance))
		err = later.SetHostHealth(ctx, db.SetHostHealthParams{
			HostID: a.HostID, Instance: report.Instance, Number: max(last.Number, report.Number), Allowance: last.Allowance - float64(len(b.events)), Added: int64(len(b.events)),
		})
		if err != nil {
			return err
		}
		events, err := b.write(ctx, q, later, a.HostID)
		if err != nil {
			return err
		}
		return hs.judge.Judge(ctx, q, a.HostID, events)
	})
}

// knownChecks returns the reported checks without new ones beyond the maximum. has is the number of the host's checks.
func knownChecks(ctx context.Context, q *db.Queries, host fleet.HostID, reported []healthevent.CheckReport, has int) ([]healthevent.CheckReport, error) {
	if has+len(reported) <= maxHostChecks {
		return reported, nil
	}
	known, err := q.ChecksOfHost(ctx, host)
	room := maxHostChecks - len(known)
	return slices.DeleteFunc(slices.Clone(reported), func(r healthevent.CheckReport) bool {
		if slices.ContainsFunc(known, func(c db.HostCheck) bool { return c.CheckName == r.Check }) {
			return false
		}
		room--
		return room < 0
	}), err
}

// keepConditions drops new conditions beyond the maximum. Their events stay. has is the number of the host's conditions.
func (b *batch) keepConditions(ctx context.Context, q *db.Queries, host fleet.HostID, has int) error {
	if has+len(b.conditions) <= maxConditions {
		return nil
	}
	known, err := q.ConditionsOfHost(ctx, host)
	if err != nil {
		return err
	}
	held := map[healthevent.Key]bool{}
	for _, c := range conditionsFromRows(known) {
		held[c.Key()] = true
	}
	room := maxConditions - len(known)
	b.conditions = slices.DeleteFunc(b.conditions, func(c eventRow) bool {
		if held[healthevent.Key{Check: c.Check, Object: c.Object, Code: c.Code}] {
			return false
		}
		room--
		return room < 0
	})
	b.place = nil
	return nil
}

// lockHealth locks the host's health until the transaction ends. A host's first report creates it.
func lockHealth(ctx context.Context, q *db.Queries, host fleet.HostID) (db.LockHostHealthRow, error) {
	key := db.LockHostHealthParams{HostID: host, Burst: eventBurst, PerSecond: eventsPerSecond}
	last, err := q.LockHostHealth(ctx, key)
	if !errors.Is(err, pgx.ErrNoRows) {
		return last, err
	}
	if err := q.AddHostHealth(ctx, host); err != nil {
		return last, store.UserError(err)
	}
	return q.LockHostHealth(ctx, key)
}

// addChecks adds the difference between the open conditions and the reports of checks.
func (b *batch) addChecks(open []healthevent.Condition, reports []healthevent.CheckReport) {
	for _, r := range reports {
		changes := healthevent.Diff(open, r)
		for _, f := range changes.Raise {
			b.add(rowOf(healthevent.Raised, r.Check, f))
			b.setCondition(rowOf("", r.Check, f))
		}
		for _, f := range changes.Update {
			b.setCondition(rowOf("", r.Check, f))
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
	for i, o := range r.Occurrences {
		if first+int64(i) <= accepted {
			continue
		}
		isNew = true
		e := rowOf(healthevent.Occurred, o.Check, o.Finding)
		e.AgoSeconds, e.Repeats, e.Occurrence = float64(o.AgoMs)/1000, o.Repeats, true
		e.encoded = mustJSON(e)
		b.add(e)
		if o.Finding.Severity != fleet.AlarmInfo {
			b.setCondition(e)
		}
	}
	return isNew
}

func (b *batch) add(e eventRow) { b.events = append(b.events, e) }

// write stores the batch and returns the stored events. later may send its statements together with the next one of q.
func (b *batch) write(ctx context.Context, q, later *db.Queries, host fleet.HostID) ([]healthevent.Event, error) {
	if len(b.ended) > 0 {
		if _, err := q.EndHostConditions(ctx, db.EndHostConditionsParams{HostID: host, Keys: mustJSON(b.ended)}); err != nil {
			return nil, err
		}
	}
	if len(b.conditions) > 0 {
		if err := later.SetHostConditions(ctx, db.SetHostConditionsParams{HostID: host, Conditions: rowsJSON(b.conditions)}); err != nil {
			return nil, err
		}
	}
	if len(b.events) == 0 {
		return nil, nil
	}
	ids, err := q.AddHostEvents(ctx, db.AddHostEventsParams{HostID: host, Events: rowsJSON(b.events)})
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
