package control

import (
	"context"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// checkAllocation refuses a spec that needs more memory or CPUs than the host has left, unless h.Overcommit is set. It
// also refuses CPU reservations beyond the host's CPUs. Only increases over the previous spec are checked. It locks the
// host's capacity and reads the sums again, so that no other transaction can allocate the same capacity.
func checkAllocation(ctx context.Context, q *db.Queries, a fleet.Actor, spec fleet.VMSpec, h placement.Host, previous fleet.VMSpec) error {
	more, reserves := spec.MemoryMiB > previous.MemoryMiB || spec.CPUs > previous.CPUs, spec.ReservedCPU() > previous.ReservedCPU()
	if !more && !reserves {
		return nil
	}
	if err := q.LockMemory(ctx, string(h.ID)); err != nil {
		return err
	}
	var checks fleet.Checks
	if more {
		sums, err := q.Committed(ctx, string(h.ID))
		if err != nil {
			return err
		}
		h.CommittedMiB, h.CommittedCPUs = -int64(previous.MemoryMiB), -int64(previous.CPUs)
		h.DiscoveredMiB, h.DiscoveredCPUs = 0, 0
		for _, sum := range sums {
			h.CommittedMiB += sum.Mib
			h.CommittedCPUs += sum.Cpus
			h.DiscoveredMiB += sum.DiscoveredMib
			h.DiscoveredCPUs += sum.DiscoveredCpus
		}
		added := spec // check only the resources that the change increases
		if spec.MemoryMiB <= previous.MemoryMiB {
			added.MemoryMiB = 0
		}
		if spec.CPUs <= previous.CPUs {
			added.CPUs = 0
		}
		for _, f := range placement.OvercommitFaults(added, h) {
			checks.Add(f.Field, "%s", placementFaultText(a, f))
		}
		if checks.Err() != nil && policy.May(a, policy.InfraChange, "") {
			checks.Add("overcommit", hostOvercommitHint)
		}
	}
	if reserves {
		all, err := placing.CPUReservations(ctx, q, h.ID)
		if err != nil {
			return err
		}
		h.ReservedCPU = all[h.ID] - previous.ReservedCPU()
		if f := placement.ReservedCPUFault(spec, h); f != nil {
			checks.Add(f.Field, "%s", placementFaultText(a, *f))
		}
	}
	return checks.Err()
}

// checkStartCapacity refuses the start of a stopped VM, with an Invalid error, if the VM and the host's running VMs,
// discovered ones included, together exceed what the host can allocate, unless overcommit is set or the VM's spec permits it. VMs with a requested
// start count as running. It locks the host's capacity, so that no other transaction can use the same capacity.
func checkStartCapacity(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, overcommit bool) error {
	if err := checkMayOvercommit(a, overcommit); err != nil || overcommit || vm.Spec.Placement.Overcommit || vm.Spec.Power != fleet.Stopped {
		return err
	}
	if err := q.LockMemory(ctx, string(vm.HostID)); err != nil {
		return err
	}
	h, err := q.HostForStart(ctx, db.HostForStartParams{ID: vm.HostID, VM: vm.ID})
	if err != nil {
		return err
	}
	host := placement.Host{
		ID: vm.HostID, Name: h.Name, CommittedMiB: h.Mib, CommittedCPUs: h.Cpus, DiscoveredMiB: h.DiscoveredMib, DiscoveredCPUs: h.DiscoveredCpus,
		Capacity: store.HostCapacity(h.Spec, h.ClusterSpec, h.Threads, h.MemoryBytes),
	}
	faults := placement.OvercommitFaults(vm.Spec, host)
	if len(faults) == 0 || host.Capacity.MemoryMiB == 0 {
		return nil
	}
	var checks fleet.Checks
	checks.Add("action", "%s", placementFaultText(a, faults[0]))
	if policy.May(a, policy.InfraChange, "") {
		checks.Add("overcommit", hostOvercommitHint)
	}
	return checks.Err()
}

// checkMayOvercommit refuses overcommit to actors who may not change infrastructure.
func checkMayOvercommit(a fleet.Actor, chosen bool) error {
	var checks fleet.Checks
	if chosen && !policy.May(a, policy.InfraChange, "") {
		checks.Add("overcommit", "Only those who may change infrastructure may overcommit hosts and pools.")
	}
	return checks.Err()
}

// overcommitAuditSuffix returns the text that the audit line of a change with overcommit ends with.
func overcommitAuditSuffix(chosen bool) string {
	if chosen {
		return ", overcommit chosen"
	}
	return ""
}
