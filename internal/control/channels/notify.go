package channels

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/channel"
	"quantix/internal/control/store"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/request"
)

const (
	maxEventsPerPass = 20_000
	// MaxClaimed is the maximum number of messages that ClaimDeliveries returns.
	MaxClaimed  = 64
	deliveryAge = 30 * 24 * time.Hour
	maxSwept    = 5000
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
		asked, err := q.RequestsToNotify(ctx, maxEventsPerPass)
		if err != nil {
			return err
		}
		if len(events)+len(asked) > 0 {
			if err := addMessages(ctx, q, events, asked); err != nil {
				return err
			}
		}
		if len(asked) > 0 {
			if err := q.MarkRequestsNotified(ctx, idsOf(asked)); err != nil {
				return err
			}
		}
		if len(events) > 0 {
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

func addMessages(ctx context.Context, q *db.Queries, events []db.NewAlarmEventsRow, asked []db.RequestsToNotifyRow) error {
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
		of := readerOf(c.ProjectID, c.UserID, c.Role, c.Projects)
		p := open[c.ID]
		if p != nil && (p.message.Test || p.message.Unreadable || p.message.Detailed != of.all) {
			p = nil
		}
		var sent []channel.Event
		for _, row := range events {
			if e, ok := of.read(row); ok && (!row.Silenced || c.Spec.SendsSilenced(e)) && c.Spec.Wants(e) {
				sent = append(sent, e)
			}
		}
		for _, row := range asked {
			if e, ok := of.readRequest(row); ok && c.Spec.Wants(e) {
				sent = append(sent, e)
			}
		}
		for _, e := range sent {
			if p != nil && p.message.Full(c.Spec.Kind) {
				if err := p.write(ctx, q, c.ID); err != nil {
					return err
				}
				p = nil
			}
			due := c.Spec.Due(e, now)
			if p == nil {
				p = &pending{due: due, message: channel.Message{Detailed: of.all}}
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
	user     *fleet.Actor     // of a user's channel
	project  *fleet.ProjectID // of a project's channel
}

// readerOf returns the reader of a channel. role and projects are those of its user. Nobody sees projects that cannot be
// decoded, so that one user does not stop the others' messages.
func readerOf(project *fleet.ProjectID, user *fleet.UserID, role string, projects []byte) reader {
	switch {
	case project != nil:
		return reader{projects: map[fleet.ProjectID]bool{*project: true}, project: project}
	case user == nil:
		return reader{all: true}
	}
	roles, _ := store.DecodeProjectRoles(projects)
	a := fleet.Actor{UserID: *user, Role: fleet.Role(role), Projects: roles}
	r := reader{all: store.SeesHosts(a), projects: map[fleet.ProjectID]bool{}, user: &a}
	for id := range roles {
		r.projects[id] = policy.May(a, policy.VMSee, id)
	}
	return r
}

// restrict removes events from a message that its reader may not see any more, because roles can change while it waits. It
// reports whether anything is left.
func (r reader) restrict(m *channel.Message) bool {
	return r.all || m.Keep(func(e channel.Event) bool {
		return !m.Detailed && e.Host == "" && e.Remedy == "" && e.Project != "" && r.projects[e.Project]
	})
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

func idsOf(rows []db.RequestsToNotifyRow) (ids []string) {
	for _, r := range rows {
		ids = append(ids, string(r.ID))
	}
	return ids
}

// readRequest returns the event of a request, and whether the receiver gets it: of a new request, the fleet, the project
// and the users who may decide it; of a decision, the project and the user who made the request.
func (r reader) readRequest(row db.RequestsToNotifyRow) (channel.Event, bool) {
	e := channel.Event{
		Event: channel.RequestOpened, At: row.CreatedAt, Actor: row.RequestedBy, Note: row.Reason, RequestID: row.ID, Rule: "Request", Severity: fleet.AlarmInfo,
		Subject: fleet.SubjectOf(fleet.TypeRequest, row.ID), Object: row.ProjectName, Project: row.ProjectID, Cause: row.Name, Text: row.Name, RaisedAt: row.CreatedAt,
	}
	ofProject := r.project != nil && *r.project == row.ProjectID
	own := r.user != nil && row.UserID != nil && *row.UserID == r.user.UserID
	if row.State == request.Open {
		decides := r.user != nil && !own && policy.May(*r.user, row.Kind.Info().Decide, row.ProjectID)
		return e, ofProject || decides || r.all && r.user == nil
	}
	e.Event, e.Actor, e.Note, e.Text = channel.RequestDecided, row.DecidedBy, row.Comment, row.Name+" was "+string(row.State)
	if row.State == request.Expired {
		e.Text = row.Name + " has expired"
	}
	if e.Cause = e.Text; row.DecidedAt != nil {
		e.At = *row.DecidedAt
	}
	return e, ofProject || own
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
		due, err := q.DueDeliveries(ctx, MaxClaimed)
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
		switch {
		case c.message.Unreadable:
			c.refusal = &delivery.Error{Text: "Another version of the portal wrote this message, and this version cannot read it.", Permanent: true}
		case !readerOf(r.ProjectID, r.UserID, r.Role, r.Projects).restrict(&c.message):
			c.refusal = &delivery.Error{Text: "The user may not see the alarms of this message any more.", Permanent: true}
		}
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
		end.Error = storableText(failed.Error())
		wait := channel.RetryWait(c.Attempts)
		e, ok := errors.AsType[*delivery.Error](failed)
		if ok {
			wait = max(wait, e.RetryAfter)
		}
		if ok && len(e.Left) > 0 {
			next := c.message
			next.Left, next.Lost = e.Left, e.Lost
			encoded, err := json.Marshal(next)
			if err != nil {
				return err
			}
			end.NextMessage = encoded
		}
		if (!ok || !e.Permanent) && c.Attempts < channel.MaxAttempts && !c.message.Test {
			at := time.Now().Add(wait)
			end.DueAt = &at
		}
	}
	return cs.record(ctx, end)
}

// Limits of attempts at recording a result. The lease must last longer than all of them, and recordTime than a restart of
// the database.
const (
	recordTime  = leaseTime - delivery.Timeout - 10*time.Second
	recordRetry = time.Second
)

// record records the result of a message. It tries again for some time, because a message without a result is sent twice.
func (cs *Channels) record(ctx context.Context, end db.EndDeliveryParams) error {
	within, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	for {
		_, err := cs.store.EndDelivery(within, end)
		if err == nil {
			return nil
		}
		select {
		case <-within.Done():
			return store.UserError(err)
		case <-time.After(recordRetry):
		}
	}
}

// maxErrorBytes limits the stored error of a message.
const maxErrorBytes = 2000

// storableText returns a text that the database accepts.
func storableText(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxErrorBytes)], "\x00", ""), "")
}
