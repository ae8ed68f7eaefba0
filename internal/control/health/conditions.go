package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/policy"
)

// eventAge is how long events are kept.
const eventAge = 30 * 24 * time.Hour

// Limits of one pass: events deleted by age, and hosts whose oldest events are deleted.
const (
	maxSweptEvents  = 20_000
	maxTrimmedHosts = 50
)

// maxCritical is the maximum number of conditions on the dashboard.
const maxCritical = 10

// eventPage and maxEventPage are the usual and the maximum number of events in one page.
const (
	eventPage    = 50
	maxEventPage = 500
)

// HealthOfHost returns the states of the host's checks and its open conditions.
func (hs *Health) HealthOfHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (healthevent.HostHealth, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return healthevent.HostHealth{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return healthevent.HostHealth{}, err
	}
	if _, err := hs.store.HostName(ctx, id); err != nil {
		return healthevent.HostHealth{}, store.NotFoundError(err, "host")
	}
	at, err := hs.store.HostHealthReportedAt(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return healthevent.HostHealth{}, store.UserError(err)
	}
	known := err == nil
	checks, err := hs.store.ChecksOfHost(ctx, id)
	if err != nil {
		return healthevent.HostHealth{}, store.UserError(err)
	}
	open, err := hs.store.ConditionsOfHost(ctx, id)
	if err != nil {
		return healthevent.HostHealth{}, store.UserError(err)
	}
	out := healthevent.HostHealth{Checks: make([]healthevent.CheckStatus, len(checks)), Conditions: conditionsFromRows(open)}
	if known {
		out.ReportedAt = &at
	}
	for i, c := range checks {
		out.Checks[i] = healthevent.CheckStatus{Check: c.CheckName, State: c.State, Reason: c.Reason, Since: c.Since}
	}
	return out, nil
}

// EventQuery chooses events of a host.
type EventQuery struct {
	After    int64               // events older than this one; 0: the newest ones
	Before   int64               // the events directly newer than this one; excludes After
	Severity fleet.AlarmSeverity // empty: any
	Check    string              // empty: any
	Limit    int                 // 0: 50; at most 500
}

// EventPage is a page of a host's events, the newest first.
type EventPage struct {
	Items []healthevent.Event `json:"items"`
	// Older and Newer are the values of after and before for the neighbouring pages; 0: there is none.
	Older int64 `json:"older,omitempty"`
	Newer int64 `json:"newer,omitempty"`
}

// HostEvents returns a page of the host's events.
func (hs *Health) HostEvents(ctx context.Context, a fleet.Actor, id fleet.HostID, in EventQuery) (EventPage, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return EventPage{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return EventPage{}, err
	}
	if in.Severity != "" && !slices.Contains(severities, in.Severity) {
		return EventPage{}, fleet.Errorf(fleet.Malformed, "The severity must be critical, warning or info.")
	}
	if in.After < 0 || in.Before < 0 || in.After > 0 && in.Before > 0 {
		return EventPage{}, fleet.Errorf(fleet.Malformed, "Give the ID of one event as after or before.")
	}
	name, err := hs.store.HostName(ctx, id)
	if err != nil {
		return EventPage{}, store.NotFoundError(err, "host")
	}
	most := min(max(cmp.Or(in.Limit, eventPage), 1), maxEventPage)
	var rows []db.HostEvent
	if in.Before > 0 {
		rows, err = hs.store.EventsOfHostAbove(ctx, db.EventsOfHostAboveParams{HostID: id, Above: in.Before, Severity: string(in.Severity), CheckName: in.Check, Most: int32(most + 1)}) //nolint:gosec // bounded
	} else {
		rows, err = hs.store.EventsOfHost(ctx, db.EventsOfHostParams{HostID: id, Below: in.After, Severity: string(in.Severity), CheckName: in.Check, Most: int32(most + 1)}) //nolint:gosec // bounded
	}
	if err != nil {
		return EventPage{}, store.UserError(err)
	}
	more := len(rows) > most
	rows = rows[:min(len(rows), most)]
	if in.Before > 0 {
		slices.Reverse(rows)
	}
	out := EventPage{Items: make([]healthevent.Event, len(rows))}
	for i, r := range rows {
		out.Items[i] = eventFromRow(r)
		out.Items[i].HostName = name
	}
	if n := len(rows); n > 0 {
		if more || in.Before > 0 {
			out.Older = rows[n-1].ID
		}
		if in.After > 0 || in.Before > 0 && more {
			out.Newer = rows[0].ID
		}
	}
	return out, nil
}

