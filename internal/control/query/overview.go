package query

import (
	"context"
	"maps"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/remedy"
)

// maxAttention limits the list of problems that need attention.
const maxAttention = 20

// Overview returns the dashboard with the objects that the actor may see. VM counts come from the counters, host and
// pool counts from the cache.
func (b *Queries) Overview(ctx context.Context, a fleet.Actor) (fleet.Overview, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Overview{}, err
	}
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return fleet.Overview{}, err
	}
	o := fleet.Overview{
		Hosts: map[fleet.HostPhase]int{}, VMs: map[fleet.Phase]int{}, Pools: map[fleet.Severity]int{}, Attention: []fleet.AttentionCause{}, CountedAt: sums.countedAt,
	}
	totals, err := b.fleetTotals.getTotal(ctx, fleetTotalsKey{})
	if err != nil {
		return o, err
	}
	addVMTotals(&o, a, sums, offlineHosts{totals.offline, totals.poweredOffHosts})
	if policy.May(a, policy.InfraSee, "") {
		addHostTotals(&o, sums, totals)
	}
	if err := b.addPoolTotals(ctx, a, &o, totals); err != nil {
		return o, err
	}
	if err := b.addVMAndTaskAttention(ctx, a, &o); err != nil {
		return o, err
	}
	slices.SortStableFunc(o.Attention, func(x, y fleet.AttentionCause) int { return severityRank[x.Severity] - severityRank[y.Severity] })
	o.Attention = o.Attention[:min(len(o.Attention), maxAttention)]
	for i, x := range o.Attention {
		if len(x.Objects) > 0 {
			o.Attention[i].ID, o.Attention[i].Name = x.Objects[0].ID, x.Objects[0].Name
		}
	}
	return o, nil
}

// VMTotals returns the numbers of VMs that the actor may see, by phase. They come from counters that are up to five
// seconds old, so that every list page can show them cheaply.
func (b *Queries) VMTotals(ctx context.Context, a fleet.Actor) (fleet.VMTotals, error) {
	var totals fleet.VMTotals
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return totals, err
	}
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return totals, err
	}
	o := fleet.Overview{VMs: map[fleet.Phase]int{}}
	addVMTotals(&o, a, sums, sums.offlineHosts())
	totals.Phases, totals.NeedingAttention = o.VMs, o.VMsNeedingAttention
	if policy.May(a, policy.InfraSee, "") {
		for _, d := range sums.discovered {
			totals.Discovered += int(d.Vms)
		}
	}
	return totals, nil
}

var severityRank = map[fleet.Severity]int{fleet.SeverityBad: 0, fleet.SeverityUnknown: 1, fleet.SeverityWarn: 2}

// addVMTotals adds the numbers of VMs in the actor's projects to o. VMs on an offline host count as unknown, except
// those whose phase is known: see offlineHosts.
func addVMTotals(o *fleet.Overview, a fleet.Actor, sums *publishedTotals, offline offlineHosts) {
	sees := func(id fleet.ProjectID) bool { return policy.SeesAllProjects(a) || policy.May(a, policy.VMSee, id) }
	for project, phases := range sums.byPhase {
		if !sees(project) {
			continue
		}
		for phase, s := range phases {
			o.VMs[phase] += int(s.vms)
			o.VMsNeedingAttention += int(s.attention)
			o.VMsDrifted += int(s.drifted)
			o.CommittedCPUs += int(s.cpus)
			o.CommittedMemoryBytes += s.memoryMiB << 20
		}
	}
	for _, host := range offline.ids {
		for _, g := range sums.byHost[host] {
			if phase := fleet.Phase(g.OnlinePhase); sees(g.ProjectID) && !offline.knowsPhase(host, phase) {
				o.VMs[phase] -= int(g.Vms)
				o.VMs[fleet.PhaseUnknown] += int(g.Vms)
				o.VMsNeedingAttention += int(g.Vms - g.Attention)
				o.VMsDrifted -= int(g.Drifted)
			}
		}
	}
	maps.DeleteFunc(o.VMs, func(_ fleet.Phase, n int) bool { return n == 0 })
}

// HostTotals counts the hosts in each phase.
func (b *Queries) HostTotals(ctx context.Context, a fleet.Actor) (totals fleet.HostTotals, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return totals, err
	}
	sums, err := b.hostSums(ctx)
	totals.Phases = make(map[fleet.HostPhase]int, len(sums.phases))
	for _, x := range sums.phases {
		totals.Phases[x.phase] = x.hosts - x.poweredOff
		totals.PoweredOff += x.poweredOff
	}
	return totals, err
}

// addHostTotals adds the numbers of hosts by phase to o, and the rows of the Needs attention list for hosts.
func addHostTotals(o *fleet.Overview, sums *publishedTotals, totals fleetTotals) {
	for _, d := range sums.discovered {
		o.DiscoveredVMs += int(d.Vms)
		o.DiscoveredCPUs += d.Cpus
		o.DiscoveredMemoryBytes += d.Mib << 20
	}
	for _, x := range totals.phases {
		o.Hosts[x.phase] += x.hosts
		o.CPUThreads += int(x.threads)
		o.MemoryBytes = fleet.AddBytes(o.MemoryBytes, x.memoryBytes)
	}
	o.StorageBytes, o.StorageUsedBytes = totals.storage.CapacityBytes, totals.storage.UsedBytes
	o.Attention = append(o.Attention, totals.hostProblems...)
}

