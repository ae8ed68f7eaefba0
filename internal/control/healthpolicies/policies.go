// Package healthpolicies has the use cases of health policies: it judges health events of hosts, and a pass taints,
// cordons and drains hosts, and notifies. See ADR 111.
package healthpolicies

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/channel"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/healthpolicy"
	"quantix/internal/healthpolicy/expression"
	"quantix/internal/policy"
)

// Policies has the use cases of health policies. Its exported methods are use cases of control.Control.
type Policies struct{ store *store.Store }

// New returns the Policies of the store.
func New(s *store.Store) *Policies { return &Policies{s} }

// PolicyInput is the input for a new or changed policy.
type PolicyInput struct {
	Name         string
	Spec         healthpolicy.Spec
	IfGeneration int64 // of a change: the expected generation; 0: not checked
	Confirm      bool  // the user has confirmed what the policy does to hosts now: see ConfirmationError
}

// ConfirmField is the field of the error that asks for a confirmation.
const ConfirmField = "confirm"

// compile checks the input and compiles its expression.
func (in PolicyInput) compile(ctx context.Context, q *db.Queries) (*expression.Expression, error) {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	e, err := expression.Compile(in.Spec.Expression)
	refusal := ""
	if err != nil {
		refusal = err.Error()
	}
	in.Spec.Check(&checks, refusal)
	if id := in.Spec.Actions.Notify; fleet.IsID(string(id)) {
		row, err := q.HealthChannel(ctx, id)
		switch {
		case fleet.CodeOf(store.NotFoundError(err, "channel")) == fleet.NotFound && err != nil:
			checks.Add("spec.actions.notify", "There is no such channel of the fleet. Channels of projects and users get no messages of policies.")
		case err != nil:
			return nil, err
		case row.Spec.Kind == channel.Alertmanager:
			checks.Add("spec.actions.notify", "Alertmanager gets alarms. Choose the action Alarm instead.")
		}
	}
	return e, checks.Err()
}

// normal returns the stored form of the spec.
func normal(s healthpolicy.Spec) healthpolicy.Spec {
	s.Expression = strings.TrimSpace(s.Expression)
	if s.Actions.Taint = strings.TrimSpace(s.Actions.Taint); s.Actions.Taint != "" {
		s.Actions.Taint = fleet.ParseTaint(s.Actions.Taint).Text()
	}
	return s
}

// ListHealthPolicies returns all policies, in the order of their evaluation.
func (ps *Policies) ListHealthPolicies(ctx context.Context, a fleet.Actor) ([]healthpolicy.Policy, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	return list(ctx, ps.store.Queries, "")
}

// GetHealthPolicy returns one policy.
func (ps *Policies) GetHealthPolicy(ctx context.Context, a fleet.Actor, id healthpolicy.ID) (healthpolicy.Policy, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return healthpolicy.Policy{}, err
	}
	if err := store.CheckID(id, "health policy"); err != nil {
		return healthpolicy.Policy{}, err
	}
	all, err := list(ctx, ps.store.Queries, id)
	if err == nil && len(all) == 0 {
		err = fleet.Errorf(fleet.NotFound, "There is no such health policy.")
	}
	if err != nil {
		return healthpolicy.Policy{}, err
	}
	return all[0], nil
}

func list(ctx context.Context, q *db.Queries, id healthpolicy.ID) ([]healthpolicy.Policy, error) {
	rows, err := q.ListHealthPolicies(ctx, string(id))
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]healthpolicy.Policy, len(rows))
	for i, r := range rows {
		out[i] = healthpolicy.Policy{
			ID: r.ID, Name: r.Name, Builtin: r.Builtin, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt, LastError: r.LastError, LastErrorAt: r.LastErrorAt,
			Matches: int(r.Recent), Open: int(r.Open), Acting: int(r.Acting),
		}
	}
	return out, nil
}

