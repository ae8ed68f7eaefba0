package health

import (
	"context"
	"errors"
	"fmt"
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

// maxSweptEvents is the maximum number of events that one pass deletes.
const maxSweptEvents = 20_000

// maxEventPage is the maximum number of events in one page.
const maxEventPage = 500

// HostHealth is what is known about the health of a host.
type HostHealth struct {
	// ReportedAt is the database time of the newest report; nil: the host has not sent one, or its agent is too old.
	ReportedAt *time.Time                `json:"reportedAt"`
	Checks     []healthevent.CheckStatus `json:"checks"`
	Conditions []healthevent.Condition   `json:"conditions"`
}

// HealthOfHost returns the states of the host's checks and its open conditions.
func (hs *Health) HealthOfHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (HostHealth, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return HostHealth{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return HostHealth{}, err
	}
	if _, err := hs.store.HostName(ctx, id); err != nil {
		return HostHealth{}, store.NotFoundError(err, "host")
	}
	at, err := hs.store.HostHealthReportedAt(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return HostHealth{}, store.UserError(err)
	}
	known := err == nil
	checks, err := hs.store.ChecksOfHost(ctx, id)
	if err != nil {
		return HostHealth{}, store.UserError(err)
	}
	open, err := hs.store.ConditionsOfHost(ctx, id)
	if err != nil {
		return HostHealth{}, store.UserError(err)
	}
	out := HostHealth{Checks: make([]healthevent.CheckStatus, len(checks)), Conditions: conditionsFromRows(open)}
	if known {
		out.ReportedAt = &at
	}
	for i, c := range checks {
		out.Checks[i] = healthevent.CheckStatus{Check: c.CheckName, State: c.State, Reason: c.Reason, Since: c.Since}
	}
	return out, nil
}

// HostEvents returns at most n events of a host, the newest first, with IDs below before; 0: from the newest.
func (hs *Health) HostEvents(ctx context.Context, a fleet.Actor, id fleet.HostID, before int64, n int) ([]healthevent.Event, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	name, err := hs.store.HostName(ctx, id)
	if err != nil {
		return nil, store.NotFoundError(err, "host")
	}
	rows, err := hs.store.EventsOfHost(ctx, db.EventsOfHostParams{HostID: id, Before: before, Most: int32(min(max(n, 1), maxEventPage))}) //nolint:gosec // bounded
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]healthevent.Event, len(rows))
	for i, r := range rows {
		out[i] = eventFromRow(r)
		out[i].HostName = name
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
		if _, err := q.LockHostHealth(ctx, id); err != nil {
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
		events, err := b.write(ctx, q, id)
		if err != nil {
			return err
		}
		if err := hs.judge.Judge(ctx, q, id, events); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "host.resolve", fleet.SubjectHost(id), name, fmt.Sprintf("%s %s %s", key.Check, key.Object, key.Code))
	})
}

// DeleteOldHostEvents deletes events by age.
func (hs *Health) DeleteOldHostEvents(ctx context.Context, a fleet.Actor) error {
	return hs.store.RunPass(ctx, a, "host events", func(q *db.Queries) error {
		_, err := q.SweepHostEvents(ctx, db.SweepHostEventsParams{Age: eventAge, Most: maxSweptEvents})
		return err
	})
}
