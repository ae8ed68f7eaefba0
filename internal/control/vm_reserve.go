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

// promise refuses to promise memory that the host does not have to somebody who does not run it, and to reserve processors that it does not have to
// anybody. had is what the VM itself was promised before. The host's sums are read anew, and until the transaction ends nobody else is promised a
// part of them.
func promise(ctx context.Context, q *db.Queries, a fleet.Actor, spec fleet.VMSpec, h placement.Host, had fleet.VMSpec) error {
	memory := spec.MemoryMiB > had.MemoryMiB && !policy.May(a, policy.InfraChange, "")
	cpu := spec.ReservedCPU() > had.ReservedCPU()
	if !memory && !cpu {
		return nil
	}
	if err := q.HoldMemory(ctx, string(h.ID)); err != nil {
		return err
	}
	var checks fleet.Checks
	note := func(f *placement.Fault) {
		if f != nil {
			checks.Add(f.Field, "%s", told(a, *f))
		}
	}
	if memory {
		sums, err := q.CommittedMemory(ctx, string(h.ID))
		if err != nil {
			return err
		}
		h.CommittedMiB = -int64(had.MemoryMiB)
		for _, sum := range sums {
			h.CommittedMiB += sum.Mib
		}
		note(placement.Unpromised(spec, h))
	}
	if cpu {
		all, err := reservedCPU(ctx, q, h.ID)
		if err != nil {
			return err
		}
		h.ReservedCPU = all[h.ID] - had.ReservedCPU()
		note(placement.Unreserved(spec, h))
	}
	return checks.Err()
}
