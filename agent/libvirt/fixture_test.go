//go:build linux

package libvirt_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

type backend = hypervisor.Hypervisor

func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

func poolStatusOf(t *testing.T, b backend, p fleet.Pool) fleet.PoolStatus {
	t.Helper()
	s, err := b.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{p}}})
	if err != nil || !s.Host.Connected || len(s.Pools) != 1 {
		t.Fatalf("snapshot: %v, %+v", err, s)
	}
	return s.Pools[0].Status
}

// fixture is an open backend with one pool. Its VMs are deleted when the test ends.
type fixture struct {
	backend
	t    *testing.T
	pool fleet.Pool
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	return newFixtureOn(t, b)
}

func newFixtureOn(t *testing.T, b backend) fixture {
	t.Helper()
	f := fixture{backend: b, t: t}
	f.pool = fleet.Pool{
		ID: fleet.NewID[fleet.PoolID](), Generation: 1,
		Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(t.TempDir(), "pool")},
	}
	f.pool.Name = "pool-" + string(f.pool.ID)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := f.ReleasePool(ctx, f.pool); err != nil {
			t.Error(err)
		}
	})
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	return f
}

func (f fixture) requireNoError(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) newVM() fleet.VM {
	id := fleet.NewID[fleet.VMID]()
	vm := fleet.VM{
		Meta: fleet.Meta{ID: id, Name: "vm-" + string(id), Generation: 1},
		Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
	}
	f.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := f.DeleteVM(ctx, vm, []fleet.Pool{f.pool}, true); err != nil {
			f.t.Error(err)
		}
	})
	return vm
}

func (f fixture) apply(vm fleet.VM) {
	f.t.Helper()
	f.requireNoError(f.ApplyVM(f.t.Context(), applyJob(vm, f.pool)))
}

func (f fixture) newDisk(name string) fleet.Disk {
	return fleet.Disk{PoolID: f.pool.ID, Volume: name, SizeBytes: 8 << 20}
}
