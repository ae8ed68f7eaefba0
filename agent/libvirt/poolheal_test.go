//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/agent/pooldir"
	"quantix/agent/state"
	"quantix/internal/fleet"
)

func markerPath(p fleet.Pool) string { return filepath.Join(p.Spec.Path, pooldir.MarkerFile) }

func waitPoolStatus(t *testing.T, b backend, p fleet.Pool, what string, ok func(fleet.PoolStatus) bool) {
	t.Helper()
	var last fleet.PoolStatus
	defer func() {
		if t.Failed() {
			last.Volumes = nil
			t.Logf("the pool was last %+v", last)
		}
	}()
	waitFor(t, "the pool is "+what, func() bool {
		last = poolStatusOf(t, b, p)
		return ok(last)
	})
}

func isPoolActive(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive }

// A pool that somebody undefined counts as stopped by others, and the agent does not restart the pool. An apply defines
// the pool again.
func TestPoolUndefinedOnHostIsNotRestarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waitPoolStatus(t, f, f.pool, "active", isPoolActive)
	virsh(t, "pool-destroy", f.pool.Name)
	virsh(t, "pool-undefine", f.pool.Name)
	waitPoolStatus(t, f, f.pool, "stopped by others", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolInactive && s.StoppedOutside })
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	waitPoolStatus(t, f, f.pool, "active", isPoolActive)
	virsh(t, "pool-destroy", f.pool.Name)
	waitPoolStatus(t, f, f.pool, "stopped by others", func(s fleet.PoolStatus) bool { return s.StoppedOutside })
	virsh(t, "pool-start", f.pool.Name)
	waitPoolStatus(t, f, f.pool, "active after a start by others", isPoolActive)
}

// A pool recovers without a job after its NFS server was unreachable at the first apply, and after the pool lost its
// mount.
func TestNFSPoolRecoversWithoutJob(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	dir := t.TempDir()
	away := filepath.Join(dir, "away")
	if err := os.WriteFile(away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := nfsPool(t, b, "flaky", dir)
	const message = "Connection refused for flaky"
	if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("apply: %v", err)
	}
	waitPoolStatus(t, b, p, "failed", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolFailed && strings.Contains(s.Error, message)
	})
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	waitPoolStatus(t, b, p, "active without a job", isPoolActive)
	if text, err := os.ReadFile(markerPath(p)); err != nil || strings.TrimSpace(string(text)) != string(p.ID) {
		t.Errorf("the marker is %q, %v", text, err)
	}

	if err := os.WriteFile(away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unmount(t, p.Spec.Path)
	waitPoolStatus(t, b, p, "not mounted", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolFailed })
	if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("apply: %v", err)
	}
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	waitPoolStatus(t, b, p, "mounted again without a job", isPoolActive)

	// A server that exports another directory under the same name no longer has the pool's storage.
	virsh(t, "pool-destroy", p.Name)
	unmount(t, p.Spec.Path) // libvirt does not match this mount by its source, as it does for real NFS
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.ApplyPool(t.Context(), p); err == nil || !strings.Contains(err.Error(), "Another file system hides") {
		t.Errorf("apply on another export: %v", err)
	}
	if mounts, _ := os.ReadFile("/proc/mounts"); strings.Contains(string(mounts), p.Spec.Path) {
		t.Error("the wrong export is still mounted")
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	waitPoolStatus(t, b, p, "active on its own export", isPoolActive)
	t.Cleanup(func() { unmount(t, p.Spec.Path) })
}

// libvirt stops a pool whose directory is missing while libvirtd starts. The agent does not count this as a stop by
// others.
func TestPoolRecoversAfterLibvirtdRestart(t *testing.T) {
	f := newFixture(t) // runs alone, because it stops libvirtd for all tests
	stays := newFixture(t)
	waitPoolStatus(t, f, f.pool, "active", isPoolActive)
	aside := f.pool.Spec.Path + ".aside"
	stopLibvirtd(t)
	if err := os.Rename(f.pool.Spec.Path, aside); err != nil {
		t.Fatal(err)
	}
	startLibvirtd(t)
	waitFor(t, "the pool has failed", func() bool {
		s, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
		return err == nil && s.Host.Connected && s.Pools[0].Status.State == fleet.PoolFailed && strings.Contains(s.Pools[0].Status.Error, "is missing. When")
	})
	if err := os.Rename(aside, f.pool.Spec.Path); err != nil {
		t.Fatal(err)
	}
	waitPoolStatus(t, f, f.pool, "active without a job", isPoolActive)
	waitPoolStatus(t, stays, stays.pool, "active", isPoolActive)
}

