package healthpolicies

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
	"quantix/internal/healthpolicy/expression"
	"quantix/internal/policy"
)

const (
	maxMatchPage = 500
	maxOfHost    = 100
)

func matchFromRow(r db.HealthMatchesOfRow) healthpolicy.Match {
	return healthpolicy.Match{
		ID: r.ID, PolicyID: r.PolicyID, PolicyName: r.PolicyName, HostID: r.HostID, HostName: r.HostName, EventID: r.EventID, Check: r.CheckName, Object: r.Object, Code: r.Code, Text: r.Text,
		Severity: r.Severity, Actions: r.Actions, DryRun: r.DryRun, Momentary: r.Momentary, State: r.State, Reason: r.Reason, Since: r.Since, LastAt: r.LastAt, Count: r.Count, EndedAt: r.EndedAt, ReleasedBy: r.ReleasedBy,
	}
}

func actFromRow(r db.HealthActsRow) healthpolicy.Act {
	return healthpolicy.Act{HostID: r.HostID, HostName: r.HostName, Act: r.Act, State: r.State, Policies: r.Policies, Cause: r.Cause, Since: r.Since}
}

// HealthMatchesOfPolicy returns at most n matches of a policy, the newest first, with IDs below before; 0: from the newest.
func (ps *Policies) HealthMatchesOfPolicy(ctx context.Context, a fleet.Actor, id healthpolicy.ID, before int64, n int) ([]healthpolicy.Match, error) {
	if _, err := ps.GetHealthPolicy(ctx, a, id); err != nil {
		return nil, err
	}
	return ps.matches(ctx, db.HealthMatchesOfParams{PolicyID: string(id), Before: before, Most: int32(min(max(n, 1), maxMatchPage))}) //nolint:gosec // bounded
}

func (ps *Policies) matches(ctx context.Context, p db.HealthMatchesOfParams) ([]healthpolicy.Match, error) {
	rows, err := ps.store.HealthMatchesOf(ctx, p)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]healthpolicy.Match, len(rows))
	for i, r := range rows {
		out[i] = matchFromRow(r)
	}
	return out, nil
}

// HealthMatchesOfHost returns the open matches of a host, and what policies did to it.
func (ps *Policies) HealthMatchesOfHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (healthpolicy.OfHost, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return healthpolicy.OfHost{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return healthpolicy.OfHost{}, err
	}
	if _, err := ps.store.HostName(ctx, id); err != nil {
		return healthpolicy.OfHost{}, store.NotFoundError(err, "host")
	}
	rows, err := ps.store.OpenHealthMatches(ctx, db.OpenHealthMatchesParams{HostID: string(id), Most: maxOfHost})
	if err != nil {
		return healthpolicy.OfHost{}, store.UserError(err)
	}
	acts, err := ps.store.HealthActs(ctx, string(id))
	if err != nil {
		return healthpolicy.OfHost{}, store.UserError(err)
	}
	out := healthpolicy.OfHost{Matches: make([]healthpolicy.Match, len(rows)), Acts: make([]healthpolicy.Act, len(acts))}
	for i, r := range rows {
		out.Matches[i] = matchFromRow(db.HealthMatchesOfRow(r))
	}
	for i, r := range acts {
		out.Acts[i] = actFromRow(r)
	}
	return out, nil
}

const (
	trialDays   = 7
	trialEvents = 5000
)

// TryHealthPolicy evaluates an expression for the stored events of the last 7 days and for the conditions that hold now. It
// changes nothing.
func (ps *Policies) TryHealthPolicy(ctx context.Context, a fleet.Actor, text string) (healthpolicy.Trial, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return healthpolicy.Trial{}, err
	}
	compiled, err := expression.Compile(normal(healthpolicy.Spec{Expression: text}).Expression)
	if err != nil {
		var checks fleet.Checks
		checks.Add("spec.expression", "%s", err.Error())
		return healthpolicy.Trial{}, checks.Err()
	}
	rows, err := ps.store.RecentHostEvents(ctx, db.RecentHostEventsParams{Days: trialDays, Most: trialEvents + 1})
	if err != nil {
		return healthpolicy.Trial{}, store.UserError(err)
	}
	out := healthpolicy.Trial{Matches: []healthevent.Event{}, NowHosts: []string{}}
	limited, cancel := expression.WithTimeLimit(ctx)
	defer cancel()
	for i, r := range rows {
		if i == trialEvents || limited.Err() != nil {
			out.More = true
			break
		}
		if r.Kind == healthevent.Cleared || r.Kind == healthevent.Resolved {
			continue
		}
		out.Events++
		host := expression.HostOf(r.HostName, r.ClusterName, r.HostSpec, r.HostLabels)
		e := healthevent.Event{
			ID: r.ID, HostID: r.HostID, HostName: r.HostName, Kind: r.Kind, Check: r.CheckName, At: r.At, Repeats: r.Repeats,
			Finding: healthevent.Finding{Object: r.Object, Code: r.Code, Severity: r.Severity, Text: r.Text, Values: r.Numbers, Attributes: r.Attributes},
		}
		r := compiled.Evaluate(limited, e, &host)
		out.Add(e, r.Matches, r.Missing, r.Reason)
	}
	found, hosts, _, err := matchConditions(ctx, ps.store.Queries, healthpolicy.Policy{}, compiled)
	if err != nil {
		return healthpolicy.Trial{}, store.UserError(err)
	}
	total, err := ps.store.CountHosts(ctx)
	if err != nil {
		return healthpolicy.Trial{}, store.UserError(err)
	}
	out.Hosts, out.NowCounts = int(total), len(found)
	for _, m := range found {
		if name := hosts[m.HostID]; name != "" {
			out.NowHosts = append(out.NowHosts, name)
			delete(hosts, m.HostID)
		}
	}
	return out, nil
}