// addPoolTotals adds the numbers of pools by health to o, and the rows of the Needs attention list for pools. An actor
// who sees hosts gets one row per cause, and the drift of pools and networks; any other actor gets the summary of each
// pool.
func (b *Queries) addPoolTotals(ctx context.Context, a fleet.Actor, o *fleet.Overview, totals fleetTotals) error {
	var s statementBuilder
	s.wherePoolVisible(a, "")
	pools, err := b.readPoolRows(ctx, s, " ORDER BY p.name, p.id")
	if err != nil {
		return err
	}
	if !store.SeesHosts(a) {
		return b.addAffectedPools(ctx, a, o, pools)
	}
	rooms, err := b.sharedCapacities(ctx, pools, totals.pools)
	if err != nil {
		return err
	}
	views := map[fleet.PoolID]fleet.PoolView{}
	for _, r := range pools {
		v := poolView(a, r, totals.pools[r.ID], rooms[r.ID])
		views[r.ID] = v
		o.Pools[v.Health.Severity]++
	}
	o.Attention = slices.Concat(o.Attention, poolAttention(totals.poolCauses, views), totals.drift)
	return nil
}

// addAffectedPools adds a row of the Needs attention list for each pool with a problem that affects a VM of the actor's
// projects.
func (b *Queries) addAffectedPools(ctx context.Context, a fleet.Actor, o *fleet.Overview, pools []db.Pool) error {
	views, err := b.poolViews(ctx, a, pools)
	var causes attentionCauses
	for _, v := range views {
		if v.Health.AffectedVMs > 0 {
			causes.Add(fleet.AttentionCause{
				Kind: string(fleet.TypePool), Severity: v.Health.Severity, Text: v.Health.Summary + ".", Count: 1, List: "/pools?filter=health:" + string(v.Health.Severity),
				Objects: []fleet.AttentionObject{{ID: string(v.ID), Name: v.Name}},
			})
		}
	}
	o.Attention = append(o.Attention, causes.Rows...)
	return err
}

// addVMAndTaskAttention adds the rows of the Needs attention list for VMs, and for tasks that failed within the last
// hour. It omits a failed task whose object already has a row.
func (b *Queries) addVMAndTaskAttention(ctx context.Context, a fleet.Actor, o *fleet.Overview) error {
	pools := map[fleet.Subject]string{}
	for _, row := range o.Attention {
		for _, x := range row.Objects {
			subject := fleet.SubjectOf(fleet.ResourceType(row.Kind), x.ID)
			pools[subject] += row.Text + "\n"
		}
	}
	rows, shown, err := b.vmAttentionRows(ctx, a)
	if err != nil {
		return err
	}
	o.Attention = append(o.Attention, rows...)
	addAttentionFromCounters(a, o)
	if err := b.addUnappliedSecurityGroups(ctx, a, o, shown); err != nil {
		return err
	}
	tasks, err := b.store.FailedTasks(ctx, db.FailedTasksParams{AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return store.UserError(err)
	}
	var failed attentionCauses
	for _, t := range tasks {
		task := store.RedactTask(a, store.TaskFromRow(t.Task, t.Host))
		cause := pools[task.Subject] // the same cause is listed once
		if shown[task.Subject] || task.Error != "" && (strings.Contains(cause, task.Error) || strings.Contains(cause, fleet.RedactNames(task.Error, task.SubjectName))) {
			continue
		}
		text := task.Title() + " failed: " + task.Error
		if task.State == fleet.JobUnknown {
			text = task.Title() + " may or may not have happened: " + task.Error
		}
		n := fleet.AttentionCause{
			HasAlarm: true, Kind: "task", Severity: fleet.SeverityWarn, Text: text, Count: 1, At: task.EndedAt, Objects: []fleet.AttentionObject{{ID: string(task.ID), Name: task.SubjectName}},
			List: "/tasks?filter=state:" + string(task.State) + "+kind:" + string(task.Kind),
		}
		if store.SeesHosts(a) {
			n.Remedy = remedy.ForError("", "", task.Error)
		}
		failed.Add(n)
	}
	o.Attention = append(o.Attention, failed.Rows...)
	texts := make([]*string, len(o.Attention))
	for i := range o.Attention {
		texts[i] = &o.Attention[i].Text
	}
	return b.store.HidePoolNames(ctx, a, texts...)
}

// addAttentionFromCounters adds the rows of the Needs attention list that come from the counters: VMs that have drifted
// and, if the actor does not see hosts, VMs on offline hosts.
func addAttentionFromCounters(a fleet.Actor, o *fleet.Overview) {
	if n := o.VMsDrifted; n > 0 {
		o.Attention = append(o.Attention, fleet.AttentionCause{
			HasAlarm: true, Kind: string(fleet.TypeVM), Severity: fleet.SeverityWarn, Text: "Changed on the host: the definition there differs from what was set here (drift).", Remedy: remedy.Drift,
			Count: n, List: "/vms?filter=drift:yes",
		})
	}
	if n := o.VMs[fleet.PhaseUnknown]; n > 0 && !store.SeesHosts(a) {
		o.Attention = append(o.Attention, fleet.AttentionCause{
			Kind: string(fleet.TypeVM), Severity: fleet.SeverityUnknown, Text: "The state is unknown: the host is offline. Ask an administrator if this lasts.",
			Count: n, List: "/vms?filter=state:unknown",
		})
	}
}
