package healthpolicies

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/channel"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/policy"
)

const (
	maxOpenMatches  = 20_000 // that one pass looks at
	matchAge        = 30 * 24 * time.Hour
	maxSweptMatches = 5000
)

// ActOnHealth does what the open matches of policies want: it taints and cordons hosts, undoes what no match wants any
// more, and sends messages. It adds the default policies first.
func (ps *Policies) ActOnHealth(ctx context.Context, a fleet.Actor) error {
	return ps.store.RunPass(ctx, a, "health policies", func(q *db.Queries) error {
		if err := addDefaults(ctx, q); err != nil {
			return err
		}
		if err := q.EndHealthMatchesWithoutCondition(ctx); err != nil {
			return err
		}
		s, err := readState(ctx, q)
		if err != nil {
			return err
		}
		for _, id := range s.hostsInOrder() {
			if err := s.settle(ctx, q, a, id); err != nil {
				return err
			}
		}
		if err := s.notify(ctx, q); err != nil {
			return err
		}
		if err := s.write(ctx, q); err != nil {
			return err
		}
		_, err = q.SweepHealthMatches(ctx, db.SweepHealthMatchesParams{Age: matchAge, Most: maxSweptMatches})
		return err
	})
}

// state is what policies want and have done.
type state struct {
	matches map[fleet.HostID][]healthpolicy.Match
	all     []db.OpenHealthMatchesRow
	acts    map[fleet.HostID][]healthpolicy.Act
	room    healthpolicy.Room
	changed map[int64]changedMatch
}

type changedMatch struct {
	ID       int64              `json:"id"`
	State    healthpolicy.State `json:"state"`
	Reason   string             `json:"reason"`
	Notified bool               `json:"notified"`
}

func readState(ctx context.Context, q *db.Queries) (*state, error) {
	s := &state{matches: map[fleet.HostID][]healthpolicy.Match{}, acts: map[fleet.HostID][]healthpolicy.Act{}, changed: map[int64]changedMatch{}}
	var err error
	if s.all, err = q.OpenHealthMatches(ctx, db.OpenHealthMatchesParams{Most: maxOpenMatches}); err != nil {
		return nil, err
	}
	for _, r := range s.all {
		s.matches[r.HostID] = append(s.matches[r.HostID], matchFromRow(db.HealthMatchesOfRow(r)))
	}
	rows, err := q.HealthActs(ctx, "")
	if err != nil {
		return nil, err
	}
	most, err := q.HealthMaxHosts(ctx)
	if err != nil {
		return nil, err
	}
	s.room = healthpolicy.Room{Max: int(most), Hosts: map[fleet.HostID]bool{}}
	for _, r := range rows {
		act := actFromRow(r)
		s.acts[r.HostID] = append(s.acts[r.HostID], act)
		if act.State == healthpolicy.Held && healthpolicy.IsEvacuation(act.Act) {
			s.room.Hosts[r.HostID] = true
		}
	}
	return s, nil
}

// hostsInOrder lists the hosts to settle: first those without open matches, whose room becomes free, then the others in
// the order of their first match.
func (s *state) hostsInOrder() (out []fleet.HostID) {
	for _, id := range slices.Sorted(maps.Keys(s.acts)) {
		if !slices.ContainsFunc(s.matches[id], healthpolicy.Match.Acts) {
			out = append(out, id)
		}
	}
	for _, r := range s.all {
		if !slices.Contains(out, r.HostID) {
			out = append(out, r.HostID)
		}
	}
	return out
}

// settle changes one host as its open matches want it.
func (s *state) settle(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.HostID) error {
	matches, acts := s.matches[id], s.acts[id]
	if len(acts) == 0 && !slices.ContainsFunc(matches, healthpolicy.Match.Acts) {
		d := healthpolicy.Decide(id, fleet.HostSpec{}, matches, nil, s.room)
		s.note(d)
		return nil
	}
	h, err := q.LockHost(ctx, id)
	if err != nil {
		return err
	}
	d := healthpolicy.Decide(id, h.Spec, matches, acts, s.room)
	s.note(d)
	for _, act := range d.Delete {
		if err := q.DeleteHealthAct(ctx, db.DeleteHealthActParams{HostID: id, Act: act}); err != nil {
			return err
		}
	}
	for _, act := range d.Set {
		if err := q.SetHealthAct(ctx, db.SetHealthActParams{HostID: id, Act: act.Act, State: act.State, Policies: act.Policies, Cause: act.Cause}); err != nil {
			return err
		}
	}
	changes := h.Spec.Changes(d.Spec)
	if len(changes) == 0 {
		return nil
	}
	if err := q.ChangeHost(ctx, db.ChangeHostParams{ID: id, Spec: d.Spec}); err != nil {
		return err
	}
	for _, act := range d.Added {
		changes = append(changes, fmt.Sprintf("health policy %s: %s because of %s", strings.Join(act.Policies, ", "), healthpolicy.ActText(act.Act), act.Cause))
	}
	for _, act := range d.Undone {
		changes = append(changes, fmt.Sprintf("health policy %s: %s undone", strings.Join(act.Policies, ", "), healthpolicy.ActText(act.Act)))
	}
	return store.Audit(ctx, q, a, "host.edit", fleet.SubjectHost(id), h.Name, strings.Join(changes, ", "))
}