// An agent from before pools had markers left its pool without a marker and without a record in its PoolBook. The first
// check adds both.
func TestPoolOfOlderAgentGetsMarkerOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if err := os.Remove(markerPath(f.pool)); err != nil {
		t.Fatal(err)
	}
	fresh, err := state.OpenPoolRecords(t.TempDir())
	f.requireNoError(err)
	b, err := libvirt.Open(t.Context(), libvirt.Options{PoolRoots: pooldir.PoolRoots{}, PoolBook: fresh})
	f.requireNoError(err)
	t.Cleanup(func() { b.Close() })
	waitPoolStatus(t, b, f.pool, "active", isPoolActive)
	if text, err := os.ReadFile(markerPath(f.pool)); err != nil || strings.TrimSpace(string(text)) != string(f.pool.ID) {
		t.Errorf("the marker is %q, %v", text, err)
	}
	if record, ok := fresh.RecordOf(f.pool); !ok || record.Place == nil || !record.Place.Marked {
		t.Errorf("the pool book has %+v", record)
	}
	// A pool that loses its marker after its first use gets no new marker.
	if err := os.Remove(markerPath(f.pool)); err != nil {
		t.Fatal(err)
	}
	waitPoolStatus(t, b, f.pool, "failed", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolFailed && strings.Contains(s.Error, "its marker .quantix-pool is missing")
	})
	if _, err := os.Stat(markerPath(f.pool)); !os.IsNotExist(err) {
		t.Errorf("the marker was written again: %v", err)
	}
}

// A local pool's release removes its marker. A shared pool keeps its marker until the pool is deleted.
func TestPoolReleaseRemovesLocalMarker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone := func() bool { _, err := os.Stat(markerPath(f.pool)); return os.IsNotExist(err) }
	if gone() {
		t.Error("the pool was not marked")
	}
	f.requireNoError(f.ReleasePool(t.Context(), f.pool))
	if !gone() {
		t.Error("a local pool's marker outlives its release")
	}
	shared := f.pool
	shared.Spec.Shared = true
	f.requireNoError(f.ApplyPool(t.Context(), shared))
	f.requireNoError(f.ReleasePool(t.Context(), shared))
	if gone() {
		t.Error("the release on one host removed a shared pool's marker")
	}
	f.requireNoError(f.ApplyPool(t.Context(), shared))
	now := time.Now()
	shared.DeletedAt = &now
	f.requireNoError(f.ReleasePool(t.Context(), shared))
	if !gone() {
		t.Error("a deleted pool's marker still exists")
	}
}

// The agent resolves a symbolic link in the pool's path before it checks the allowed directories, and creates nothing
// behind the link.
func TestPoolBehindSymlinkRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/var/lib/libvirt", link); err != nil {
		t.Fatal(err)
	}
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(link, "new-secrets")}}
	p.Name = "link-" + string(p.ID)
	if err := f.ApplyPool(t.Context(), p); fleet.CodeOf(err) != fleet.Forbidden || !strings.Contains(err.Error(), "which resolves to /var/lib/libvirt/new-secrets") {
		t.Errorf("apply: %v", err)
	}
	if _, err := tryVirsh("pool-info", p.Name); err == nil {
		t.Error("libvirt has the refused pool")
	}
	if _, err := os.Stat("/var/lib/libvirt/new-secrets"); !os.IsNotExist(err) {
		t.Errorf("the directory was created: %v", err)
	}
}

// A pool on a full file system stays active and reports no free space.
func TestFullPoolStaysActive(t *testing.T) {
	t.Parallel()
	b := openBackend(t)
	t.Cleanup(func() { b.Close() })
	dir := filepath.Join(t.TempDir(), "pool")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", dir)
	t.Cleanup(func() { unmount(t, dir) })
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: dir}}
	p.Name = "full-" + string(p.ID)
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := b.ReleasePool(ctx, p); err != nil {
			t.Error(err)
		}
	})
	if err := b.ApplyPool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	run(t, "sh", "-c", "cat /dev/zero >"+filepath.Join(dir, "more")+" 2>/dev/null; true")
	if err := b.ApplyPool(t.Context(), p); err != nil {
		t.Errorf("apply a full pool: %v", err)
	}
	waitPoolStatus(t, b, p, "full", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolActive && s.AvailableBytes == 0 && s.UsedBytes == s.CapacityBytes
	})
}
