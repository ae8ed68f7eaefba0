package assign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// maxHostsByLabel is the maximum number of hosts that one transaction assigns by label. Further hosts follow in the
// next transaction.
const maxHostsByLabel = 200

// maxHostsNamed is the number of hosts listed by name in the audit log.
const maxHostsNamed = 8

// SetSelector sets the object's selector and assigns the object to matching hosts, including hosts that were excluded
// before. An empty selector removes the old one. more reports whether further matching hosts remain.
func (o AssignableObject) SetSelector(ctx context.Context, q *db.Queries, a fleet.Actor, s fleet.Selector) (tasks []fleet.TaskID, more bool, err error) {
	old, err := q.SelectorOf(ctx, db.SelectorOfParams{Noun: o.assignable.typ, ObjectID: o.id})
	if err != nil || old == s.String() {
		return nil, false, err
	}
	if s.IsEmpty() {
		if err := q.DropSelector(ctx, db.DropSelectorParams{Noun: o.assignable.typ, ObjectID: o.id}); err != nil {
			return nil, false, err
		}
		return nil, false, o.Audit(ctx, q, a, "selector", "none, was "+old)
	}
	if err := q.SetSelector(ctx, db.SetSelectorParams{Noun: o.assignable.typ, ObjectID: o.id, Selector: s.String(), Pairs: s.Pairs, Keys: s.Keys}); err != nil {
		return nil, false, err
	}
	if err := q.IncludeAllHosts(ctx, db.IncludeAllHostsParams{Noun: o.assignable.typ, ObjectID: o.id}); err != nil {
		return nil, false, err
	}
	if err := o.Audit(ctx, q, a, "selector", s.String()); err != nil {
		return nil, false, err
	}
	return o.assignToMatchingHosts(ctx, q, s.String())
}

// assignToMatchingHosts assigns the object to hosts that match the selector. It excludes hosts that cannot have the object,
// with the reason, so that they do not block the others.
func (o AssignableObject) assignToMatchingHosts(ctx context.Context, q *db.Queries, selector string) (tasks []fleet.TaskID, more bool, err error) {
	rows, err := q.LabelledWithout(ctx, db.LabelledWithoutParams{Noun: o.assignable.typ, ObjectID: o.id, Most: maxHostsByLabel})
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = string(r.ID)
	}
	more = len(rows) == maxHostsByLabel && rows[len(rows)-1].Fresh
	known, err := q.HostsNamed(ctx, ids) // locks the hosts' rows
	if err != nil {
		return nil, false, err
	}
	hosts := make([]string, len(known))
	names := make(map[string]string, len(known))
	for i, h := range known {
		hosts[i] = string(h.ID)
		names[hosts[i]] = h.Name
	}
	var no refusedHosts
	fit, err := o.suitableHosts(ctx, q, hosts, &no)
	if err != nil {
		return nil, false, err
	}
	if len(no.hosts) > 0 {
		if err := q.ExcludeHosts(ctx, db.ExcludeHostsParams{Noun: o.assignable.typ, ObjectID: o.id, Hosts: no.hosts, Whys: no.reasons}); err != nil {
			return nil, false, err
		}
	}
	if len(fit) == 0 {
		return nil, more, nil
	}
	to, on := make([]fleet.HostID, len(fit)), []string{}
	for i, h := range fit {
		to[i] = fleet.HostID(h)
		if len(on) < maxHostsNamed {
			on = append(on, names[h])
		}
	}
	if n := len(fit) - len(on); n > 0 {
		on = append(on, fmt.Sprintf("and %d more", n))
	}
	if tasks, err = o.Assign(ctx, q, fleet.SystemActor, to); err != nil {
		return nil, false, err
	}
	return tasks, more, o.Audit(ctx, q, fleet.SystemActor, "assign", "by label "+selector+": to "+strings.Join(on, ", "))
}

// refusedHosts are hosts that cannot have an object, with the reasons.
type refusedHosts struct{ hosts, reasons []string }

// suitableHosts returns the hosts that can have the object, and adds the others to refused. It finds unsuitable hosts
// by bisection. If only one host can have the object but several match, it returns none, because an administrator must
// choose.
func (o AssignableObject) suitableHosts(ctx context.Context, q *db.Queries, hosts []string, refused *refusedHosts) ([]string, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	err := o.assignable.checkHostsFit(ctx, q, o, hosts)
	refusal, ok := errors.AsType[*fleet.Error](err)
	switch {
	case err == nil:
		return hosts, nil
	case !ok || refusal.Code != fleet.Invalid:
		return nil, err
	case len(hosts) == 1 || o.oneHostReason != "":
		why := refusal.Message
		if len(refusal.Fields) > 0 {
			why = refusal.Fields[0].Message
		}
		for _, h := range hosts {
			refused.hosts, refused.reasons = append(refused.hosts, h), append(refused.reasons, why)
		}
		return nil, nil
	}
	half := len(hosts) / 2
	first, err := o.suitableHosts(ctx, q, hosts[:half], refused)
	if err != nil {
		return nil, err
	}
	second, err := o.suitableHosts(ctx, q, hosts[half:], refused)
	return slices.Concat(first, second), err
}