func (s *state) note(d healthpolicy.Decision) {
	for id, u := range d.States {
		s.changed[id] = changedMatch{ID: id, State: u.State, Reason: u.Reason}
	}
}

// notify queues the messages of new matches, one message for each channel and pass.
func (s *state) notify(ctx context.Context, q *db.Queries) error {
	messages := map[channel.ID]*channel.Message{}
	refusals := map[channel.ID]string{}
	for _, r := range s.all {
		to := r.Actions.Notify
		if to == "" || r.Notified || r.DryRun || r.State == healthpolicy.Released {
			continue
		}
		if messages[to] == nil {
			messages[to] = &channel.Message{Detailed: true}
			c, err := q.HealthChannel(ctx, to)
			switch missing := fleet.CodeOf(store.NotFoundError(err, "channel")) == fleet.NotFound && err != nil; {
			case missing:
				refusals[to] = "No message was sent, because the channel was deleted."
			case err != nil:
				return err
			case c.Spec.Disabled:
				refusals[to] = fmt.Sprintf("No message was sent, because the channel %s is disabled.", c.Name)
			}
		}
		m := matchFromRow(db.HealthMatchesOfRow(r))
		messages[to].Add(channel.Event{
			Event: channel.PolicyMatched, At: r.Since, PolicyID: string(r.PolicyID), Rule: "Health policy " + r.PolicyName, Severity: r.Severity, Subject: fleet.SubjectHost(r.HostID),
			Object: r.HostName, Host: r.HostName, Cause: m.Cause(), Text: m.Cause() + ": " + r.Text + " The policy does: " + r.Actions.Text() + ".", RaisedAt: r.Since,
		})
		u, known := s.changed[r.ID]
		if !known {
			u = changedMatch{ID: r.ID, State: r.State, Reason: r.Reason}
		}
		u.Notified, u.Reason = true, strings.TrimSpace(u.Reason+" "+refusals[to])
		s.changed[r.ID] = u
	}
	for _, to := range slices.Sorted(maps.Keys(messages)) {
		if refusals[to] != "" {
			continue
		}
		m := *messages[to]
		add := db.AddDeliveryParams{ID: fleet.NewID[channel.DeliveryID](), ChannelID: to, Message: m, Summary: m.Summary(), Events: int32(len(m.Events) + m.More), DueAt: time.Now()} //nolint:gosec // bounded by maxOpenMatches
		if err := q.AddDelivery(ctx, add); err != nil {
			return err
		}
	}
	return nil
}

// write stores the states of matches. An empty statement is left out, because each one wakes pages.
func (s *state) write(ctx context.Context, q *db.Queries) error {
	if len(s.changed) == 0 {
		return nil
	}
	all := slices.SortedFunc(maps.Values(s.changed), func(x, y changedMatch) int { return cmp.Compare(x.ID, y.ID) })
	return q.SetHealthMatchStates(ctx, mustJSON(all))
}

// ReleaseHealthMatch undoes what a match did to its host, unless another match wants it too. The match stays without
// effect until its condition ends.
func (ps *Policies) ReleaseHealthMatch(ctx context.Context, a fleet.Actor, id int64) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	return ps.store.Tx(ctx, func(q *db.Queries) error {
		r, err := q.LockHealthMatch(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "match of a health policy")
		}
		m := matchFromRow(db.HealthMatchesOfRow(r))
		switch {
		case m.EndedAt != nil:
			return fleet.Errorf(fleet.Conflict, "This match has ended, and what it did is undone.")
		case m.State == healthpolicy.Released:
			return fleet.Errorf(fleet.Conflict, "This match was released by %s.", cmp.Or(m.ReleasedBy, "another user"))
		case !m.Acts():
			return fleet.Errorf(fleet.Conflict, "This match changes nothing on the host.")
		}
		if err := q.ReleaseHealthMatch(ctx, db.ReleaseHealthMatchParams{ID: id, ReleasedBy: a.Name, Reason: "Released by " + a.Name + "."}); err != nil {
			return err
		}
		s, err := readState(ctx, q)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, q, a, r.HostID); err != nil {
			return err
		}
		if err := s.write(ctx, q); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "host.releaseHealth", fleet.SubjectHost(r.HostID), r.HostName, fmt.Sprintf("health policy %s: %s", r.PolicyName, m.Cause()))
	})
}
