package browse

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// maxAttention bounds the list of what wants a person.
const maxAttention = 20

// Overview is the dashboard: numbers of VMs from the counters, hosts and pools as they are now, cut to what the actor sees.
func (b *Browse) Overview(ctx context.Context, a fleet.Actor) (fleet.Overview, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Overview{}, err
	}
	sums, err := b.counted(ctx)
	if err != nil {
		return fleet.Overview{}, err
	}
	o := fleet.Overview{
		Hosts: map[fleet.HostPhase]int{}, VMs: map[fleet.Phase]int{}, Pools: map[fleet.Tone]int{}, Attention: []fleet.Attention{}, CountedAt: sums.at,
	}
	whole, err := b.whole.one(ctx, everything{})
	if err != nil {
		return o, err
	}
	addVMs(&o, a, sums, whole.silent)
	if policy.May(a, policy.InfraSee, "") {
		addHosts(&o, sums, whole)
	}
	if err := b.addPools(ctx, a, &o, whole); err != nil {
		return o, err
	}
	if err := b.addTrouble(ctx, a, &o); err != nil {
		return o, err
	}
	slices.SortStableFunc(o.Attention, func(x, y fleet.Attention) int { return urgency[x.Tone] - urgency[y.Tone] })
	o.Attention = o.Attention[:min(len(o.Attention), maxAttention)]
	return o, nil
}

// VMTotals is how many VMs the actor sees: from the counters, up to five seconds old, so that a list can show them on each page.
func (b *Browse) VMTotals(ctx context.Context, a fleet.Actor) (fleet.VMTotals, error) {
	var totals fleet.VMTotals
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return totals, err
	}
	sums, err := b.counted(ctx)
	if err != nil {
		return totals, err
	}
	o := fleet.Overview{VMs: map[fleet.Phase]int{}}
	addVMs(&o, a, sums, sums.silent())
	totals.Phases, totals.InNeed = o.VMs, o.VMsInNeed
	if policy.May(a, policy.InfraSee, "") {
		for _, n := range sums.found {
			totals.Found += n
		}
	}
	return totals, nil
}

var urgency = map[fleet.Tone]int{fleet.ToneBad: 0, fleet.ToneUnknown: 1, fleet.ToneWarn: 2}

// addVMs adds up the VMs of the actor's projects. Those of a silent host are unknown, but for what does not hang on it.
func addVMs(o *fleet.Overview, a fleet.Actor, sums *counters, silent []fleet.HostID) {
	sees := func(id fleet.ProjectID) bool { return policy.AllProjects(a) || policy.May(a, policy.VMSee, id) }
	for project, phases := range sums.heard {
		if !sees(project) {
			continue
		}
		for phase, s := range phases {
			o.VMs[phase] += int(s.vms)
			o.VMsInNeed += int(s.inNeed)
			o.VMsDrifted += int(s.drifted)
			o.CommittedCPUs += int(s.cpus)
			o.CommittedMemoryBytes += s.memoryMiB << 20
		}
	}
	for _, host := range silent {
		for _, g := range sums.of[host] {
			if phase := fleet.Phase(g.Heard); sees(g.ProjectID) && phase != fleet.PhaseDeleting && phase != fleet.PhaseCreating {
				o.VMs[phase] -= int(g.Vms)
				o.VMs[fleet.PhaseUnknown] += int(g.Vms)
				o.VMsInNeed += int(g.Vms - g.Attention)
				o.VMsDrifted -= int(g.Drifted)
			}
		}
	}
	maps.DeleteFunc(o.VMs, func(_ fleet.Phase, n int) bool { return n == 0 })
}

// HostTotals is how many hosts there are in each phase.
func (b *Browse) HostTotals(ctx context.Context, a fleet.Actor) (map[fleet.HostPhase]int, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	sums, err := b.hostSums(ctx)
	totals := make(map[fleet.HostPhase]int, len(sums.phases))
	for _, x := range sums.phases {
		totals[x.phase] = x.hosts
	}
	return totals, err
}

// addHosts counts hosts by phase, and names those that want a person.
func addHosts(o *fleet.Overview, sums *counters, whole wholeSums) {
	for _, n := range sums.found {
		o.FoundVMs += n
	}
	for _, x := range whole.phases {
		o.Hosts[x.phase] += x.hosts
		o.CPUThreads += int(x.threads)
		o.MemoryBytes = fleet.AddBytes(o.MemoryBytes, x.memoryBytes)
	}
	o.StorageBytes, o.StorageUsedBytes = whole.storage.CapacityBytes, whole.storage.UsedBytes
	o.Attention = append(o.Attention, whole.troubled...)
}

// hostTroubles say why hosts of a phase want a person, with what is known of a conflict and in the host's own words.
var hostTroubles = map[fleet.HostPhase]func(conflict, words string) string{
	fleet.HostConflict: func(conflict, _ string) string {
		return "A second agent showed this host's identity: " + conflict
	},
	fleet.HostDegraded: func(_, words string) string {
		return "Its hypervisor does not answer: " + cmp.Or(words, fleet.NoLook)
	},
	fleet.HostUnknown: func(string, string) string {
		return "Its agent is not heard. What it said last may be outdated."
	},
}

