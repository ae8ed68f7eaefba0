//go:build linux && ordeal

package libvirt_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// diskMoveFixture is a fixture with a VM whose disk moves to another pool.
type diskMoveFixture struct {
	fixture
	vm           fleet.VM
	pools        []fleet.Pool
	recordedFile string // the recorded identity of the copy, as in the agent's state file
}

// newDiskMoveFixture creates a VM with a disk of incompressible data.
func newDiskMoveFixture(t *testing.T, mib int) *diskMoveFixture {
	t.Helper()
	f := newFixture(t)
	raw := filepath.Join(t.TempDir(), "raw")
	run(t, "dd", "if=/dev/urandom", "of="+raw, "bs=1M", "count="+strconv.Itoa(mib), "status=none")
	run(t, "dd", "if=/dev/zero", "of="+raw, "bs=512", "count=1", "conv=notrunc", "status=none")
	run(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, f.volumePath("image.qcow2"))
	f.requireNoError(os.Remove(raw))
	m := &diskMoveFixture{fixture: f, vm: f.fixtureVM(), pools: []fleet.Pool{f.pool}}
	m.vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "disk.qcow2", Image: &fleet.Volref{PoolID: f.pool.ID, Volume: "image.qcow2"}}}
	return m
}

// fixtureVM returns a VM that the test deletes, because the fixture does not know the pools of its disks.
func (f fixture) fixtureVM() fleet.VM {
	id := fleet.NewID[fleet.VMID]()
	vm := fleet.VM{Meta: fleet.Meta{ID: id, Name: "vm-" + string(id), Generation: 1}, Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS}}
	f.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := f.DeleteVM(ctx, vm, nil, false); err != nil {
			f.t.Error(err)
		}
	})
	return vm
}

// newTargetPool returns another pool. With a size, the pool is on a file system of that size.
func (m *diskMoveFixture) newTargetPool(size string) fleet.Pool {
	m.t.Helper()
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(m.t.TempDir(), "pool")}}
	p.Name = "pool-" + string(p.ID)
	if size != "" {
		m.requireNoError(os.Mkdir(p.Spec.Path, 0o755))
		run(m.t, "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", p.Spec.Path)
		m.t.Cleanup(func() { unmount(m.t, p.Spec.Path) })
	}
	m.t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := m.DeleteVM(ctx, m.vm, nil, false); err != nil {
			m.t.Error(err)
		}
		if err := m.ReleasePool(ctx, p); err != nil {
			m.t.Error(err)
		}
	})
	m.requireNoError(m.ApplyPool(m.t.Context(), p))
	m.pools = append(m.pools, p)
	return p
}

func (m *diskMoveFixture) moveJob(to fleet.Pool, mibPerSecond int64) hypervisor.MoveDiskWork {
	return hypervisor.MoveDiskWork{
		VM: m.vm, Pools: m.pools, RecordedFile: m.recordedFile, Stop: make(chan struct{}), Progress: func(int, string) {},
		Params:     fleet.DiskMigrationParams{Disk: m.vm.Spec.Disks[0].Ref(), To: fleet.Volref{PoolID: to.ID, Volume: "disk.qcow2"}, RateBytes: mibPerSecond << 20},
		RecordFile: func(file string) error { m.recordedFile = file; return nil },
		RecordDisk: func(fleet.Volref) error { return nil },
	}
}

// wantDiskInPool requires that the guest and the definition use the disk in the pool, without drift or faults.
func (m *diskMoveFixture) wantDiskInPool(when string, p fleet.Pool) {
	m.t.Helper()
	s, _, err := m.VM(m.t.Context(), m.vm.ID)
	m.requireNoError(err)
	if len(s.Disks) != 1 || s.Disks[0].Path != filepath.Join(p.Spec.Path, "disk.qcow2") || len(s.NextBoot)+len(s.Faults)+len(s.Drift) > 0 {
		m.t.Fatalf("%s: %+v, at its next start %v, faults %v, drift %v", when, s.Disks, s.NextBoot, s.Faults, s.Drift)
	}
	if kept := virsh(m.t, "dumpxml", "--inactive", string(m.vm.ID)); !strings.Contains(kept, p.Spec.Path+"/disk.qcow2") || strings.Contains(kept, "<mirror") {
		m.t.Fatalf("%s: the definition is\n%s", when, kept)
	}
}

