//go:build linux && ordeal

package libvirt_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
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

// guestShell runs commands in a guest's shell over its serial console.
type guestShell struct {
	s       *snapper
	tty     *os.File
	mu      sync.Mutex
	answers map[string]string
	n       int
}

// openGuestShell opens the serial console of the running guest.
func (s *snapper) openGuestShell() *guestShell {
	s.t.Helper()
	line := virsh(s.t, "ttyconsole", string(s.vm.ID))
	run(s.t, "stty", "-F", line, "raw", "-echo")
	tty, err := os.OpenFile(line, os.O_RDWR, 0)
	s.requireNoError(err)
	s.t.Cleanup(func() { tty.Close() })
	k := &guestShell{s: s, tty: tty, answers: map[string]string{}}
	go func() {
		lines := bufio.NewScanner(tty)
		for lines.Scan() {
			_, answer, ok := strings.Cut(lines.Text(), "answer-")
			number, text, whole := strings.Cut(strings.TrimSpace(answer), ":")
			text, ended := strings.CutSuffix(text, ":end") // an echoed or incomplete command is not an answer
			if ok && whole && ended {
				k.mu.Lock()
				k.answers[number] = text
				k.mu.Unlock()
			}
		}
	}()
	return k
}

// run runs a command in the guest's shell and returns the last line of the output. A booting guest may lose input, so
// run repeats the first command until the guest answers. It sends each later command once, because a repeated command
// would run twice.
func (k *guestShell) run(command string) (answer string) {
	k.s.t.Helper()
	k.n++
	number, last := strconv.Itoa(k.n), time.Time{}
	waitFor(k.s.t, "the guest runs "+command, func() bool {
		k.mu.Lock()
		answered := len(k.answers) > 0
		k.mu.Unlock()
		if last.IsZero() || !answered && time.Since(last) > 2*time.Second {
			last = time.Now()
			_, err := fmt.Fprintf(k.tty, "\necho ans''wer-%s:$( %s ):end\n", number, command)
			k.s.requireNoError(err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		var ok bool
		answer, ok = k.answers[number]
		return ok
	})
	return answer
}

// A guest that counts and writes to its disk is reverted to a snapshot with memory. The revert undoes later writes and
// resumes the killed program. The test uses BIOS, and UEFI with a TPM.
func TestRevertRestoresMemoryAndDisk(t *testing.T) {
	t.Parallel()
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, firmware := range []fleet.Firmware{fleet.BIOS, fleet.UEFI} {
		t.Run(string(firmware), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := &snapper{fixture: f, vm: f.newVM()}
			s.vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "disk.qcow2", SizeBytes: 64 << 20}}
			s.vm.Spec.Firmware, s.vm.Spec.MemoryMiB = firmware, 256
			s.vm.Spec.Security.TPM = firmware == fleet.UEFI
			from := func(file string) *fleet.Volref {
				run(t, "cp", file, s.volumePath(filepath.Base(file)))
				return &fleet.Volref{PoolID: f.pool.ID, Volume: filepath.Base(file)}
			}
			s.vm.Spec.Boot = fleet.VMBoot{Kernel: from(guest.Kernel), Initrd: from(guest.Initrd), Cmdline: "console=ttyS0 quiet no_timer_check"}
			s.apply(s.vm)
			s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
			k := s.openGuestShell()
			k.run("[ -b /dev/vda ] && printf before | dd of=/dev/vda conv=fsync,notrunc 2>/dev/null && echo written")
			k.run("(i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 0.1; done) >/dev/null 2>&1 & echo $! > /tmp/pid; echo counting")
			count := func(k *guestShell) int {
				n, err := strconv.Atoi(k.run("cat /tmp/count"))
				if err != nil {
					return 0 // the file is being written
				}
				return n
			}
			waitFor(t, "the program counts", func() bool { return count(k) > 5 })
			began := time.Now()
			id := s.takeSnapshot(true)
			t.Logf("a snapshot of a guest of 256 MiB took %s", time.Since(began))
			at := count(k)
			k.run("printf AFTER! | dd of=/dev/vda conv=fsync,notrunc 2>/dev/null; kill -9 $(cat /tmp/pid); while [ -d /proc/$(cat /tmp/pid) ]; do :; done; rm /tmp/count; echo gone")
			if got := k.run("cat /tmp/count 2>/dev/null || echo none"); got != "none" {
				t.Fatalf("before the revert the program is at %s", got)
			}
			checkChain(t, s.currentDiskFile())

			began = time.Now()
			s.requireNoError(s.RevertSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
			t.Logf("the revert took %s", time.Since(began))
			if st := s.status(); st.Power != fleet.Running || len(st.NextBoot)+len(st.Drift)+len(st.Faults) > 0 {
				t.Fatalf("after the revert: %+v", st)
			}
			k = s.openGuestShell()
			if got := k.run("echo 3 > /proc/sys/vm/drop_caches; dd if=/dev/vda bs=6 count=1 2>/dev/null"); got != "before" {
				t.Errorf("the disk has %q", got)
			}
			now := count(k)
			if now > at+600 || now == 0 {
				t.Errorf("the program is at %d, and was at %d", now, at)
			}
			waitFor(t, "the program runs on", func() bool { return count(k) > now })
			checkChain(t, s.currentDiskFile())
			s.requireNoError(s.DeleteSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
			waitFor(t, "the program runs on after the merge", func() bool { return count(k) > now })
			if s.status().Snapshots != nil || s.currentDiskFile() != s.volumePath("disk.qcow2") {
				t.Errorf("after the merge: %+v on %s", s.status().Snapshots, s.currentDiskFile())
			}
			checkChain(t, s.currentDiskFile())
		})
	}
}

// A revert also restores the UEFI variables and the TPM state.
func TestRevertRestoresFirmwareAndTPM(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &snapper{fixture: f, vm: f.newVM()}
	s.vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "disk.qcow2", SizeBytes: 8 << 20}}
	s.vm.Spec.Firmware, s.vm.Spec.Security.TPM = fleet.UEFI, true
	s.apply(s.vm)
	s.requireNoError(s.StartVM(t.Context(), s.vm.ID)) // the start creates the UEFI variables and the TPM state
	s.stopGuest()
	files := []string{filepath.Join("/var/lib/libvirt/qemu/nvram", string(s.vm.ID)+"_VARS.fd")}
	found, err := filepath.Glob(filepath.Join("/var/lib/libvirt/swtpm", string(s.vm.ID), "tpm2", "*.permall"))
	s.requireNoError(err)
	if files = append(files, found...); len(found) != 1 {
		t.Fatalf("the TPM's state is %v", found)
	}
	sums := func() (out []string) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			s.requireNoError(err)
			out = append(out, fmt.Sprintf("%x", sha256.Sum256(text)))
		}
		return out
	}
	was := sums()
	id := s.takeSnapshot(false)
	for _, file := range files {
		to, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		s.requireNoError(err)
		_, err = to.WriteString("more")
		s.requireNoError(err)
		s.requireNoError(to.Close())
	}
	s.requireNoError(s.RevertSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id, Start: true})))
	s.stopGuest()
	s.requireNoError(s.RevertSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
	if got := sums(); strings.Join(got, " ") != strings.Join(was, " ") {
		t.Errorf("the state's checksums are %v, were %v", got, was)
	}
	s.requireNoError(s.DeleteSnapshot(t.Context(), s.snapshotWork(fleet.SnapshotParams{ID: id})))
	left, err := filepath.Glob(filepath.Join("/var/lib/libvirt/quantix/snapshots", string(s.vm.ID), "*-*"))
	s.requireNoError(err)
	if len(left) > 0 {
		t.Errorf("the deleted snapshot left %v", left)
	}
}

