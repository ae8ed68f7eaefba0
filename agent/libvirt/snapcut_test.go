//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// snapper is a fixture with a VM that gets snapshots.
type snapper struct {
	fixture
	vm             fleet.VM
	delayedRestart chan struct{} // closes when a delayed kill and restart has ended; nil if none is pending
}

func newSnapper(t *testing.T) *snapper {
	t.Helper()
	return newSnapperOn(newFixture(t))
}

func newSnapperOn(f fixture) *snapper {
	s := &snapper{fixture: f, vm: f.newVM()}
	s.vm.Spec.Disks = []fleet.Disk{{PoolID: f.pool.ID, Volume: "disk.qcow2", SizeBytes: 64 << 20}, {PoolID: f.pool.ID, Volume: "second.qcow2", SizeBytes: 8 << 20}}
	s.apply(s.vm)
	return s
}

func (s *snapper) snapshotWork(o fleet.SnapshotParams) hypervisor.SnapshotWork {
	return hypervisor.SnapshotWork{
		VM: s.vm, Pools: []fleet.Pool{s.pool}, Job: fleet.NewID[fleet.JobID](), Params: o, Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

func (s *snapper) takeSnapshot(memory bool) fleet.SnapshotID {
	s.t.Helper()
	o := s.snapshotWork(fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "one", Memory: memory})
	s.requireNoError(s.TakeSnapshot(s.t.Context(), o))
	return o.Params.ID
}

func (s *snapper) status() fleet.VMStatus {
	s.t.Helper()
	st, _, err := s.VM(s.t.Context(), s.vm.ID)
	s.requireNoError(err)
	return st
}

func (s *snapper) reportedTree() fleet.SnapshotTree {
	s.t.Helper()
	if t := s.status().Snapshots; t != nil {
		return *t
	}
	return fleet.SnapshotTree{}
}

// stopGuest stops the guest if it runs.
func (s *snapper) stopGuest() {
	s.t.Helper()
	s.requireNoError(s.StopVM(s.t.Context(), s.vm.ID))
}

func (s *snapper) currentDiskFile() string { return s.status().Disks[0].Path }

func (s *snapper) writeDisk(b byte) {
	s.t.Helper()
	run(s.t, "qemu-io", "-f", "qcow2", "-c", fmt.Sprintf("write -P %d 0 1M", b), s.currentDiskFile())
}

func (s *snapper) readDisk() byte {
	s.t.Helper()
	_, out, _ := strings.Cut(run(s.t, "qemu-io", "-r", "-f", "qcow2", "-c", "read -v 0 16", s.currentDiskFile()), "00000000:")
	return byte(must(strconv.ParseUint(strings.Fields(out)[0], 16, 8)))
}

// stopAndCheckDisk stops the guest and checks the first disk, which must start with the wanted byte. It fails the test
// if unfinished work, a broken backing chain or an extra file is left.
func (s *snapper) stopAndCheckDisk(when string, wanted byte) {
	s.t.Helper()
	st := s.status()
	if st.Snapshots != nil && (st.Snapshots.Unfinished != "" || st.Snapshots.Merges > 0) || len(st.Faults)+len(st.Drift) > 0 {
		s.t.Fatalf("%s: %+v, faults %v, drift %v", when, st.Snapshots, st.Faults, st.Drift)
	}
	s.stopGuest()
	for _, d := range s.status().Disks {
		checkChain(s.t, d.Path)
	}
	if got := s.readDisk(); got != wanted {
		s.t.Fatalf("%s: the disk has %q, want %q", when, got, wanted)
	}
	files, err := os.ReadDir(s.pool.Spec.Path)
	s.requireNoError(err)
	n := 0
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") {
			n++
		}
	}
	wantFiles := 2
	for _, snap := range s.reportedTree().Snapshots {
		if wantFiles += 2; snap.Memory {
			wantFiles++
		}
	}
	if n != wantFiles {
		s.t.Fatalf("%s: the pool has %d files, want %d: %v", when, n, wantFiles, files)
	}
}

// canStartAfter reports whether libvirt can still start guests after the interruption.
func canStartAfter(c processKill) bool { return !strings.HasSuffix(c.name, "a moment later") }

// errAgentKilled simulates the death of the agent.
var errAgentKilled = errors.New("killed")

// goroutineName returns the name of the calling goroutine, as in a stack trace.
func goroutineName() string {
	trace := make([]byte, 64)
	name, _, _ := bytes.Cut(trace[:runtime.Stack(trace, false)], []byte(" ["))
	return string(name)
}