// addPools counts pools by health. A pool that wants a person is shown with the words of the host where it is worst.
func (b *Browse) addPools(ctx context.Context, a fleet.Actor, o *fleet.Overview, whole wholeSums) error {
	pools, err := b.poolRows(ctx, statement{}, " ORDER BY p.name, p.id")
	if err != nil {
		return err
	}
	rooms, err := b.sharedRooms(ctx, pools, whole.pools)
	if err != nil {
		return err
	}
	names := map[fleet.PoolID]string{}
	for _, r := range pools {
		v := poolView(a, r, whole.pools[r.ID], rooms[r.ID])
		o.Pools[v.Health.Tone]++
		names[r.ID] = r.Name
	}
	if len(whole.worst.pools) == 0 || !policy.May(a, policy.InfraSee, "") {
		return nil
	}
	var cells statement
	cells.and("(a.pool_id, a.host_id) IN (SELECT * FROM unnest(" + cells.key(whole.worst.pools) + "::text[], " + cells.key(whole.worst.hosts) + "::text[]))")
	found, err := b.poolCells(ctx, cells)
	slices.SortFunc(found, func(x, y fleet.PoolHost) int { return cmp.Compare(names[x.PoolID], names[y.PoolID]) })
	for _, h := range found {
		o.Attention = append(o.Attention, fleet.Attention{Kind: "pool", ID: string(h.PoolID), Name: names[h.PoolID], Tone: h.Tone, Text: poolTrouble(h), At: h.SeenAt})
	}
	return err
}

func poolTrouble(h fleet.PoolHost) string {
	switch {
	case h.Notice != "":
		return h.HostName + ": " + h.Notice
	case h.Status != nil && h.Status.Error != "":
		return h.State.Word() + " on " + h.HostName + ": " + h.Status.Error
	}
	return h.State.Word() + " on " + h.HostName
}

// addTrouble adds the VMs that wait for a person, and the tasks that failed within the last hour but those of such a VM: it
// says itself what failed.
func (b *Browse) addTrouble(ctx context.Context, a fleet.Actor, o *fleet.Overview) error {
	vms, err := b.store.VMsInNeed(ctx, db.VMsInNeedParams{AllProjects: policy.AllProjects(a), Projects: store.ProjectsOf(a), Fresh: fleet.Freshness})
	if err != nil {
		return store.Err(err)
	}
	shown := map[fleet.Subject]bool{}
	for _, v := range vms {
		shown[fleet.SubjectVM(v.ID)] = true
		n := vmInNeed(a, v)
		if !store.SeesHosts(a) {
			n.Text = store.Concealed(n.Text, v.Host)
		}
		o.Attention = append(o.Attention, n)
	}
	if err := b.addUnapplied(ctx, a, o, shown); err != nil {
		return err
	}
	tasks, err := b.store.FailedTasks(ctx, db.FailedTasksParams{AllProjects: policy.AllProjects(a), Projects: store.ProjectsOf(a)})
	if err != nil {
		return store.Err(err)
	}
	for _, t := range tasks {
		if shown[t.Task.Subject] {
			continue
		}
		task := store.TaskFor(a, store.TaskOf(t.Task, t.Host))
		text := task.Title() + " failed: " + task.Error
		if task.State == fleet.JobUnknown {
			text = task.Title() + " may or may not have happened: " + task.Error
		}
		o.Attention = append(o.Attention, fleet.Attention{Kind: "task", ID: string(task.ID), Name: task.SubjectName, Tone: fleet.ToneWarn, Text: text, At: task.EndedAt})
	}
	return nil
}

// vmInNeed says what is wrong with the VM, or why in the phase's word, or, where the VM is well but for its last order, in that
// order's, and in the hypervisor's own.
func vmInNeed(a fleet.Actor, v db.VMsInNeedRow) fleet.Attention {
	phase := fleet.Phase(v.Heard)
	row := db.VM{Spec: v.Spec, Status: v.Status, Elsewhere: v.Elsewhere}
	if vm := store.ShownTo(a, store.VMView(row, v.Host, "", &v.Now, v.Now)); len(vm.Status.Faults) > 0 {
		return fleet.Attention{Kind: "vm", ID: string(v.ID), Name: v.Name, Tone: fleet.ToneBad, Text: vm.Status.Faults[0].Text}
	}
	tone, text := phase.Tone(), phase.Word()
	if tone != fleet.ToneBad {
		tone, text = fleet.ToneWarn, v.Status.Failure()
	}
	if v.Status.Error != "" {
		text += ": " + v.Status.Error
	}
	return fleet.Attention{Kind: "vm", ID: string(v.ID), Name: v.Name, Tone: tone, Text: text}
}
