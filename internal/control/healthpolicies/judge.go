package healthpolicies

import (
	"context"
	"fmt"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
	"quantix/internal/healthpolicy/expression"
)

// maxConditions is the maximum number of open conditions that a new or changed policy is applied to.
const maxConditions = 50_000

// maxOfPolicy is how long one policy may take for all events of a report, so that it leaves time for the others.
const maxOfPolicy = 100 * time.Millisecond

// enabled is a compiled policy that judges events.
type enabled struct {
	healthpolicy.Policy
	compiled *expression.Expression // nil: Policy.LastError says why it does not compile
}

// cache has the enabled policies of one version of health_settings.
type cache struct {
	mu       sync.Mutex
	version  int64
	policies []enabled
	one      map[healthpolicy.ID]enabled // of the previous version, to compile only what has changed
}

// of returns the enabled policies of the version, as the transaction of q sees them.
func (c *cache) of(ctx context.Context, q *db.Queries, version int64) ([]enabled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == version {
		return c.policies, nil
	}
	rows, err := q.AllHealthPolicies(ctx)
	if err != nil {
		return nil, err
	}
	var all []enabled
	one := map[healthpolicy.ID]enabled{}
	for _, r := range rows {
		if r.Spec.Disabled {
			continue
		}
		e := enabled{Policy: healthpolicy.Policy{ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation}}
		if had, known := c.one[r.ID]; known && had.Generation == r.Generation {
			e.compiled, e.LastError = had.compiled, had.LastError
		} else if e.compiled, err = expression.Compile(r.Spec.Expression); err != nil {
			e.LastError = err.Error()
		}
		all, one[r.ID] = append(all, e), e
	}
	if version > c.version {
		c.version, c.policies, c.one = version, all, one
	}
	return all, nil
}

// newMatch is a match as AddHealthMatches reads it.
type newMatch struct {
	PolicyID  healthpolicy.ID      `json:"policyId"`
	HostID    fleet.HostID         `json:"hostId"`
	Check     string               `json:"check"`
	Object    string               `json:"object"`
	Code      string               `json:"code"`
	EventID   int64                `json:"eventId"`
	Text      string               `json:"text"`
	Severity  fleet.AlarmSeverity  `json:"severity"`
	Actions   healthpolicy.Actions `json:"actions"`
	DryRun    bool                 `json:"dryRun"`
	Momentary bool                 `json:"momentary"`
	Count     int64                `json:"count"`
}

func matchOf(p healthpolicy.Policy, e healthevent.Event) newMatch {
	return newMatch{
		PolicyID: p.ID, HostID: e.HostID, Check: e.Check, Object: e.Object, Code: e.Code, EventID: e.ID, Text: e.Text, Severity: p.Spec.Severity, Actions: p.Spec.Actions,
		DryRun: p.Spec.DryRun, Momentary: e.Kind == healthevent.Occurred && e.Severity == fleet.AlarmInfo, Count: max(e.Repeats, 1),
	}
}

// endedKey is a condition as EndHealthMatches reads it.
type endedKey struct {
	PolicyID healthpolicy.ID `json:"policyId,omitempty"` // empty: of all policies
	healthevent.Key
}

type eventPolicies struct {
	ID    int64    `json:"id"`
	Names []string `json:"names"`
}

// judgement is what the enabled policies say about the events of a host.
type judgement struct {
	ended    []endedKey
	matches  []newMatch
	names    []eventPolicies
	failures map[healthpolicy.ID]string
}

