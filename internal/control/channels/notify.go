package channels

import (
	"context"
	"errors"
	"time"

	"quantix/db"
	"quantix/internal/channel"
	"quantix/internal/control/store"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

const (
	maxEventsPerPass = 20_000
	maxClaimed       = 64
	deliveryAge      = 30 * 24 * time.Hour
	maxSwept         = 5000
	// leaseTime is longer than an attempt and the record of its result.
	leaseTime = 3 * delivery.Timeout
)

// NotifyAlarms turns the new events of alarms into messages of channels.
func (cs *Channels) NotifyAlarms(ctx context.Context, a fleet.Actor) error {
	return cs.store.RunPass(ctx, a, "notifications", func(q *db.Queries) error {
		events, err := q.NewAlarmEvents(ctx, maxEventsPerPass)
		if err != nil {
			return err
		}
		if len(events) > 0 {
			if err := addMessages(ctx, q, events); err != nil {
				return err
			}
			ids := make([]int64, 0, len(events))
			for _, e := range events {
				ids = append(ids, e.ID)
			}
			if err := q.MarkAlarmEvents(ctx, ids); err != nil {
				return err
			}
		}
		old, err := q.OldDeliveries(ctx, db.OldDeliveriesParams{Age: deliveryAge, Most: maxSwept})
		if err != nil || len(old) == 0 {
			return err
		}
		return q.DeleteDeliveries(ctx, store.ToStrings(old))
	})
}

// pending is the message of a channel to which events are added.
type pending struct {
	id      channel.DeliveryID // empty: a new message
	message channel.Message
	due     time.Time
	changed bool
}

func addMessages(ctx context.Context, q *db.Queries, events []db.NewAlarmEventsRow) error {
	channels, err := q.NotifyingChannels(ctx)
	if err != nil || len(channels) == 0 {
		return err
	}
	ids := make([]string, 0, len(channels))
	for _, c := range channels {
		ids = append(ids, string(c.ID))
	}
	rows, err := q.OpenDeliveries(ctx, ids)
	if err != nil {
		return err
	}
	open := make(map[channel.ID]*pending, len(rows))
	for _, r := range rows {
		open[r.ChannelID] = &pending{id: r.ID, message: r.Message, due: r.DueAt}
	}
	now := time.Now()
	for _, c := range channels {
		of, err := readerOf(c)
		if err != nil {
			return err
		}
		p := open[c.ID]
		if p != nil && p.message.Test {
			p = nil
		}
		for _, row := range events {
			e, ok := of.read(row)
			if !ok || row.Silenced || !c.Spec.Wants(e) {
				continue
			}
			if p != nil && p.message.Full(c.Spec.Kind) {
				if err := p.write(ctx, q, c.ID); err != nil {
					return err
				}
				p = nil
			}
			due := c.Spec.Due(e, now)
			if p == nil {
				p = &pending{due: due}
			}
			if due.Before(p.due) {
				p.due = due
			}
			p.message.Add(e)
			p.changed = true
		}
		if p != nil && p.changed {
			if err := p.write(ctx, q, c.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// write stores the message.
func (p *pending) write(ctx context.Context, q *db.Queries, of channel.ID) error {
	summary, count := p.message.Summary(), int32(len(p.message.Events)+p.message.More) //nolint:gosec // bounded by the events of a pass
	if p.id != "" {
		return q.ExtendDelivery(ctx, db.ExtendDeliveryParams{ID: p.id, Message: p.message, Summary: summary, Events: count, DueAt: p.due})
	}
	return q.AddDelivery(ctx, db.AddDeliveryParams{ID: fleet.NewID[channel.DeliveryID](), ChannelID: of, Message: p.message, Summary: summary, Events: count, DueAt: p.due})
}

// reader decides which events the receiver of a channel may see, and their words.
type reader struct {
	all      bool // of all projects and of the fleet, with details of hosts
	projects map[fleet.ProjectID]bool
}

func readerOf(c db.NotifyingChannelsRow) (reader, error) {
	switch {
	case c.ProjectID != nil:
		return reader{projects: map[fleet.ProjectID]bool{*c.ProjectID: true}}, nil
	case c.UserID == nil:
		return reader{all: true}, nil
	}
	roles, err := store.DecodeProjectRoles(c.Projects)
	a := fleet.Actor{UserID: *c.UserID, Role: fleet.Role(c.Role), Projects: roles}
	r := reader{all: store.SeesHosts(a), projects: map[fleet.ProjectID]bool{}}
	for id := range roles {
		r.projects[id] = policy.May(a, policy.VMSee, id)
	}
	return r, err
}

func (r reader) read(row db.NewAlarmEventsRow) (channel.Event, bool) {
	e := channel.Event{
		Event: row.Kind, At: row.At, AlarmID: row.AlarmID, RuleID: row.RuleID, Rule: row.Rule, Severity: row.Severity, Subject: row.Subject, Object: row.SubjectName,
		Cause: row.Plain, Text: row.Plain,
	}
	if row.ProjectID != nil {
		e.Project = *row.ProjectID
	}
	if row.RaisedAt != nil {
		e.RaisedAt = *row.RaisedAt
	}
	if row.Kind == fleet.AlarmAcknowledged {
		e.Actor, e.Note = row.Actor, row.Note
	}
	if r.all {
		e.Host, e.Cause, e.Text, e.Remedy = row.Host, row.Cause, row.Text, row.Remedy
	}
	return e, r.all || e.Project != "" && r.projects[e.Project]
}

// Claimed is a message that this portal is to send now.
type Claimed struct {
	ID       channel.DeliveryID
	Attempts int // with this one
	receiver delivery.Receiver
	message  channel.Message
	envelope channel.Envelope
	refusal  error // why it cannot be sent; nil: it can
}

// ClaimDeliveries leases messages whose time has come, at most one of each channel. The caller passes each of them to
// SendDelivery.
func (cs *Channels) ClaimDeliveries(ctx context.Context, a fleet.Actor) ([]Claimed, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	var rows []db.LeaseDeliveriesRow
	err := cs.store.Tx(ctx, func(q *db.Queries) error {
		// The lease is a statement of its own, which is left out if nothing is due, because it wakes pages and portals.
		due, err := q.DueDeliveries(ctx, maxClaimed)
		if err != nil || len(due) == 0 {
			return err
		}
		rows, err = q.LeaseDeliveries(ctx, db.LeaseDeliveriesParams{Ids: store.ToStrings(due), Lease: leaseTime})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Claimed, 0, len(rows))
	for _, r := range rows {
		c := Claimed{
			ID: r.ID, Attempts: int(r.Attempts), message: r.Message, envelope: channel.Envelope{ID: r.ID, Channel: r.Name, At: r.CreatedAt},
			receiver: delivery.Receiver{OfFleet: r.ProjectID == nil && r.UserID == nil},
		}
		c.receiver.Spec, c.refusal = cs.open(r.ChannelID, r.Spec, r.ByKey, r.Sealed)
		out = append(out, c)
	}
	return out, nil
}

// SendDelivery sends a claimed message and records the result. It takes at most leaseTime.
func (cs *Channels) SendDelivery(ctx context.Context, a fleet.Actor, c Claimed) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	failed := c.refusal
	if failed == nil {
		failed = cs.sender.Send(ctx, c.receiver, c.message, c.envelope)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the portal stops; the lease ends and another attempt begins
	}
	end := db.EndDeliveryParams{ID: c.ID, Attempts: int32(c.Attempts), Sent: failed == nil} //nolint:gosec // at most channel.MaxAttempts
	if failed != nil {
		end.Error = failed.Error()
		wait := channel.RetryWait(c.Attempts)
		e, ok := errors.AsType[*delivery.Error](failed)
		if ok {
			wait = max(wait, e.RetryAfter)
		}
		if (!ok || !e.Permanent) && c.Attempts < channel.MaxAttempts && !c.message.Test {
			at := time.Now().Add(wait)
			end.DueAt = &at
		}
	}
	_, err := cs.store.EndDelivery(ctx, end)
	return store.UserError(err)
}
