package conformance

import (
	"context"
	"reflect"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Pair gives the suite two hosts with the same storage, and a function to migrate guests between them.
type Pair struct {
	// Hosts are two hosts with the same storage. The suite uses only Open, Power and PoolPath of each Harness. A
	// PoolPath of the first host must be the same directory on both hosts.
	Hosts [2]Harness

	// Migrate moves a running guest with its definition to the other host, like virsh migrate, and returns after the
	// migration. With leave, the first host also keeps the definition.
	Migrate func(t *testing.T, id fleet.VMID, from, to int, leave bool)
}

// RunPair tests the guarantees of hypervisor.Hypervisor for one VM on two hosts.
func RunPair(t *testing.T, p Pair) {
	for _, c := range []struct {
		name string
		test func(*testing.T, *pair)
	}{
		{"a VM is reported only by the host that has it", testOneHost},
		{"a guest migrated outside Quantix is unchanged on the other host", testMigrated},
		{"applying a migrated guest changes nothing", testApplyMigrated},
		{"a guest that runs on the other host is not started", testStartElsewhere},
		{"deleting a leftover definition leaves the guest running", testDeleteLeftover},
		{"a leftover definition reports its missing disk", testDeletedElsewhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, &pair{Pair: p, a: open(t, p.Hosts[0]), b: open(t, p.Hosts[1])})
		})
	}
}

// pair has two open backends.
type pair struct {
	Pair
	a, b *host
}

// pairMark is the ownership mark of the suite's guests.
const pairMark = "30112233445566778899aabbccddeeff"

// guest returns a VM that runs on the first host, with an ownership mark and with a disk on the shared storage.
func (p *pair) guest() fleet.VM {
	p.a.t.Helper()
	pool := fleet.Pool{
		ID: fleet.NewID[fleet.PoolID](), Name: name("pool"), Generation: 1,
		Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: p.a.h.PoolPath(p.a.t), Shared: true},
	}
	for _, h := range []*host{p.a, p.b} {
		h.pools = append(h.pools, pool)
		h.cleanup("release "+pool.Name, h.releaser(pool))
		h.must("apply pool", h.ApplyPool(h.ctx, pool))
	}
	vm := p.a.newVM(disk(pool))
	p.b.cleanup("delete "+vm.Name, func(ctx context.Context) error { return p.b.DeleteVM(ctx, vm, p.b.pools, false) })
	p.a.must("apply", p.a.ApplyVM(p.a.ctx, changedJob(p.a.applyJob(vm), func(in *hypervisor.Apply) { in.Mark = pairMark })))
	p.a.must("start", p.a.StartVM(p.a.ctx, vm.ID))
	return vm
}

// migratedGuest returns a guest that somebody migrated to the second host outside Quantix.
func (p *pair) migratedGuest(leave bool) (fleet.VM, fleet.VMStatus) {
	p.a.t.Helper()
	vm := p.guest()
	p.Migrate(p.a.t, vm.ID, 0, 1, leave)
	return vm, p.b.wantPower(vm.ID, fleet.Running)
}

// wantAbsent fails the test if the host knows the VM.
func (h *host) wantAbsent(id fleet.VMID) {
	h.t.Helper()
	h.wantPower(id, fleet.Absent)
	if r, ok := h.report(id); ok {
		h.t.Fatalf("the VM is reported as %+v", r)
	}
	if got := h.h.Power(h.t, id); got != fleet.Absent {
		h.t.Fatalf("the host itself reports %q", got)
	}
}

// wantSameStatus fails the test unless the guest's status is unchanged.
func (h *host) wantSameStatus(when string, id fleet.VMID, before fleet.VMStatus) {
	h.t.Helper()
	if after := h.wantPower(id, fleet.Running); !reflect.DeepEqual(before, after) {
		h.t.Errorf("%s the guest\n%+v became\n%+v", when, before, after)
	}
}

func testOneHost(t *testing.T, p *pair) {
	vm := p.guest()
	p.a.wantMark("on its host", vm.ID, pairMark)
	p.b.wantAbsent(vm.ID)
	for act, err := range map[string]error{"start": p.b.StartVM(p.b.ctx, vm.ID), "mark": p.b.MarkVM(p.b.ctx, vm.ID, pairMark)} {
		if err == nil {
			t.Errorf("%s succeeded on a host without the VM", act)
		}
	}
	p.b.wantAbsent(vm.ID)
	if v, ok := p.b.volume(p.b.pools[0], vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) > 0 {
		t.Errorf("the other host sees the disk as %+v, %v", v, ok)
	}
}