// runUntilStep runs the job and calls interrupt at the job's nth step. seen is the number of steps that the job
// reached; it is below n if the job ended earlier. Progress from other goroutines, such as the progress of a long
// write, does not count as a step, because a panic there would not end the job.
func runUntilStep(n int, in hypervisor.SnapshotWork, do func(hypervisor.SnapshotWork) error, interrupt func()) (seen int, err error) {
	own := goroutineName()
	in.Progress = func(int, string) {
		if goroutineName() != own {
			return
		}
		if seen++; seen == n {
			interrupt()
		}
	}
	defer func() {
		switch p := recover(); cause := p.(type) {
		case nil:
		case error:
			if err = cause; !errors.Is(cause, errAgentKilled) {
				panic(p)
			}
		default:
			panic(p)
		}
	}()
	err = do(in)
	return seen, err
}

// processKill is a way to interrupt a job.
type processKill struct {
	name  string
	first int // the first step to interrupt
	every int // the distance between interrupted steps; slow interruptions do not cover each step
	do    func(s *snapper)
}

func killLibvirtd(s *snapper) {
	stopLibvirtd(s.t)
	startLibvirtd(s.t)
}

func killQEMU(s *snapper) {
	pid := qemuPIDOf(s.t, s.vm)
	if pid == 0 {
		return // the guest is off
	}
	killQEMUProcess(s.t, pid)
	waitFor(s.t, "QEMU is gone", func() bool { return powerOf(s.t, s.vm.ID) != fleet.Running && powerOf(s.t, s.vm.ID) != fleet.Paused })
}

var processKills = []processKill{
	{"libvirtd is killed a moment later", 1, 3, func(s *snapper) {
		s.delayedRestart = make(chan struct{})
		time.AfterFunc(30*time.Millisecond, func() { defer close(s.delayedRestart); killLibvirtd(s) })
	}},
	{"the agent ends", 1, 1, func(*snapper) { panic(errAgentKilled) }},
	{"libvirtd is killed", 2, 3, killLibvirtd},
	{"QEMU is killed", 3, 3, killQEMU},
}

// minInterruptedSteps is the minimum number of interruptible steps in all snapshot jobs.
const minInterruptedSteps = 60