func (m *diskMoveFixture) wantEmptyPool(when string, p fleet.Pool) {
	m.t.Helper()
	left, err := filepath.Glob(filepath.Join(p.Spec.Path, "disk*"))
	m.requireNoError(err)
	if len(left) > 0 {
		m.t.Fatalf("%s: %v is left", when, left)
	}
}

// guestWriter is a guest that writes numbered blocks and prints each acknowledged number on its serial console.
type guestWriter struct {
	mu        sync.Mutex
	lastAcked int
}

func (m *diskMoveFixture) startWriter() *guestWriter {
	m.t.Helper()
	guest, err := lab.GuestImage(m.t.Context(), lab.CacheDir())
	m.requireNoError(err)
	run(m.t, "cp", guest.ISO, m.volumePath("guest.iso"))
	m.vm.Spec.ISO = &fleet.Volref{PoolID: m.pool.ID, Volume: "guest.iso"}
	m.apply(m.vm)
	m.requireNoError(m.StartVM(m.t.Context(), m.vm.ID))
	line := virsh(m.t, "ttyconsole", string(m.vm.ID))
	run(m.t, "stty", "-F", line, "raw", "-echo")
	tty, err := os.OpenFile(line, os.O_RDWR, 0)
	m.requireNoError(err)
	m.t.Cleanup(func() { tty.Close() })
	w := &guestWriter{}
	up := make(chan struct{})
	go func() {
		said, once := bufio.NewScanner(tty), sync.OnceFunc(func() { close(up) })
		for said.Scan() {
			text := strings.TrimSpace(said.Text())
			if text == "up" {
				once()
			}
			if _, number, ok := strings.Cut(text, "ack "); ok {
				if n, err := strconv.Atoi(number); err == nil {
					w.mu.Lock()
					w.lastAcked = n
					w.mu.Unlock()
				}
			}
		}
	}()
	waitFor(m.t, "the guest comes up", func() bool {
		_, err := tty.WriteString("\n[ -b /dev/vda ] && echo up\n")
		m.requireNoError(err)
		select {
		case <-up:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	_, err = tty.WriteString("stty -echo; i=0; while true; do i=$((i+1)); printf '%-511d\\n' $i | dd of=/dev/vda bs=512 seek=$i conv=notrunc,fsync 2>/dev/null && echo ack $i; done\n")
	m.requireNoError(err)
	return w
}

func (w *guestWriter) lastWritten() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastAcked
}

// waitForWrites waits until the guest has written at least n more blocks.
func (m *diskMoveFixture) waitForWrites(w *guestWriter, when string, n int) {
	m.t.Helper()
	from := w.lastWritten()
	waitFor(m.t, "the guest writes, "+when, func() bool { return w.lastWritten() >= from+n })
}

// A disk migrates while its guest writes: first interrupted, then cancelled, then to a full pool, and finally
// completely. No acknowledged write is lost.
func TestLiveDiskMigrationLosesNoWrite(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 48)
	to, full := m.newTargetPool(""), m.newTargetPool("16m")
	w := m.startWriter()
	m.waitForWrites(w, "before", 5)

	err := m.MoveDisk(t.Context(), m.moveJob(full, 0))
	if err == nil || !strings.Contains(err.Error(), "full") && !strings.Contains(err.Error(), "No space left") {
		t.Fatalf("to a pool without room: %v", err)
	}
	m.wantDiskInPool("after a pool without room", m.pool)
	m.wantEmptyPool("after a pool without room", full)
	m.waitForWrites(w, "after a pool without room", 5)

	// The copy is slow enough that a busy machine can cancel it before it is complete.
	back, stop := m.moveJob(to, 1), make(chan struct{})
	back.Stop, back.Progress = stop, doOnFirstProgress(func() { close(stop) })
	if err := m.MoveDisk(t.Context(), back); !errors.Is(err, hypervisor.ErrCancelled) {
		t.Fatalf("cancelled: %v", err)
	}
	m.wantDiskInPool("cancelled", m.pool)
	m.wantEmptyPool("cancelled", to)
	m.waitForWrites(w, "after the cancel", 5)

	// The agent ends during the copy. QEMU continues to copy, and the next agent waits for the copy.
	cut := m.moveJob(to, 1)
	ctx, end := context.WithCancel(t.Context())
	cut.Progress = doOnFirstProgress(end)
	if err := m.MoveDisk(ctx, cut); err == nil || errors.Is(err, hypervisor.ErrCancelled) {
		t.Fatalf("interrupted: %v", err)
	}
	if xml := virsh(t, "dumpxml", string(m.vm.ID)); !strings.Contains(xml, "<mirror") {
		t.Fatalf("QEMU does not continue the copy:\n%s", xml)
	}
	m.waitForWrites(w, "between two agents", 5)
	virsh(t, "blockjob", string(m.vm.ID), "vda", "--bandwidth", "64")
	next := openBackend(t)
	again := m.moveJob(to, 8)
	again.RecordFile = func(file string) error {
		if !strings.HasPrefix(file, m.recordedFile) {
			t.Errorf("the copy started again, as %s", file)
		}
		return nil
	}
	m.requireNoError(next.MoveDisk(t.Context(), again))
	m.requireNoError(next.Close())
	m.wantDiskInPool("moved", to)
	m.waitForWrites(w, "on the new disk", 20)
	acked := w.lastWritten()
	m.requireNoError(m.StopVM(t.Context(), m.vm.ID))
	m.wantDiskInPool("off", to)
	m.wantWrittenBlocks(filepath.Join(to.Spec.Path, "disk.qcow2"), acked)
	m.requireNoError(m.DeleteVolume(t.Context(), m.volumeJob("disk.qcow2", fleet.VolumeParams{}))) // the old volume belongs to no VM
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	m.requireNoError(m.StopVM(t.Context(), m.vm.ID))
}

// doOnFirstProgress returns a Progress that calls do once, at the first progress report of a copy.
func doOnFirstProgress(do func()) hypervisor.Progress {
	first := sync.OnceFunc(do)
	return func(int, string) { first() }
}

// wantWrittenBlocks requires that the disk has every block that the guest acknowledged.
func (m *diskMoveFixture) wantWrittenBlocks(disk string, acked int) {
	m.t.Helper()
	run(m.t, "qemu-img", "check", disk)
	raw := filepath.Join(m.t.TempDir(), "raw")
	run(m.t, "qemu-img", "convert", "-f", "qcow2", "-O", "raw", disk, raw)
	f, err := os.Open(raw)
	m.requireNoError(err)
	defer f.Close()
	block := make([]byte, 512)
	for n := 1; n <= acked; n++ {
		_, err := f.ReadAt(block, int64(n)*512)
		m.requireNoError(err)
		if got := strings.TrimSpace(string(block)); got != strconv.Itoa(n) {
			m.t.Fatalf("of %d blocks that were written, number %d has %.20q", acked, n, got)
		}
	}
	if acked < 30 {
		m.t.Errorf("the guest has written %d blocks only", acked)
	}
}

// The agent copies the disk of a stopped VM: interrupted, cancelled, and without free space. The disk stays in its old
// pool until the copy is complete.
func TestColdDiskMigrationKeepsSourceUntilDone(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 24)
	to, full := m.newTargetPool(""), m.newTargetPool("8m")
	m.apply(m.vm)
	before := m.readVolume("disk.qcow2")
	whole := func(when string, p fleet.Pool) {
		t.Helper()
		m.wantDiskInPool(when, m.pool)
		m.wantEmptyPool(when, p)
		if string(m.readVolume("disk.qcow2")) != string(before) {
			t.Fatalf("%s: the disk has changed", when)
		}
	}
	if err := m.MoveDisk(t.Context(), m.moveJob(full, 0)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "free on this host") {
		t.Fatalf("to a pool without room: %v", err)
	}
	whole("without room", full)

	back, stop := m.moveJob(to, 8), make(chan struct{})
	back.Stop, back.Progress = stop, doOnFirstProgress(func() { close(stop) })
	if err := m.MoveDisk(t.Context(), back); !errors.Is(err, hypervisor.ErrCancelled) {
		t.Fatalf("cancelled: %v", err)
	}
	whole("cancelled", to)

	cut := m.moveJob(to, 8)
	ctx, end := context.WithCancel(t.Context())
	cut.Progress = doOnFirstProgress(end)
	if err := m.MoveDisk(ctx, cut); err == nil || errors.Is(err, hypervisor.ErrCancelled) {
		t.Fatalf("interrupted: %v", err)
	}
	m.wantDiskInPool("interrupted", m.pool)
	begun := m.recordedFile
	m.requireNoError(m.MoveDisk(t.Context(), m.moveJob(to, 0)))
	m.wantDiskInPool("moved", to)
	if m.recordedFile == "" || begun == "" {
		t.Error("the copy's file was not recorded")
	}
	moved, err := os.ReadFile(filepath.Join(to.Spec.Path, "disk.qcow2"))
	m.requireNoError(err)
	if string(moved) != string(before) {
		t.Error("the copy differs")
	}
	m.requireNoError(m.DeleteVolume(t.Context(), m.volumeJob("disk.qcow2", fleet.VolumeParams{})))
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	m.requireNoError(m.StopVM(t.Context(), m.vm.ID))
}

