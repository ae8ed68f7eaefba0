//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func nfsPool(t *testing.T, b backend, server, export string) fleet.Pool {
	t.Helper()
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{
		Kind: fleet.PoolNFS, Path: filepath.Join(t.TempDir(), "mnt"), Server: server, Export: export, Shared: true,
	}}
	p.Name = "nfs-" + string(p.ID)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := b.ReleasePool(ctx, p); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestNFSPoolMountsAndUnmounts(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	p := nfsPool(t, b, "good", "/export")
	for range 2 {
		if err := b.ApplyPool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if st := poolStatusOf(t, b, p); st.State != fleet.PoolActive || st.CapacityBytes != 16<<20 || st.MountPath != p.Spec.Path {
			t.Errorf("the pool is %+v", st)
		}
	}
	moved := p
	moved.Spec.Server = "elsewhere"
	if err := b.ApplyPool(t.Context(), moved); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "good:/export") {
		t.Errorf("another server under one name: %v", err)
	}
	if err := b.ReleasePool(t.Context(), p); err != nil {
		t.Error(err)
	}
	if mounts, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(mounts), p.Spec.Path) {
		t.Error("the released pool is still mounted")
	}
}

func TestLargePoolListsFirstVolumes(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	for i := range 2001 {
		if err := os.WriteFile(filepath.Join(f.pool.Spec.Path, fmt.Sprintf("%04d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.requireNoError(b.ApplyPool(t.Context(), f.pool)) // refreshes the list
	waitFor(t, "the pool lists its files", func() bool { return len(poolStatusOf(t, b, f.pool).Volumes) > 0 })
	st := poolStatusOf(t, b, f.pool)
	if len(st.Volumes) != 2000 || st.State != fleet.PoolActive || !strings.Contains(st.Note, "2000 of the pool's 2001") {
		t.Errorf("%d volumes, %s, %q", len(st.Volumes), st.State, st.Note)
	}
}

func TestNFSPoolReportsServerRefusal(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	p := nfsPool(t, b, "refuses", "/export")
	const message = "access denied by server while mounting refuses:/export"
	if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("apply: %v", err)
	}
	if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed || !strings.Contains(st.Error, message) {
		t.Errorf("the pool is %+v", st)
	}
}

// A job for a pool with a hanging mount ends at its deadline, and the hanging mount affects nothing else on the host.
func TestNFSPoolStalledWhenMountHangs(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	dir := t.TempDir()
	hang := filepath.Join(dir, "hang")
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := nfsPool(t, b, "hangs", dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.ApplyPool(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply: %v", err)
	}
	if st := poolStatusOf(t, b, p); st.State != fleet.PoolStalled || !strings.Contains(st.Error, "did not answer") {
		t.Errorf("the pool is %+v", st)
	}
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "libvirt reports the mount's failure", func() bool {
		err := b.ApplyPool(t.Context(), p)
		return err != nil && strings.Contains(err.Error(), "mount.nfs: gave up")
	})
	if st := poolStatusOf(t, b, p); st.State != fleet.PoolFailed {
		t.Errorf("the pool is %+v", st)
	}
}

// Storage that hangs after the start of its pool blocks the refresh and every read of the pool, but nothing else on the
// host.
func TestHangingPoolBlocksNoOtherPoolOrVM(t *testing.T) {
	t.Parallel()
	proxy := newProxy(t)
	b := openBackendAt(t, proxy.socket)
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	if st := poolStatusOf(t, b, f.pool); st.State != fleet.PoolActive {
		t.Fatalf("the pool is %+v", st)
	}
	vm := f.newVM()
	proxy.drop.Store(procStoragePoolRefresh)
	if err := b.ReleasePool(t.Context(), f.pool); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.ApplyPool(ctx, f.pool); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply: %v", err)
	}
	waitFor(t, "the pool is stalled", func() bool {
		st := poolStatusOf(t, b, f.pool) // a report that waits for the refresh would never return
		return st.State == fleet.PoolStalled && strings.Contains(st.Error, "has not answered since")
	})
	f.apply(vm)
	f.requireNoError(b.StartVM(t.Context(), vm.ID))
	f.requireNoError(b.StopVM(t.Context(), vm.ID))
	vm.Spec.Disks = []fleet.Disk{f.newDisk("disk")}
	// A job that waits for the pool would end at this deadline with another error.
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.ApplyVM(ctx, applyJob(vm, f.pool)); fleet.CodeOf(err) != fleet.Unavailable {
		t.Errorf("a disk on a stalled pool: %v", err)
	}
	if n := proxy.dropped.Load(); n > 2 {
		t.Errorf("%d calls were sent to the hanging pool", n)
	}
	proxy.drop.Store(0)
	proxy.closeConnections()
	waitFor(t, "the pool answers again", func() bool {
		s, err := b.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
		return err == nil && s.Host.Connected && s.Pools[0].Status.State == fleet.PoolActive
	})
}
