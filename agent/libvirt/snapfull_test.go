//go:build linux && ordeal

package libvirt_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// newTmpfsPool returns a pool on a tmpfs of the given size.
func (f fixture) newTmpfsPool(size string) fleet.Pool {
	f.t.Helper()
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(f.t.TempDir(), "pool")}}
	p.Name = "pool-" + string(p.ID)
	f.requireNoError(os.Mkdir(p.Spec.Path, 0o755))
	run(f.t, "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", p.Spec.Path)
	f.t.Cleanup(func() { unmount(f.t, p.Spec.Path) })
	f.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := f.ReleasePool(ctx, p); err != nil {
			f.t.Error(err)
		}
	})
	f.requireNoError(f.ApplyPool(f.t.Context(), p))
	return p
}

// fillStorage fills the storage until only remaining bytes are free. free removes the filler.
func fillStorage(t *testing.T, dir string, remaining int64) (free func()) {
	t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, ".filler")
	f := must(os.Create(at))
	if err := errors.Join(syscall.Fallocate(int(f.Fd()), 0, 0, max(int64(s.Bavail)*s.Bsize-remaining, 4096)), f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
}

// wantNoSpaceError fails the test unless the job failed for lack of space, with an error that says what to do.
func wantNoSpaceError(t *testing.T, when string, err error) {
	t.Helper()
	if err == nil || fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Free space") {
		t.Errorf("%s: %v", when, err)
	}
}

// checkChains fails the test if a chain has a fault other than leaked clusters, which a failed write may leave.
func (s *snapper) checkChains(when string) {
	s.t.Helper()
	for _, d := range s.status().Disks {
		for at := d.Path; at != ""; at = backingOf(s.t, at) {
			out, err := exec.CommandContext(s.t.Context(), "qemu-img", "check", "-U", at).CombinedOutput()
			var ended *exec.ExitError
			if err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 3) {
				s.t.Fatalf("%s: %s: %v: %s", when, at, err, out)
			}
		}
	}
}

func backingOf(t *testing.T, path string) string {
	t.Helper()
	for line := range strings.Lines(run(t, "qemu-img", "info", "-U", path)) {
		if file, ok := strings.CutPrefix(line, "backing file: "); ok {
			return strings.TrimSpace(file)
		}
	}
	return ""
}

// If storage fills up during a snapshot, the VM keeps running unchanged. If storage fills up during a merge, the
// content of the chain is unchanged. Once there is free space, the job succeeds.
func TestFullStorageLosesNoSnapshotData(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pool = f.newTmpfsPool("320m")
	s := newSnapperOn(f)
	s.writeDisk('a')
	onFull := func(in hypervisor.SnapshotWork, at string, left int64, do func(hypervisor.SnapshotWork) error) error {
		t.Helper()
		free := func() {}
		in.Progress = func(_ int, note string) {
			if strings.Contains(note, at) && at != "" {
				free, at = fillStorage(t, s.pool.Spec.Path, left), ""
			}
		}
		err := do(in)
		if at != "" {
			t.Fatalf("the job never reached %q", at)
		}
		free()
		return err
	}
	take := func(in hypervisor.SnapshotWork) error { return s.TakeSnapshot(t.Context(), in) }
	drop := func(in hypervisor.SnapshotWork) error { return s.DeleteSnapshot(t.Context(), in) }

	s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	for _, left := range []int64{1 << 20, 64 << 10} { // while memory is saved, and before the first overlay
		in := s.snapshotWork(fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "full", Memory: true})
		wantNoSpaceError(t, "a snapshot with memory", onFull(in, "saving the guest's current state", left, take))
		if st := s.status(); st.Power != fleet.Running || st.Snapshots != nil {
			t.Fatalf("after a snapshot without free space: %s, %+v", st.Power, st.Snapshots)
		}
		s.stopAndCheckDisk("after a snapshot without free space", 'a')
		s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
	}
	for _, on := range []bool{true, false} {
		s.stopGuest()
		one := s.takeSnapshot(false)
		run(t, "qemu-io", "-f", "qcow2", "-c", map[bool]string{true: "write -P 98 0 28M", false: "write -P 98 30M 28M"}[on], s.currentDiskFile())
		if on {
			s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
		}
		in := s.snapshotWork(fleet.SnapshotParams{ID: one})
		wantNoSpaceError(t, "a merge", onFull(in, "merging", 8<<20, drop))
		st := s.status()
		if st.Snapshots == nil || st.Snapshots.Unfinished != "" || st.Snapshots.Merges == 0 || on != (st.Power == fleet.Running) {
			t.Fatalf("after a merge without free space: %s, %+v", st.Power, st.Snapshots)
		}
		s.checkChains("after a merge without free space")
		s.requireNoError(drop(s.snapshotWork(fleet.SnapshotParams{})))
		s.stopGuest()
		s.checkChains("merged once there was space")
		for _, d := range s.status().Disks { // repairs clusters that QEMU leaked
			_ = exec.CommandContext(t.Context(), "qemu-img", "check", "-q", "-r", "leaks", d.Path).Run()
		}
		s.stopAndCheckDisk("merged once there was space", 'b')
	}

	to := s.newTmpfsPool("8m")
	w := hypervisor.VolumeWork{
		Pool: to, SourcePool: &s.pool, Name: "copy.qcow2", Params: fleet.VolumeParams{Source: "disk.qcow2", SourcePool: s.pool.ID, Flatten: true},
		RecordFile: func(string) error { return nil }, Progress: func(int, string) {}, RecordChecksums: func(...hypervisor.VolumeChecksum) error { return nil },
	}
	wantNoSpaceError(t, "a full copy", s.CopyVolume(t.Context(), w))
	if left := must(os.ReadDir(to.Spec.Path)); len(left) > 1 || len(left) == 1 && !strings.HasPrefix(left[0].Name(), ".") {
		t.Errorf("the copy left %v", left)
	}
	s.stopAndCheckDisk("after a copy without free space", 'b')
}