// judge evaluates the policies for the events of a host. A policy whose evaluation fails matches nothing and does not
// affect the others.
func judge(ctx context.Context, policies []enabled, host expression.Host, events []healthevent.Event) judgement {
	ctx, cancel := expression.WithTimeLimit(ctx)
	defer cancel()
	out := judgement{failures: map[healthpolicy.ID]string{}}
	type key struct {
		of healthpolicy.ID
		healthevent.Key
	}
	place := map[key]int{}
	spent := map[healthpolicy.ID]time.Duration{}
	for _, e := range events {
		if e.Kind == healthevent.Cleared || e.Kind == healthevent.Resolved {
			out.ended = append(out.ended, endedKey{Key: e.Key()})
			continue
		}
		var names []string
		for _, p := range policies {
			if p.compiled == nil {
				out.failures[p.ID] = p.LastError
				continue
			}
			if spent[p.ID] > maxOfPolicy {
				out.failures[p.ID] = "The policy took too long for the events of one report, so that it was not evaluated for all of them. Simplify its expression."
				continue
			}
			began := time.Now()
			r := p.compiled.Evaluate(ctx, e, &host)
			spent[p.ID] += time.Since(began)
			if r.Reason != "" && !r.Missing {
				out.failures[p.ID] = fmt.Sprintf("%s Event: %s on %s.", r.Reason, healthpolicy.CauseOf(e.Key()), host.Name)
			}
			switch {
			case r.Matches:
				names = append(names, p.Name)
				m, k := matchOf(p.Policy, e), key{p.ID, e.Key()}
				at, twice := place[k]
				if !twice {
					place[k] = len(out.matches)
					out.matches = append(out.matches, m)
					continue
				}
				m.Count += out.matches[at].Count
				m.Momentary = m.Momentary && out.matches[at].Momentary
				out.matches[at] = m
			case e.Kind == healthevent.Changed && r.Reason == "":
				out.ended = append(out.ended, endedKey{p.ID, e.Key()})
			}
		}
		if names != nil {
			out.names = append(out.names, eventPolicies{e.ID, names})
		}
	}
	return out
}

// Judge judges health events. It keeps the compiled policies, and is safe for concurrent use.
type Judge struct{ compiled cache }

// NewJudge returns a Judge.
func NewJudge() *Judge { return &Judge{} }

// Judge evaluates all enabled policies for new events of a host, in the transaction that stores the events.
func (j *Judge) Judge(ctx context.Context, q *db.Queries, host fleet.HostID, events []healthevent.Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := q.ShareHealthPolicies(ctx); err != nil {
		return err
	}
	h, err := q.JudgedHost(ctx, host)
	if err != nil {
		return store.NotFoundError(err, "host")
	}
	policies, err := j.compiled.of(ctx, q, h.Version)
	if err != nil {
		return err
	}
	return judge(ctx, policies, expression.HostOf(h.Name, h.ClusterName, h.Spec, h.Labels), events).write(ctx, q, host)
}

func (j judgement) write(ctx context.Context, q *db.Queries, host fleet.HostID) error {
	if len(j.ended) > 0 {
		if err := q.EndHealthMatches(ctx, db.EndHealthMatchesParams{HostID: host, Keys: mustJSON(j.ended)}); err != nil {
			return err
		}
	}
	if len(j.matches) > 0 {
		if err := q.AddHealthMatches(ctx, mustJSON(j.matches)); err != nil {
			return err
		}
	}
	if len(j.names) > 0 {
		if err := q.SetEventPolicies(ctx, mustJSON(j.names)); err != nil {
			return err
		}
	}
	return recordFailures(ctx, q, j.failures)
}

func recordFailures(ctx context.Context, q *db.Queries, failures map[healthpolicy.ID]string) error {
	if len(failures) == 0 {
		return nil
	}
	var p db.SetHealthPolicyErrorsParams
	for id, text := range failures {
		p.Ids, p.Texts = append(p.Ids, string(id)), append(p.Texts, text)
	}
	return q.SetHealthPolicyErrors(ctx, p)
}