// CreateHealthPolicy creates a policy. It applies to the conditions that hold now as well.
func (ps *Policies) CreateHealthPolicy(ctx context.Context, a fleet.Actor, in PolicyInput) (healthpolicy.Policy, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return healthpolicy.Policy{}, err
	}
	in.Spec = normal(in.Spec)
	id := fleet.NewID[healthpolicy.ID]()
	err := ps.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockHealthPolicies(ctx); err != nil {
			return err
		}
		compiled, err := in.compile(ctx, q)
		if err != nil {
			return err
		}
		n, err := q.CountHealthPolicies(ctx)
		if err != nil {
			return err
		}
		if n >= healthpolicy.MaxPolicies {
			return fleet.Errorf(fleet.Conflict, "There are %d health policies, which is the maximum. Delete some first.", n)
		}
		if err := q.AddHealthPolicy(ctx, db.AddHealthPolicyParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return nameTakenError(err, in.Name)
		}
		p := healthpolicy.Policy{ID: id, Name: in.Name, Spec: in.Spec}
		if err := judgeConditions(ctx, q, p, compiled, in.Confirm); err != nil {
			return err
		}
		return audit(ctx, q, a, "health-policy.create", id, in.Name, strings.Join(healthpolicy.Policy{}.Changes(p), ", "))
	})
	if err != nil {
		return healthpolicy.Policy{}, err
	}
	return ps.GetHealthPolicy(ctx, a, id)
}

func nameTakenError(err error, name string) error {
	return store.NameTakenError(err, "health_policy_name_taken", "A health policy named %q exists already. Choose another name.", name)
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id healthpolicy.ID, name, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeHealthPolicy, id), name, detail)
}

// change calls do with the locked policy, while no event is judged.
func (ps *Policies) change(ctx context.Context, a fleet.Actor, id healthpolicy.ID, do func(q *db.Queries, p healthpolicy.Policy) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "health policy"); err != nil {
		return err
	}
	return ps.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.LockHealthPolicies(ctx); err != nil {
			return err
		}
		r, err := q.LockHealthPolicy(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "health policy")
		}
		return do(q, healthpolicy.Policy{ID: r.ID, Name: r.Name, Builtin: r.Builtin, Spec: r.Spec, Generation: r.Generation})
	})
}

// UpdateHealthPolicy replaces a policy's name and spec. Conditions that it no longer matches end, and what it did to
// their hosts is undone.
func (ps *Policies) UpdateHealthPolicy(ctx context.Context, a fleet.Actor, id healthpolicy.ID, in PolicyInput) (healthpolicy.Policy, error) {
	in.Spec = normal(in.Spec)
	err := ps.change(ctx, a, id, func(q *db.Queries, old healthpolicy.Policy) error {
		compiled, err := in.compile(ctx, q)
		if err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return store.ChangedMeanwhileError("health policy", old.Generation, in.IfGeneration)
		}
		to := old
		to.Name, to.Spec = in.Name, in.Spec
		changes := old.Changes(to)
		if len(changes) == 0 {
			return nil
		}
		if !in.Confirm && (to.Spec.Disabled && !old.Spec.Disabled || to.Spec.DryRun && !old.Spec.DryRun) {
			if err := confirmUndoing(ctx, q, old.Name); err != nil {
				return err
			}
		}
		if err := q.ChangeHealthPolicy(ctx, db.ChangeHealthPolicyParams{ID: id, Name: to.Name, Spec: to.Spec}); err != nil {
			return nameTakenError(err, to.Name)
		}
		if err := judgeConditions(ctx, q, to, compiled, in.Confirm); err != nil {
			return err
		}
		return audit(ctx, q, a, "health-policy.edit", id, to.Name, strings.Join(changes, ", "))
	})
	if err != nil {
		return healthpolicy.Policy{}, err
	}
	return ps.GetHealthPolicy(ctx, a, id)
}

// DeleteHealthPolicy deletes a policy with its matches. The next pass undoes its acts on hosts. Without confirm
// it is refused while there is something to undo.
func (ps *Policies) DeleteHealthPolicy(ctx context.Context, a fleet.Actor, id healthpolicy.ID, confirm bool) error {
	return ps.change(ctx, a, id, func(q *db.Queries, p healthpolicy.Policy) error {
		if !confirm {
			if err := confirmUndoing(ctx, q, p.Name); err != nil {
				return err
			}
		}
		if err := q.DeleteHealthPolicy(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "health-policy.delete", id, p.Name, "")
	})
}

// confirmationError asks for a confirmation of what the text says.
func confirmationError(format string, args ...any) error {
	var checks fleet.Checks
	checks.Add(ConfirmField, "%s", fmt.Sprintf(format, args...)+" Confirm this to go on.")
	return checks.Err()
}

// confirmUndoing asks for a confirmation if the policy has done something to hosts that only it wants.
func confirmUndoing(ctx context.Context, q *db.Queries, name string) error {
	undone, err := undoneBy(ctx, q, name)
	if err != nil || len(undone) == 0 {
		return err
	}
	var words []string
	for _, act := range undone {
		words = append(words, fmt.Sprintf("%s on %s", healthpolicy.ActText(act.Act), act.HostName))
	}
	const most = 8
	if n := len(words) - most; n > 0 {
		words = append(words[:most], fmt.Sprintf("%d more", n))
	}
	return confirmationError("This undoes what the policy did: %s.", strings.Join(words, ", "))
}