// A snapshot without enough free space is refused before any change, and the guest keeps running.
func TestSnapshotRefusedWithoutFreeSpace(t *testing.T) {
	t.Parallel()
	m := newDiskMoveFixture(t, 2)
	full := m.newTargetPool("24m")
	m.vm.Spec.Disks[0] = fleet.Disk{PoolID: full.ID, Volume: "disk.qcow2", SizeBytes: 8 << 20}
	a := applyJob(m.vm, m.pools...)
	m.requireNoError(m.ApplyVM(t.Context(), a))
	m.requireNoError(m.StartVM(t.Context(), m.vm.ID))
	s := &snapper{fixture: m.fixture, vm: m.vm}
	in := func(o fleet.SnapshotParams) hypervisor.SnapshotWork {
		w := s.snapshotWork(o)
		w.Pools = m.pools
		return w
	}
	id := fleet.NewID[fleet.SnapshotID]()
	err := m.TakeSnapshot(t.Context(), in(fleet.SnapshotParams{ID: id, Name: "one", Memory: true}))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Free space there first") {
		t.Fatalf("with memory: %v", err)
	}
	if st := s.status(); st.Power != fleet.Running || st.Snapshots != nil || st.Disks[0].Path != filepath.Join(full.Spec.Path, "disk.qcow2") {
		t.Fatalf("after the refusal: %+v", st)
	}
	m.requireNoError(m.TakeSnapshot(t.Context(), in(fleet.SnapshotParams{ID: id, Name: "one"})))
	// A merge without enough free space leaves its files, and a later merge succeeds once there is space.
	s.stopGuest()
	run(t, "qemu-io", "-f", "qcow2", "-c", "write -P 7 0 7M", s.status().Disks[0].Path)
	filler := filepath.Join(full.Spec.Path, "filler")
	m.requireNoError(os.WriteFile(filler, make([]byte, 12<<20), 0o600))
	err = m.DeleteSnapshot(t.Context(), in(fleet.SnapshotParams{ID: id}))
	if fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "Free space there first") {
		t.Fatalf("merge: %v", err)
	}
	if tree := s.reportedTree(); tree.Merges != 1 || tree.SnapshotByID(id) != nil || tree.Unfinished != "" {
		t.Fatalf("after the refusal: %+v", tree)
	}
	m.requireNoError(os.Remove(filler))
	m.requireNoError(m.DeleteSnapshot(t.Context(), in(fleet.SnapshotParams{})))
	if s.status().Snapshots != nil || s.readDisk() != 7 {
		t.Errorf("after the merge: %+v, %d", s.status().Snapshots, s.readDisk())
	}
	m.requireNoError(m.DeleteVM(t.Context(), m.vm, m.pools, true))
}