// If somebody writes to the disk or starts the VM during the copy, the copy is discarded.
func TestColdDiskMigrationAbortsWhenDiskChanges(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 16)
	to := m.newTargetPool("")
	m.apply(m.vm)
	for how, do := range map[string]func(){
		"written to": func() { run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 7 1M 64k", m.volumePath("disk.qcow2")) },
		"started":    func() { virsh(t, "start", string(m.vm.ID)) },
	} {
		in := m.moveJob(to, 8)
		in.Progress = doOnFirstProgress(do)
		if err := m.MoveDisk(t.Context(), in); fleet.CodeOf(err) != fleet.Conflict {
			t.Fatalf("%s: %v", how, err)
		}
		m.wantDiskInPool(how, m.pool)
		m.wantEmptyPool(how, to)
		if how == "started" {
			virsh(t, "destroy", string(m.vm.ID))
		}
	}
}

// A disk with snapshots, an overlay, a saved memory image or a running block copy is not moved.
func TestDiskMigrationRefusedWithSnapshotOverlayOrBlockJob(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 2)
	to := m.newTargetPool("")
	m.apply(m.vm)
	id := string(m.vm.ID)
	refused := func(how, want string) {
		t.Helper()
		if err := m.MoveDisk(t.Context(), m.moveJob(to, 0)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
		m.wantEmptyPool(how, to)
	}
	virsh(t, "snapshot-create-as", id, "one")
	refused("with a snapshot", "snapshots")
	virsh(t, "snapshot-delete", id, "one")
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	virsh(t, "managedsave", id)
	refused("with its memory saved", "managedsave")
	virsh(t, "managedsave-remove", id)
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	virsh(t, "snapshot-create-as", id, "two", "--no-metadata", "--disk-only", "--diskspec", "vda,file="+m.volumePath("overlay.qcow2"), "--diskspec", "sda,snapshot=no")
	refused("with an overlay", "overlay.qcow2")
	virsh(t, "blockcommit", id, "vda", "--active", "--pivot", "--wait")
	m.requireNoError(os.Remove(m.volumePath("overlay.qcow2")))
	run(t, "qemu-img", "create", "-f", "qcow2", "-b", m.volumePath("disk.qcow2"), "-F", "qcow2", m.volumePath("child.qcow2"))
	refused("with an overlay volume", "child.qcow2")
	m.requireNoError(os.Remove(m.volumePath("child.qcow2")))
	virsh(t, "blockcopy", id, "vda", filepath.Join(t.TempDir(), "theirs"), "--transient-job", "--wait")
	refused("with a foreign copy", "blockjob")
	virsh(t, "blockjob", id, "vda", "--abort")
	m.requireNoError(m.MoveDisk(t.Context(), m.moveJob(to, 0)))
	m.wantDiskInPool("afterwards", to)
}
