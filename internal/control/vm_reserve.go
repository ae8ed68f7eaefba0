package control

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// reservedCPU returns the CPU reservations on each host, or on the given one, in percent of one CPU.
func reservedCPU(ctx context.Context, q *db.Queries, host fleet.HostID) (map[fleet.HostID]int64, error) {
	out := map[fleet.HostID]int64{}
	rows, err := q.ReservedCPU(ctx, string(host))
	for _, r := range rows {
		out[fleet.HostID(r.HostID)] = r.Percent
	}
	return out, err
}

// allocation refuses more memory or CPUs than the host can promise, unless h.Overcommit is set, and CPU reservations
// beyond the host's CPUs. had is the VM's spec before the change. It locks the host and reads the sums again, so no
// other transaction can promise the same capacity.
func allocation(ctx context.Context, q *db.Queries, a fleet.Actor, spec fleet.VMSpec, h placement.Host, had fleet.VMSpec) error {
	more, reserves := spec.MemoryMiB > had.MemoryMiB || spec.CPUs > had.CPUs, spec.ReservedCPU() > had.ReservedCPU()
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
		h.CommittedMiB, h.CommittedCPUs = -int64(had.MemoryMiB), -int64(had.CPUs)
		for _, sum := range sums {
			h.CommittedMiB += sum.Mib
			h.CommittedCPUs += sum.Cpus
		}
		asked := spec // check only what exceeds the previous promise
		if spec.MemoryMiB <= had.MemoryMiB {
			asked.MemoryMiB = 0
		}
		if spec.CPUs <= had.CPUs {
			asked.CPUs = 0
		}
		for _, f := range placement.Uncommitted(asked, h) {
			checks.Add(f.Field, "%s", told(a, f))
		}
		if checks.Err() != nil && policy.May(a, policy.InfraChange, "") {
			checks.Add("overcommit", tellOvercommitHost)
		}
	}
	if reserves {
		all, err := reservedCPU(ctx, q, h.ID)
		if err != nil {
			return err
		}
		h.ReservedCPU = all[h.ID] - had.ReservedCPU()
		if f := placement.Unreserved(spec, h); f != nil {
			checks.Add(f.Field, "%s", told(a, *f))
		}
	}
	return checks.Err()
}

// mayOvercommit refuses overcommit to actors who may not change infrastructure.
func mayOvercommit(a fleet.Actor, chosen bool) error {
	var checks fleet.Checks
	if chosen && !policy.May(a, policy.InfraChange, "") {
		checks.Add("overcommit", "Only those who may change infrastructure may promise more than there is.")
	}
	return checks.Err()
}

// overcommitted returns the suffix of an audit line that marks an overcommit.
func overcommitted(chosen bool) string {
	if chosen {
		return ", overcommit chosen"
	}
	return ""
}