func testMigrated(t *testing.T, p *pair) {
	vm, _ := p.migratedGuest(true)
	whole := func(h *host, power fleet.Power) {
		t.Helper()
		r, ok := h.report(vm.ID)
		if !ok || r.Name != vm.Name || r.Generation != vm.Generation || r.Proof != wire.Proof(vm.ID, pairMark) || r.Status.Power != power {
			t.Fatalf("the VM is reported as %+v, %v; want it %s", r, ok, power)
		}
		s := r.Status
		if len(s.Disks) != 1 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != vm.Spec.Disks[0].Ref() || len(s.Faults)+len(s.Drift)+len(s.NextBoot) > 0 {
			t.Errorf("the VM is %+v", s)
		}
	}
	whole(p.b, fleet.Running)
	whole(p.a, fleet.Stopped)
	p.Migrate(t, vm.ID, 1, 0, false)
	whole(p.a, fleet.Running)
	p.b.wantAbsent(vm.ID)
}

func testApplyMigrated(_ *testing.T, p *pair) {
	vm, before := p.migratedGuest(false)
	p.a.wantAbsent(vm.ID)
	for _, vm.Generation = range []int64{1, 1, 2} {
		p.b.apply(vm)
		p.b.wantSameStatus("after an apply of the same spec,", vm.ID, before)
		p.b.wantMark("after a job without a mark", vm.ID, pairMark)
		p.b.status(vm.ID, vm.Generation)
	}
	p.b.must("stop", p.b.StopVM(p.b.ctx, vm.ID))
	p.b.wantMark("of the migrated definition", vm.ID, pairMark)
	p.b.must("start", p.b.StartVM(p.b.ctx, vm.ID))
	p.b.wantPower(vm.ID, fleet.Running)
}

func testStartElsewhere(_ *testing.T, p *pair) {
	vm, before := p.migratedGuest(true)
	const words = `Failed to get "write" lock` // QEMU's error about the disk
	p.a.refused("start a guest that runs on the second host", p.a.StartVM(p.a.ctx, vm.ID), words)
	p.a.wantPower(vm.ID, fleet.Stopped)
	p.b.wantSameStatus("after the attempt", vm.ID, before)
	p.b.must("stop", p.b.StopVM(p.b.ctx, vm.ID))
	p.a.must("start", p.a.StartVM(p.a.ctx, vm.ID))
	p.b.refused("start a guest that runs on the first host", p.b.StartVM(p.b.ctx, vm.ID), words)
	p.a.wantPower(vm.ID, fleet.Running)
}

func testDeleteLeftover(t *testing.T, p *pair) {
	vm, before := p.migratedGuest(true)
	p.a.must("delete", p.a.DeleteVM(p.a.ctx, vm, p.a.pools, false))
	p.a.wantAbsent(vm.ID)
	p.b.wantSameStatus("after the deletion", vm.ID, before)
	if v, ok := p.b.volume(p.b.pools[0], vm.Spec.Disks[0].Volume); !ok || len(v.UsedBy) != 1 || v.UsedBy[0] != vm.ID {
		t.Errorf("the VM's disk is %+v, %v", v, ok)
	}
}

func testDeletedElsewhere(_ *testing.T, p *pair) {
	vm, _ := p.migratedGuest(true)
	for range 2 {
		p.b.must("delete with disks", p.b.DeleteVM(p.b.ctx, vm, p.b.pools, true))
	}
	p.b.wantAbsent(vm.ID)
	p.a.eventually("the fault shows", func() bool { _, ok := p.a.faultOf(vm.ID, fleet.FaultDisk); return ok })
	p.a.refused("start without its disk", p.a.StartVM(p.a.ctx, vm.ID), isMissing(p.a.pools[0], vm.Spec.Disks[0]))
	p.a.wantPower(vm.ID, fleet.Stopped)
	for range 2 {
		p.a.must("delete with disks", p.a.DeleteVM(p.a.ctx, vm, p.a.pools, true))
	}
	p.a.wantAbsent(vm.ID)
}
