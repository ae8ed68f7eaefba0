package upgrades

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/release"
)

// RequestAgentUpgrade queues the upgrade of one host's agent.
func (u *Upgrades) RequestAgentUpgrade(ctx context.Context, a fleet.Actor, id fleet.HostID, to fleet.AgentUpgrade) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return fleet.Task{}, err
	}
	if err := checkVersion(to.Version); err != nil {
		return fleet.Task{}, err
	}
	offers, err := u.offers()
	if err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err = u.store.Tx(ctx, func(q *db.Queries) error {
		host, err := lockUpgradableHost(ctx, q, id, offers, to)
		if err != nil {
			return err
		}
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: id, Kind: fleet.HostAgentUpgrade, Subject: fleet.SubjectHost(id), SubjectName: host.Name, Args: fleet.JobArgs{Upgrade: &to},
		})
		if err != nil {
			return fmt.Errorf("queue the upgrade of an agent: %w", err)
		}
		if err := store.Audit(ctx, q, a, "host.upgradeAgent", fleet.SubjectHost(id), host.Name, auditDetail(host, to)); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, queued)
		return err
	})
	return task, err
}

func auditDetail(host fleet.HostView, to fleet.AgentUpgrade) string {
	detail := host.Status.AgentVersion + " → " + to.Version
	if to.AllowDowngrade {
		detail += ", downgrade allowed"
	}
	return detail
}

func checkVersion(version string) error {
	var checks fleet.Checks
	if !release.IsVersion(version) {
		checks.Add("version", "Choose the version.")
	}
	return checks.Err()
}

// lockUpgradableHost locks the host. It refuses if the host cannot take the release, or has an unfinished upgrade.
func lockUpgradableHost(ctx context.Context, q *db.Queries, id fleet.HostID, offers []release.Offer, to fleet.AgentUpgrade) (fleet.HostView, error) {
	if _, err := q.LockHost(ctx, id); err != nil {
		return fleet.HostView{}, store.NotFoundError(err, "host")
	}
	row, err := q.GetHost(ctx, id)
	if err != nil {
		return fleet.HostView{}, err
	}
	host := store.HostViewFromRow(row)
	if why := release.HostRefusal(host, offers, to.Version, to.AllowDowngrade); why != "" {
		return host, fleet.Errorf(fleet.Conflict, "%s", why)
	}
	open, err := q.UpgradeOfHost(ctx, db.UpgradeOfHostParams{HostID: string(id), Child: string(store.ChildTask(ctx))})
	if err == nil && open != "" {
		err = fleet.Errorf(fleet.Conflict, "%s has an upgrade of its agent in progress already.", host.Name)
	}
	return host, err
}

// Order is an upgrade of many hosts.
type Order struct {
	fleet.AgentUpgrade
	Canaries []fleet.HostID `json:"canary" doc:"Hosts that upgrade first, at least one"`
	Hosts    []fleet.HostID `json:"hosts,omitempty" doc:"The other hosts, which follow in batches of at most 5"`
	// SoakSeconds is how long the canaries must stay online before the others begin.
	SoakSeconds int `json:"soakSeconds,omitempty" doc:"How long the canaries must stay online before the other hosts begin; 0: 120"`
}

// MaxHosts is the maximum number of hosts of an order.
const MaxHosts = 500

func (o Order) soak() time.Duration { return time.Duration(o.SoakSeconds) * time.Second }

func (o *Order) check() error {
	var checks fleet.Checks
	if !release.IsVersion(o.Version) {
		checks.Add("version", "Choose the version.")
	}
	if o.SoakSeconds == 0 {
		o.SoakSeconds = int(release.DefaultSoak / time.Second)
	}
	if o.SoakSeconds < 10 || o.soak() > release.MaxSoak {
		checks.Add("soakSeconds", "Enter 10 seconds to 24 hours.")
	}
	all := slices.Concat(o.Canaries, o.Hosts)
	switch {
	case len(o.Canaries) == 0:
		checks.Add("canary", "Choose at least one host that is upgraded first.")
	case len(all) > MaxHosts:
		checks.Add("hosts", "Choose at most %d hosts.", MaxHosts)
	}
	seen := map[fleet.HostID]bool{}
	for _, id := range all {
		if seen[id] {
			checks.Add("hosts", "Name each host once.")
			break
		}
		seen[id] = true
	}
	return checks.Err()
}