// UndoneWithoutHealthPolicy returns the taints, cordons and alarms that end if the policy is deleted or disabled.
func (ps *Policies) UndoneWithoutHealthPolicy(ctx context.Context, a fleet.Actor, id healthpolicy.ID) ([]healthpolicy.Act, error) {
	p, err := ps.GetHealthPolicy(ctx, a, id)
	if err != nil {
		return nil, err
	}
	return undoneBy(ctx, ps.store.Queries, p.Name)
}

func undoneBy(ctx context.Context, q *db.Queries, name string) (out []healthpolicy.Act, err error) {
	rows, err := q.HealthActs(ctx, "")
	for _, r := range rows {
		if r.State == healthpolicy.Held && len(r.Policies) == 1 && r.Policies[0] == name {
			out = append(out, actFromRow(r))
		}
	}
	return out, store.UserError(err)
}

// HealthPolicySettings are the settings of all policies.
type HealthPolicySettings struct {
	MaxHosts int `json:"maxHosts" doc:"How many hosts policies drain or taint NoExecute at the same time"`
}

// MaxMaxHosts limits HealthPolicySettings.MaxHosts.
const MaxMaxHosts = 1000

// GetHealthPolicySettings returns the settings of all policies.
func (ps *Policies) GetHealthPolicySettings(ctx context.Context, a fleet.Actor) (HealthPolicySettings, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return HealthPolicySettings{}, err
	}
	n, err := ps.store.HealthMaxHosts(ctx)
	return HealthPolicySettings{int(n)}, store.UserError(err)
}

// SetHealthPolicySettings changes the settings. A lower maximum undoes nothing.
func (ps *Policies) SetHealthPolicySettings(ctx context.Context, a fleet.Actor, in HealthPolicySettings) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	var checks fleet.Checks
	if in.MaxHosts < 0 || in.MaxHosts > MaxMaxHosts {
		checks.Add("maxHosts", "Enter a number of hosts from 0 to %d.", MaxMaxHosts)
	}
	if err := checks.Err(); err != nil {
		return err
	}
	return ps.store.Tx(ctx, func(q *db.Queries) error {
		was, err := q.HealthMaxHosts(ctx)
		if err != nil || int(was) == in.MaxHosts {
			return err
		}
		if err := q.SetHealthMaxHosts(ctx, int32(in.MaxHosts)); err != nil { //nolint:gosec // checked above
			return err
		}
		return store.Audit(ctx, q, a, "health-policy.settings", "", "health policies", fmt.Sprintf("maxHosts %d → %d", was, in.MaxHosts))
	})
}

// addDefaults adds the default policies that were never added. One whose name a user has taken is left out.
func addDefaults(ctx context.Context, q *db.Queries) error {
	defaults := healthpolicy.Defaults()
	var names []string
	for _, d := range defaults {
		names = append(names, d.Builtin)
	}
	n, err := q.CountHealthPolicyDefaults(ctx, names)
	if err != nil || int(n) == len(names) {
		return err
	}
	if err := q.LockHealthPolicies(ctx); err != nil {
		return err
	}
	fresh, err := q.AddHealthPolicyDefaults(ctx, names)
	if err != nil {
		return err
	}
	isNew := map[string]bool{}
	for _, b := range fresh {
		isNew[b] = true
	}
	for _, d := range defaults {
		if !isNew[d.Builtin] {
			continue
		}
		taken, err := q.HealthPolicyNameTaken(ctx, d.Name)
		if err != nil {
			return err
		}
		if taken {
			continue
		}
		compiled, err := expression.Compile(d.Spec.Expression)
		if err != nil {
			return fmt.Errorf("default policy %s: %w", d.Name, err)
		}
		p := healthpolicy.Policy{ID: fleet.NewID[healthpolicy.ID](), Name: d.Name, Spec: d.Spec}
		if err := q.AddHealthPolicy(ctx, db.AddHealthPolicyParams{ID: p.ID, Name: d.Name, Builtin: d.Builtin, Spec: d.Spec}); err != nil {
			return err
		}
		if err := judgeConditions(ctx, q, p, compiled, true); err != nil {
			return err
		}
	}
	return nil
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
