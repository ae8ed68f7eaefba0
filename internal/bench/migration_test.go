package bench

import (
	"fmt"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/testkit"
	"quantix/internal/testkit/goals"
)

// BenchmarkMigrationPlan measures the preview of 20 migrations in a fleet of 50 hosts with 2,000 VMs. The reference is
// the read of one of these VMs, 20 times.
func BenchmarkMigrationPlan(b *testing.B) {
	const vms, requests = 20, 40
	r := newRig(b)
	testkit.Seed(b, r.pool, 50, 2000)
	keepOnline(b, r)
	admin := fleet.Actor{Name: "admin", Role: fleet.RoleAdmin, UserID: "admin"}
	var ids []fleet.VMID
	for i := range vms {
		ids = append(ids, fleet.VMID(seedID(1000000+100*i+2)))
	}
	for range b.N {
		var took, reads durations
		for range requests {
			began := time.Now()
			plans, err := r.control.PlanMigrations(b.Context(), admin, ids)
			if err != nil || len(plans) != vms || len(plans[0].Targets) != 49 || plans[0].Best == nil {
				b.Fatal(len(plans), err)
			}
			took = append(took, time.Since(began))
			began = time.Now()
			for _, id := range ids {
				if _, err := r.control.GetVM(b.Context(), admin, id); err != nil {
					b.Fatal(err)
				}
			}
			reads = append(reads, time.Since(began))
		}
		goals.MigrationPlan.Record(b, took.percentile(0.99) <= 500*time.Millisecond, fmt.Sprintf("%s ms", took), "reading the 20 VMs "+reads.String(), took.ratioTo(reads))
	}
}

// BenchmarkPlacement measures the choice among 10,000 hosts, after their state was read.
func BenchmarkPlacement(b *testing.B) {
	hosts := make([]placement.Host, 10_000)
	for i := range hosts {
		hosts[i] = placement.Host{
			ID: fleet.HostID(seedID(i)), Name: fmt.Sprintf("h%05d", i), Phase: fleet.HostOnline, Firmwares: []fleet.Firmware{fleet.BIOS, fleet.UEFI},
			Spec: fleet.HostSpec{Schedulable: true, Roles: fleet.HostRoles{Compute: true}}, Rules: &placement.HostRules{},
			Capacity: fleet.HostCapacity{MemoryMiB: 1 << 20, Threads: 128, AllocatableCPUs: 512, AllocatableMemoryMiB: 1 << 20}, CommittedMiB: int64(i),
		}
	}
	spec := fleet.VMSpec{CPUs: 2, MemoryMiB: 2048, Firmware: fleet.BIOS}
	for range b.N {
		var took durations
		for range 100 {
			began := time.Now()
			if c := placement.Place(spec, hosts); c.Host == nil || c.Host.Name != "h00000" {
				b.Fatal(c.Host, c.RefusalText(3))
			}
			took = append(took, time.Since(began))
		}
		goals.Placement.Record(b, took.percentile(0.99) <= 10*time.Millisecond, fmt.Sprintf("%s ms", took), "", 0)
	}
}
