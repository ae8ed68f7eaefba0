package control

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
)

// reservedCPU is what is kept of the processors of each host, or of one, in percent of one.
func reservedCPU(ctx context.Context, q *db.Queries, host fleet.HostID) (map[fleet.HostID]int64, error) {
	out := map[fleet.HostID]int64{}
	rows, err := q.ReservedCPU(ctx, string(host))
	for _, r := range rows {
		out[fleet.HostID(r.HostID)] = r.Percent
	}
	return out, err
}

// allocation refuses to promise memory and processors that the host does not have, unless h.Overcommit is set, and to reserve processors
// that it does not have. had is what the VM itself was promised before. The host's sums are read anew, and until the transaction ends
// nobody else is promised a part of them.
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
		asked := spec // what the VM was promised before is not asked for again
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

// mayOvercommit refuses the choice of overcommit to those who do not run the hosts.
func mayOvercommit(a fleet.Actor, chosen bool) error {
	var checks fleet.Checks
	if chosen && !policy.May(a, policy.InfraChange, "") {
		checks.Add("overcommit", "Only those who may change infrastructure may promise more than there is.")
	}
	return checks.Err()
}

// overcommitted is the end of an audit line: people see there who promised more than there is.
func overcommitted(chosen bool) string {
	if chosen {
		return ", overcommit chosen"
	}
	return ""
}