// UpgradeAgents writes a task that upgrades the agents of many hosts: the canaries first, then the others in batches. The
// pass AdvanceUpgrades lets a batch begin when all earlier hosts have reported the new version; a failure stops the rest.
func (u *Upgrades) UpgradeAgents(ctx context.Context, a fleet.Actor, o Order) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if a.UserID == "" {
		return fleet.Task{}, fleet.Errorf(fleet.Forbidden, "Only a person can upgrade agents.")
	}
	if err := o.check(); err != nil {
		return fleet.Task{}, err
	}
	offers, err := u.offers()
	if err != nil {
		return fleet.Task{}, err
	}
	input, err := json.Marshal(o)
	if err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err = u.store.Tx(ctx, func(q *db.Queries) error {
		id := fleet.NewID[fleet.TaskID]()
		steps, err := buildSteps(ctx, q, o, offers)
		if err != nil {
			return err
		}
		steps.ID, steps.Kind, steps.Listed, steps.CreatedBy, steps.UserID, steps.Address = &id, string(fleet.HostAgentUpgrade), true, a.Name, store.ActorUserID(a), a.Address
		if err := q.AddSteps(ctx, steps); err != nil {
			return err
		}
		if err := q.AddTaskEdit(ctx, db.AddTaskEditParams{TaskID: id, Edit: input}); err != nil {
			return err
		}
		if err := q.SettleParent(ctx, string(id)); err != nil {
			return err
		}
		if err := q.NotifyWaiters(ctx); err != nil {
			return err
		}
		if err := store.Audit(ctx, q, a, "hosts.upgradeAgents", fleet.SubjectTask(id), steps.Name, "to "+o.Version); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	return task, err
}

// buildSteps returns a subtask for each host, in stages: the canaries are stage 0. It refuses the order if a host cannot
// take the release.
func buildSteps(ctx context.Context, q *db.Queries, o Order, offers []release.Offer) (db.AddStepsParams, error) {
	steps := db.AddStepsParams{Name: fleet.CountWithUnit(len(o.Canaries)+len(o.Hosts), "host")}
	ids := slices.Concat(o.Canaries, o.Hosts)
	stage := make(map[fleet.HostID]int32, len(ids))
	for i, id := range o.Hosts {
		stage[id] = int32(1 + i/release.BatchSize) //nolint:gosec // at most MaxHosts
	}
	// A fixed lock order of the hosts prevents deadlocks between orders.
	hosts := map[fleet.HostID]fleet.HostView{}
	var checks fleet.Checks
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if err := store.CheckID(id, "host"); err != nil {
			return steps, err
		}
		host, err := lockUpgradableHost(ctx, q, id, offers, o.AgentUpgrade)
		if fleet.CodeOf(err) == fleet.Conflict {
			checks.Add("hosts."+string(id), "%s: %s", host.Name, err)
		} else if err != nil {
			return steps, err
		}
		hosts[id] = host
	}
	if err := checks.Err(); err != nil {
		return steps, err
	}
	for _, id := range ids {
		steps.Ids, steps.Subjects = append(steps.Ids, string(fleet.NewID[fleet.TaskID]())), append(steps.Subjects, string(fleet.SubjectHost(id)))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, hosts[id].Name), append(steps.Projects, ""), append(steps.Errors, "")
		steps.Kinds, steps.Stages, steps.Waits = append(steps.Kinds, string(fleet.HostAgentUpgrade)), append(steps.Stages, stage[id]), append(steps.Waits, 0)
	}
	return steps, nil
}

// Reasons of upgrades that end without a result of their host.
const (
	notBegun = "Not done: the host did not get this task within 10 minutes."
	noResult = "The host did not report a result within 30 minutes. Check the agent on the host: systemctl status quantix-agent."
)

// AdvanceUpgrades lets the next hosts of each upgrade of many hosts begin, or ends those that wait if a host failed. It
// also ends upgrades without a result.
func (u *Upgrades) AdvanceUpgrades(ctx context.Context, a fleet.Actor) error {
	return u.store.RunPass(ctx, a, "agent upgrades", func(q *db.Queries) error {
		if err := q.EndStaleUpgrades(ctx, db.EndStaleUpgradesParams{NotBegun: notBegun, NoResult: noResult}); err != nil {
			return err
		}
		open, err := q.OpenUpgrades(ctx)
		if err != nil {
			return err
		}
		for _, t := range open {
			if err := advance(ctx, q, t); err != nil {
				return err
			}
		}
		if len(open) > 0 {
			return q.NotifyWaiters(ctx)
		}
		return nil
	})
}

// advance does the work of AdvanceUpgrades for one task.
func advance(ctx context.Context, q *db.Queries, t db.OpenUpgradesRow) error {
	var o Order
	if err := json.Unmarshal(t.Edit, &o); err != nil {
		return fmt.Errorf("read the input of task %s: %w", t.ID, err)
	}
	rows, err := q.UpgradeSteps(ctx, &t.ID)
	if err != nil {
		return err
	}
	steps := make([]release.HostStep, len(rows))
	var now time.Time
	for i, r := range rows {
		now = r.Now
		steps[i] = release.HostStep{Host: r.Host, Stage: int(r.Stage), State: r.State, Held: r.Held, Online: r.Online, Version: r.Version}
		if r.EndedAt != nil {
			steps[i].EndedAt = *r.EndedAt
		}
	}
	begin, stop := release.NextStage(steps, o.Version, o.soak(), now)
	switch {
	case stop != "":
		_, err = q.CancelUnasked(ctx, db.CancelUnaskedParams{ID: &t.ID, Error: stop})
	case begin:
		_, err = q.BeginUpgradeStage(ctx, &t.ID)
	}
	return err
}