// Whichever process is killed at any step, the repeated job leaves the VM as before or as requested: the guest runs,
// its disks are valid, and no extra file is left.
func TestInterruptedSnapshotJobsCompleteOnRetry(t *testing.T) {
	s := newSnapper(t)
	s.writeDisk('a')
	ended := false // the test stopped the guest, because libvirt had lost it or its block job
	// reached waits until the backend has reconnected after an interrupted job, and kills the QEMU of a guest that
	// libvirt has lost.
	reached := func() {
		t.Helper()
		ended = false
		if s.delayedRestart != nil {
			<-s.delayedRestart
			s.delayedRestart = nil
		}
		waitFor(t, "the backend has reconnected to libvirt", func() bool { _, _, err := s.VM(t.Context(), s.vm.ID); return err == nil })
		if s.isLostByLibvirt() {
			// If libvirt 9 is killed just as a merge begins, libvirt loses track of the guest. The agent refuses jobs
			// for the guest until somebody ends its QEMU.
			t.Log("libvirt has lost the guest")
			killQEMUProcess(t, qemuPIDOf(t, s.vm))
			ended = true
		}
	}
	drop := func(in hypervisor.SnapshotWork) error { return s.DeleteSnapshot(t.Context(), in) }
	again := func(when string, in hypervisor.SnapshotWork, do func(hypervisor.SnapshotWork) error) {
		t.Helper()
		in.Progress = func(int, string) {}
		err := do(in)
		for tries := 0; err != nil; tries++ {
			if t.Logf("%s: repeated job refused: %v", when, err); tries == 3 {
				t.Fatalf("%s: every repetition refused, last: %v", when, err)
			}
			// A refused or undone job has changed nothing, so a new job may try again.
			in.Job = fleet.NewID[fleet.JobID]()
			switch {
			case strings.Contains(err.Error(), "no longer has this snapshot"):
				// The snapshot is deleted; the page offers to merge its remaining files.
				in.Params.ID, do = "", drop
			case strings.Contains(err.Error(), "Shut the guest down"):
				// Until the guest is off, libvirt lists the merge as running, although QEMU has finished it.
				s.stopGuest()
				ended = true
			}
			err = do(in)
		}
	}
	take := func(in hypervisor.SnapshotWork) error { return s.TakeSnapshot(t.Context(), in) }
	revert := func(in hypervisor.SnapshotWork) error { return s.RevertSnapshot(t.Context(), in) }
	covered, all := 0, 0
	for _, c := range processKills {
		may := injectedFault{first: c.first, every: c.every}
		first, every := may.places(t)
		until := func(n int, in hypervisor.SnapshotWork, do func(hypervisor.SnapshotWork) error, happens func()) (done bool, err error) {
			seen, err := runUntilStep(n, in, do, happens)
			if seen < n {
				all += may.countPlaces(seen)
				return true, err
			}
			covered++
			return false, err
		}
		for _, on := range []bool{true, false} {
			// For a stopped guest, only the agent's end is tested: there is no QEMU to kill, and libvirt writes only
			// the definition.
			if !on && c.name != "the agent ends" {
				continue
			}
			state := map[bool]string{true: "on", false: "off"}[on]
			begin := func() {
				t.Helper()
				if on {
					s.requireNoError(s.StartVM(t.Context(), s.vm.ID))
				}
			}
			for n := first; ; n += every {
				when := fmt.Sprintf("take, %s, %s at step %d", state, c.name, n)
				begin()
				in := s.snapshotWork(fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "cut", Memory: on})
				done, err := until(n, in, take, func() { c.do(s) })
				reached()
				if err != nil || !done {
					again(when, in, take)
				}
				if p := s.status().Power; on && !ended && c.name != "QEMU is killed" && p != fleet.Running {
					t.Fatalf("%s: the guest is %s", when, p)
				}
				if tree := s.reportedTree(); len(tree.Snapshots) != 1 || tree.Current != in.Params.ID {
					t.Fatalf("%s: %+v", when, tree)
				}
				s.stopAndCheckDisk(when, 'a')
				s.requireNoError(drop(s.snapshotWork(fleet.SnapshotParams{ID: in.Params.ID})))
				s.stopAndCheckDisk(when+", deleted", 'a')
				if done {
					break
				}
			}
			begin()
			id := s.takeSnapshot(on)
			// If libvirt 9 is killed in the middle of a guest's start, it blocks the guest for all later calls, even
			// after a restart.
			for n := first; canStartAfter(c); n += every {
				when := fmt.Sprintf("revert, %s, %s at step %d", state, c.name, n)
				s.stopGuest()
				s.writeDisk('b')
				begin()
				in := s.snapshotWork(fleet.SnapshotParams{ID: id})
				done, err := until(n, in, revert, func() { c.do(s) })
				reached()
				if err != nil || !done {
					again(when, in, revert)
				}
				if p := s.status().Power; on && !ended && c.name != "QEMU is killed" && p != fleet.Running {
					t.Fatalf("%s: the guest is %s", when, p)
				}
				s.stopAndCheckDisk(when, 'a')
				if done {
					break
				}
			}
			s.stopGuest()
			s.requireNoError(drop(s.snapshotWork(fleet.SnapshotParams{ID: id})))
			for n := first; ; n += every {
				when := fmt.Sprintf("delete, %s, %s at step %d", state, c.name, n)
				s.writeDisk('x')
				s.takeSnapshot(false)
				s.writeDisk('b')
				begin()
				middle := s.takeSnapshot(false)
				s.stopGuest()
				s.writeDisk('a')
				s.takeSnapshot(false)
				begin()
				in := s.snapshotWork(fleet.SnapshotParams{ID: middle})
				done, err := until(n, in, drop, func() { c.do(s) })
				reached()
				if err != nil || !done {
					again(when, in, drop)
				}
				if tree := s.reportedTree(); len(tree.Snapshots) != 2 || tree.SnapshotByID(middle) != nil {
					t.Fatalf("%s: %+v", when, tree)
				}
				s.stopAndCheckDisk(when, 'a')
				begin()
				all := s.snapshotWork(fleet.SnapshotParams{ID: s.reportedTree().Snapshots[0].ID, Subtree: true})
				gone, err := until(n, all, drop, func() { c.do(s) })
				reached()
				if err != nil || !gone {
					again(when+", all", all, drop)
				}
				s.stopAndCheckDisk(when+", all", 'a')
				if tree := s.reportedTree(); len(tree.Snapshots) != 0 {
					t.Fatalf("%s: %+v", when, tree)
				}
				if done && gone {
					break
				}
			}
		}
	}
	if t.Logf("interrupted in %d of %d places", covered, all); all < minInterruptedSteps {
		t.Errorf("the jobs have %d places, fewer than %d: does a step report no progress?", all, minInterruptedSteps)
	}
}