// SetSelector sets the selector of an object from text.
func (n *AssignableType) SetSelector(ctx context.Context, s *store.Store, a fleet.Actor, id, text string) (fleet.ByLabel, error) {
	var more bool
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		selector, err := ParseSelector(text)
		if err != nil {
			return err
		}
		_, more, err = o.SetSelector(ctx, q, a, selector)
		return err
	})
	if err != nil {
		return fleet.ByLabel{}, err
	}
	out, err := n.AssignmentByLabel(ctx, s, a, id)
	out.Waiting = more
	return out, err
}

// ParseSelector parses a selector. Errors refer to the field "selector".
func ParseSelector(text string) (fleet.Selector, error) {
	var checks fleet.Checks
	selector := fleet.ParseSelector(&checks, "selector", text)
	return selector, checks.Err()
}

// AssignmentByLabel returns the object's selector, the matching hosts that do not have the object, and the hosts that have it but
// do not match.
func (n *AssignableType) AssignmentByLabel(ctx context.Context, s *store.Store, a fleet.Actor, id string) (fleet.ByLabel, error) {
	var out fleet.ByLabel
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(id, n.typeLabel()); err != nil {
		return out, err
	}
	selector, err := s.SelectorOf(ctx, db.SelectorOfParams{Noun: n.typ, ObjectID: id})
	if err != nil {
		return out, store.NotFoundError(err, n.typeLabel())
	}
	out = fleet.ByLabel{Selector: selector, LeftOut: []fleet.LeftOutHost{}, Unmatched: []fleet.NamedHost{}}
	if selector == "" {
		return out, nil
	}
	left, err := s.LeftOut(ctx, db.LeftOutParams{Noun: n.typ, ObjectID: id})
	if err != nil {
		return out, store.UserError(err)
	}
	for _, r := range left {
		out.LeftOut = append(out.LeftOut, fleet.LeftOutHost{NamedHost: fleet.NamedHost{HostID: r.ID, HostName: r.Name}, Why: fleet.WhyNotAssigned(r.Why)})
		out.LeftOutCount = int(r.AllOfThem)
	}
	beside, err := s.AssignedBeside(ctx, db.AssignedBesideParams{Noun: n.typ, ObjectID: id})
	for _, r := range beside {
		out.Unmatched = append(out.Unmatched, fleet.NamedHost{HostID: r.ID, HostName: r.Name})
		out.UnmatchedCount = int(r.AllOfThem)
	}
	return out, store.UserError(err)
}

// PreviewSelector returns the hosts that a selector matches now, and whether each has the object. An empty id means a
// new object.
func (n *AssignableType) PreviewSelector(ctx context.Context, s *store.Store, a fleet.Actor, id, text string) (fleet.MatchingHosts, error) {
	var out fleet.MatchingHosts
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return out, err
	}
	if id != "" {
		if err := store.CheckID(id, n.typeLabel()); err != nil {
			return out, err
		}
	}
	selector, err := ParseSelector(text)
	if err != nil || selector.IsEmpty() {
		return out, err
	}
	pairs, err := json.Marshal(selector.Pairs)
	if err != nil {
		return out, err
	}
	rows, err := s.HostsLabelled(ctx, db.HostsLabelledParams{Noun: n.typ, ObjectID: id, Pairs: pairs, Keys: selector.Keys})
	for _, r := range rows {
		out.Hosts = append(out.Hosts, fleet.MatchingHost{NamedHost: fleet.NamedHost{HostID: r.ID, HostName: r.Name}, Has: r.Has})
		out.All, out.Without = int(r.AllOfThem), int(r.Without)
	}
	return out, store.UserError(err)
}

// AssignByLabels assigns objects to hosts that match their selectors. Each object has its own transactions, so that an
// error for one does not affect the others. It stops after 20 s, and the next pass continues.
func AssignByLabels(ctx context.Context, s *store.Store, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	work, err := s.LabelWork(ctx)
	if err != nil {
		return fmt.Errorf("read the missing assignments by label: %w", store.UserError(err))
	}
	until := time.Now().Add(20 * time.Second)
	var failed error
	for _, w := range work {
		n := AssignableTypeByName(w.Noun)
		for more := n != nil; more && time.Now().Before(until); {
			err := s.RunPass(ctx, a, "labels", func(q *db.Queries) (err error) {
				more, err = n.assignObjectByLabels(ctx, q, w.ObjectID)
				return err
			})
			if err != nil {
				failed, more = errors.Join(failed, fmt.Errorf("%s %s: %w", w.Noun, w.ObjectID, err)), false
			}
		}
	}
	return failed
}

// assignObjectByLabels works like AssignByLabels for one object. It skips an object that is being deleted.
func (n *AssignableType) assignObjectByLabels(ctx context.Context, q *db.Queries, id string) (more bool, err error) {
	o, err := n.lockObject(ctx, q, id)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && o.changeRefusal != "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	o.assignable, o.id = n, id
	selector, err := q.SelectorOf(ctx, db.SelectorOfParams{Noun: n.typ, ObjectID: id})
	if err != nil || selector == "" {
		return false, err
	}
	_, more, err = o.assignToMatchingHosts(ctx, q, selector)
	return more, err
}