func eventFromRow(r db.HostEvent) healthevent.Event {
	return healthevent.Event{
		ID: r.ID, HostID: r.HostID, Kind: r.Kind, Check: r.CheckName, At: r.At, Repeats: r.Repeats, Actor: r.Actor, Policy: r.Policies,
		Finding: healthevent.Finding{Object: r.Object, Code: r.Code, Severity: r.Severity, Text: r.Text, Values: r.Numbers, Attributes: r.Attributes},
	}
}

// ResolveCondition ends an occurrence that a user has dealt with. A finding ends only when its check no longer finds it.
func (hs *Health) ResolveCondition(ctx context.Context, a fleet.Actor, id fleet.HostID, key healthevent.Key) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return err
	}
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		name, err := q.HostName(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "host")
		}
		if _, err := q.LockHostHealth(ctx, db.LockHostHealthParams{HostID: id}); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		ended, err := q.EndHostConditions(ctx, db.EndHostConditionsParams{HostID: id, Keys: mustJSON([]healthevent.Key{key})})
		switch {
		case err != nil:
			return err
		case len(ended) == 0:
			return fleet.Errorf(fleet.NotFound, "%s has no such condition. It may have ended already.", name)
		case !ended[0].Occurrence:
			return fleet.Errorf(fleet.Conflict, "This condition holds now. It ends when the check no longer finds it.")
		}
		c := conditionsFromRows(ended)[0]
		e := rowOf(healthevent.Resolved, c.Check, c.Finding)
		e.Actor = a.Name
		b := batch{events: []eventRow{e}}
		events, err := b.write(ctx, q, q, id)
		if err != nil {
			return err
		}
		if err := hs.judge.Judge(ctx, q, id, events); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "host.resolve", fleet.SubjectHost(id), name, fmt.Sprintf("%s %s %s", key.Check, key.Object, key.Code))
	})
}

// DeleteOldHostEvents deletes events by age, and the oldest ones of hosts that have too many.
func (hs *Health) DeleteOldHostEvents(ctx context.Context, a fleet.Actor) error {
	return hs.store.RunPass(ctx, a, "host events", func(q *db.Queries) error {
		if _, err := q.SweepHostEvents(ctx, db.SweepHostEventsParams{Age: eventAge, Most: maxSweptEvents}); err != nil {
			return err
		}
		hosts, err := q.HostsWithManyEvents(ctx, db.HostsWithManyEventsParams{Keep: maxHostEvents, Most: maxTrimmedHosts})
		if err != nil {
			return err
		}
		for _, id := range hosts {
			if _, err := q.TrimHostEvents(ctx, db.TrimHostEventsParams{HostID: id, Keep: maxHostEvents}); err != nil {
				return err
			}
			if err := q.RecountHostEvents(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// HealthOfHosts returns the summaries of those hosts that have open conditions.
func (hs *Health) HealthOfHosts(ctx context.Context, a fleet.Actor, ids []fleet.HostID) (map[fleet.HostID]healthevent.Summary, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	rows, err := hs.store.HealthOfHosts(ctx, texts)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make(map[fleet.HostID]healthevent.Summary, len(rows))
	for _, r := range rows {
		out[r.HostID] = healthevent.Summary{Conditions: int(r.Total), Worst: severities[min(max(int(r.Worst), 1), len(severities))-1]}
	}
	return out, nil
}

// CriticalConditions returns critical conditions of all hosts, the newest first, and whether there are more.
func (hs *Health) CriticalConditions(ctx context.Context, a fleet.Actor) (all []healthevent.Condition, more bool, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, false, err
	}
	rows, err := hs.store.CriticalHostConditions(ctx, maxCritical+1)
	if err != nil {
		return nil, false, store.UserError(err)
	}
	for _, r := range rows[:min(len(rows), maxCritical)] {
		all = append(all, healthevent.Condition{
			HostID: r.HostID, HostName: r.HostName, Check: r.CheckName, Since: r.Since,
			Finding: healthevent.Finding{Object: r.Object, Code: r.Code, Severity: fleet.AlarmCritical, Text: r.Text},
		})
	}
	return all, len(rows) > maxCritical, nil
}
