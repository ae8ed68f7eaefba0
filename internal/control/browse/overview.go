package browse

import (
	"cmp"
	"context"
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
	hosts, err := b.store.HostSums(ctx)
	if err != nil {
		return fleet.Overview{}, store.Err(err)
	}
	o := fleet.Overview{
		Hosts: map[fleet.HostPhase]int{}, VMs: map[fleet.Phase]int{}, Pools: map[fleet.Tone]int{}, Attention: []fleet.Attention{}, CountedAt: sums.at,
	}
	phases := map[fleet.HostID]fleet.HostPhase{}
	for _, h := range hosts {
		phases[h.ID] = store.HostPhase(h.SeenAt, h.LookedAt, store.Reported(h.Reported, h.Connected), h.Conflict, h.Now)
	}
	fresh := make(map[fleet.HostID]bool, len(hosts))
	for _, h := range hosts {
		fresh[h.ID] = fleet.Fresh(h.LookedAt, h.Now)
	}
	addVMs(&o, a, sums, fresh)
	if policy.May(a, policy.InfraSee, "") {
		addHosts(&o, sums, hosts, phases)
	}
	if err := b.addPools(ctx, a, &o); err != nil {
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
	addVMs(&o, a, sums, sums.fresh())
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
func addVMs(o *fleet.Overview, a fleet.Actor, sums *counters, fresh map[fleet.HostID]bool) {
	for _, g := range sums.groups {
		if !policy.AllProjects(a) && !policy.May(a, policy.VMSee, g.ProjectID) {
			continue
		}
		phase, inNeed := fleet.Phase(g.Heard), g.Attention
		if !fresh[g.HostID] && phase != fleet.PhaseDeleting && phase != fleet.PhaseCreating {
			phase, inNeed = fleet.PhaseUnknown, g.Vms
		}
		o.VMs[phase] += int(g.Vms)
		o.VMsInNeed += int(inNeed)
		o.CommittedCPUs += int(g.Cpus)
		o.CommittedMemoryBytes += g.MemoryMib << 20
	}
}

func addHosts(o *fleet.Overview, sums *counters, hosts []db.HostSumsRow, phases map[fleet.HostID]fleet.HostPhase) {
	for _, n := range sums.found {
		o.FoundVMs += n
	}
	for _, h := range hosts {
		phase := phases[h.ID]
		o.Hosts[phase]++
		o.CPUThreads += int(h.Threads)
		o.MemoryBytes += h.MemoryBytes
		text := ""
		switch phase {
		case fleet.HostConflict:
			text = "A second agent showed this host's identity: " + h.Conflict
		case fleet.HostDegraded:
			text = "Its hypervisor does not answer: " + cmp.Or(h.Error, fleet.NoLook)
		case fleet.HostUnknown:
			text = "Its agent is not heard. What it said last may be outdated."
		}
		if text != "" {
			o.Attention = append(o.Attention, fleet.Attention{Kind: "host", ID: string(h.ID), Name: h.Name, Tone: phase.Tone(), Text: text, At: h.SeenAt})
		}
	}
}

// addPools counts pools by health. A pool that wants a person is shown with the words of the host where it is worst.
func (b *Browse) addPools(ctx context.Context, a fleet.Actor, o *fleet.Overview) error {
	cells, err := b.cells(ctx, "pools", "p.name, p.id", statement{}, false)
	if err != nil {
		return err
	}
	for _, v := range poolViews(a, cells) {
		o.Pools[v.Health.Tone]++
		o.StorageBytes += v.Health.CapacityBytes
		o.StorageUsedBytes += v.Health.UsedBytes
		var worst *fleet.PoolHost
		for i := range v.Hosts {
			h := &v.Hosts[i]
			if (h.Tone == fleet.ToneBad || h.Notice != "") && (worst == nil || urgency[h.Tone] < urgency[worst.Tone]) {
				worst = h
			}
		}
		if worst != nil {
			o.Attention = append(o.Attention, fleet.Attention{Kind: "pool", ID: string(v.ID), Name: v.Name, Tone: worst.Tone, Text: poolTrouble(*worst), At: worst.SeenAt})
		}
	}
	return nil
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