// eventOf returns the event that an open condition stands for.
func eventOf(r db.OpenConditionsRow) healthevent.Event {
	e := healthevent.Event{
		HostID: r.HostID, HostName: r.HostName, Kind: healthevent.Raised, Check: r.CheckName, At: r.LastAt, Repeats: r.Count,
		Finding: healthevent.Finding{Object: r.Object, Code: r.Code, Severity: r.Severity, Text: r.Text, Values: r.Numbers, Attributes: r.Attributes},
	}
	if r.Occurrence {
		e.Kind = healthevent.Occurred
	}
	return e
}

// matchConditions returns the matches of a policy among the open conditions of all hosts.
func matchConditions(ctx context.Context, q *db.Queries, p healthpolicy.Policy, compiled *expression.Expression) (matches []newMatch, hosts map[fleet.HostID]string, failure string, err error) {
	rows, err := q.OpenConditions(ctx, maxConditions)
	if err != nil {
		return nil, nil, "", err
	}
	hosts = map[fleet.HostID]string{}
	ctx, cancel := expression.WithTimeLimit(ctx)
	defer cancel()
	for _, r := range rows {
		host := expression.HostOf(r.HostName, r.ClusterName, r.HostSpec, r.HostLabels)
		e := eventOf(r)
		result := compiled.Evaluate(ctx, e, &host)
		if result.Reason != "" && !result.Missing {
			failure = fmt.Sprintf("%s Condition: %s on %s.", result.Reason, healthpolicy.CauseOf(e.Key()), r.HostName)
		}
		if result.Matches {
			matches, hosts[r.HostID] = append(matches, matchOf(p, e)), r.HostName
		}
	}
	return matches, hosts, failure, nil
}

// judgeConditions applies a new or changed policy to the open conditions of all hosts. Without confirm it is refused if it
// would change more hosts than the settings allow at the same time.
func judgeConditions(ctx context.Context, q *db.Queries, p healthpolicy.Policy, compiled *expression.Expression, confirm bool) error {
	matches := []newMatch{}
	if !p.Spec.Disabled {
		found, hosts, failure, err := matchConditions(ctx, q, p, compiled)
		if err != nil {
			return err
		}
		if !confirm && !p.Spec.DryRun && p.Spec.Actions.ChangesHosts() {
			if err := confirmImpact(ctx, q, p, hosts); err != nil {
				return err
			}
		}
		if failure != "" {
			if err := recordFailures(ctx, q, map[healthpolicy.ID]string{p.ID: failure}); err != nil {
				return err
			}
		}
		matches = append(matches, found...)
	}
	if err := q.EndOtherHealthMatches(ctx, db.EndOtherHealthMatchesParams{PolicyID: p.ID, Matches: mustJSON(matches)}); err != nil {
		return err
	}
	if len(matches) == 0 {
		return nil
	}
	return q.AddHealthMatches(ctx, mustJSON(matches))
}

// confirmImpact asks for a confirmation if the policy would change many hosts that it does not yet change.
func confirmImpact(ctx context.Context, q *db.Queries, p healthpolicy.Policy, hosts map[fleet.HostID]string) error {
	most, err := q.HealthMaxHosts(ctx)
	if err != nil {
		return err
	}
	acts, err := q.HealthActs(ctx, "")
	if err != nil {
		return err
	}
	fresh := len(hosts)
	known := map[fleet.HostID]bool{}
	for _, a := range acts {
		if hosts[a.HostID] != "" && !known[a.HostID] {
			known[a.HostID] = true
			fresh--
		}
	}
	if fresh <= int(most) {
		return nil
	}
	total, err := q.CountHosts(ctx)
	if err != nil {
		return err
	}
	return confirmationError("This policy would %s %d of %s now, because their conditions match.", verb(p.Spec.Actions), len(hosts), fleet.CountWithUnit(int(total), "host"))
}

// verb is the strongest action on hosts: "drain".
func verb(a healthpolicy.Actions) string {
	switch {
	case a.Drain:
		return "drain"
	case a.Evacuates():
		return "taint and evacuate"
	case a.Cordon:
		return "cordon"
	}
	return "taint"
}
