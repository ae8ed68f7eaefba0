//go:build linux && ordeal

package libvirt_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt"
	"quantix/agent/pooldir"
	"quantix/agent/seed"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// faultRunner runs jobs in the process of a child agent and injects a fault at one place of each job. A place is a
// reported step, or the time just before, during or after a libvirt call that changes something.
type faultRunner struct {
	fixture
	proxy       *libvirtProxy
	book        string         // the PoolBook shared by the agents of the host
	stepCount   int            // number of steps of the last job
	faultCount  int            // number of places interrupted in this run
	faultCounts map[string]int // number of places interrupted in this run, by fault
	placeCount  int            // number of places of all jobs, including those skipped in this run
}

func newFaultRunner(t *testing.T) *faultRunner {
	t.Helper()
	path := t.TempDir()
	b := openBackendWithBook(t, libvirt.DefaultSocket, must(state.OpenPoolRecords(path)))
	t.Cleanup(func() { b.Close() })
	return &faultRunner{fixture: newFixtureOn(t, b), proxy: newProxy(t), book: path, faultCounts: map[string]int{}}
}

// placeDivisor reduces the duration of a run on real libvirt: the run injects a fault only at every third place. Runs
// with other seeds use other places. The conformance suite of the mock injects faults at all places.
const placeDivisor = 3

// injectedFault is a failure that can be injected at a place.
type injectedFault struct {
	name   string
	first  int    // first place where the fault may happen
	every  int    // distance between places where the fault may happen
	atStep string // required step text at the place; empty: any
	// inject injects the fault and reports whether the agent continues.
	inject func(c *faultRunner, r *childRun, place int) bool
}

// places returns the first place where this run injects the fault, and the distance to the next.
func (f injectedFault) places(t *testing.T) (first, every int) {
	t.Helper()
	return f.first + f.every*tier.InterruptionOffset(t, placeDivisor), f.every * placeDivisor
}

// countPlaces returns the number of places where the fault may happen in a job with the given number of steps.
func (f injectedFault) countPlaces(steps int) int { return max(0, (steps-f.first+f.every)/f.every) }

func killAgent(c *faultRunner, r *childRun, _ int) bool {
	c.requireNoError(r.cmd.Process.Kill())
	return false
}

// killAgentLater kills the agent after a random delay, possibly between two reported steps.
func killAgentLater(_ *faultRunner, r *childRun, place int) bool {
	time.AfterFunc(time.Duration(place*7%17)*time.Millisecond, func() { _ = r.cmd.Process.Kill() })
	return true
}

// killServer kills and restarts libvirtd. The agent continues, and its job may fail.
func killServer(c *faultRunner, _ *childRun, _ int) bool {
	stopLibvirtd(c.t)
	startLibvirtd(c.t)
	return true
}

// pausedCall is a libvirt call that waits in the proxy until the test decides whether the call may continue.
type pausedCall struct {
	step     string
	place    bool // whether a fault may be injected at this call
	decision chan bool
}

// runInterrupted runs the job and injects the fault at the job's nth place; 0 means no fault. It returns the place, or
// "" if the job has fewer places, and the job's error. It adds the job's recorded files to o, as the retry needs them.
func (c *faultRunner) runInterrupted(o *childJob, n int, f injectedFault) (where string, err error) {
	c.t.Helper()
	asks, over := make(chan pausedCall), make(chan struct{})
	c.proxy.changes.Store(&changeObserver{onChange: func(what string) bool {
		a := pausedCall{step: what, place: true, decision: make(chan bool, 1)}
		select {
		case asks <- a:
			return <-a.decision
		case <-over:
			return false
		}
	}})
	r := startChild(c.t, c.proxy.socket, *o)
	defer close(over)
	defer r.drain()
	c.stepCount = 0
	reached := func(what string) (goOn bool) {
		if f.atStep != "" && f.atStep != what {
			return true
		}
		if c.stepCount++; c.stepCount != n {
			return true
		}
		where = what
		return f.inject(c, r, n)
	}
	err = fmt.Errorf("the agent was killed")
	for {
		select {
		case a := <-asks:
			a.decision <- reached(a.step)
		case line, more := <-r.lines:
			switch {
			case !more:
				return where, err
			case strings.HasPrefix(line, childFailed):
				err = fmt.Errorf("%s", strings.TrimPrefix(line, childFailed))
			case line == childDone:
				err = nil
			case strings.HasPrefix(line, childStep):
				if reached(strings.TrimPrefix(line, childStep)) {
					r.answer()
				}
			default:
				if reached("before the record of a created file") && c.recordFile(o, line) && reached("after the record of a created file") {
					r.answer()
				}
			}
		}
	}
}

// recordFile adds the file or disk in the child's line to o, as the portal records it, and returns true.
func (c *faultRunner) recordFile(o *childJob, line string) bool {
	if file, ok := strings.CutPrefix(line, childWhole); ok {
		o.File = file
		return true
	}
	var ref fleet.Volref
	c.requireNoError(json.Unmarshal([]byte(strings.TrimPrefix(line, childMade)), &ref))
	o.Made = append(o.Made, ref)
	return true
}

// retryJob retries the job without faults until it succeeds, up to three times.
func (c *faultRunner) retryJob(when string, o childJob) {
	c.t.Helper()
	c.waitReconnected()
	var all []error
	for range 3 {
		err := o.run(c.t.Context(), c.backend, nil)
		if err == nil {
			return
		}
		all = append(all, err)
		c.waitReconnected()
	}
	c.t.Fatalf("%s: the retried job: %v", when, all)
}

// waitReconnected waits until the backend has reconnected to libvirt.
func (c *faultRunner) waitReconnected() {
	c.t.Helper()
	waitFor(c.t, "the backend has reconnected to libvirt", func() bool {
		_, err := c.HostState(c.t.Context(), hypervisor.Assignment{})
		s, _ := c.HostState(c.t.Context(), hypervisor.Assignment{})
		return err == nil && s.Host.Connected
	})
}

// interruptedJob describes a job and the checks for its interruptions.
type interruptedJob struct {
	name string
	// begin creates the state before the job, and returns the job.
	begin func(when string) childJob
	// between checks the state after an interruption; nil: no check.
	between func(when string)
	// check checks the final state and cleans up.
	check func(when string, o childJob)
}

// runAllFaults runs the job once for each fault and each selected step of the job, and injects the fault at that step.
func (c *faultRunner) runAllFaults(d interruptedJob, faults ...injectedFault) {
	c.t.Helper()
	for _, f := range faults {
		first, every := f.places(c.t)
		for n := first; ; n += every {
			when := fmt.Sprintf("%s, %s at place %d", d.name, f.name, n)
			o := d.begin(when)
			where, err := c.runInterrupted(&o, n, f)
			if where == "" && err != nil {
				c.t.Fatalf("%s: %v", when, err)
			}
			if when += " (" + where + ")"; where != "" {
				c.faultCount++
				c.faultCounts[f.name]++
			}
			if d.between != nil {
				c.waitReconnected()
				d.between(when)
			}
			c.retryJob(when, o)
			d.check(when, o)
			if where == "" {
				c.placeCount += f.countPlaces(c.stepCount)
				break
			}
		}
	}
}

// wantPoolFiles requires exactly these files in the pool.
func (c *faultRunner) wantPoolFiles(when string, names ...string) {
	c.t.Helper()
	var have []string
	for _, e := range must(os.ReadDir(c.pool.Spec.Path)) {
		if e.Name() != pooldir.MarkerFile {
			have = append(have, e.Name())
		}
	}
	if slices.Sort(names); !slices.Equal(have, names) {
		c.t.Fatalf("%s: the pool has %q, want %q", when, have, names)
	}
}

// wantSeedCount requires n seed files of the VM on the host, complete or partial.
func (c *faultRunner) wantSeedCount(when string, id fleet.VMID, n int) {
	c.t.Helper()
	all, err := os.ReadDir(filepath.Join(seed.DefaultDir, string(id)))
	if len(all) != n || n == 0 && !os.IsNotExist(err) {
		c.t.Fatalf("%s: the first-boot seeds are %v, %v; want %d", when, all, err, n)
	}
}

// wantUEFIVarsCount requires n files of UEFI variables of the VM.
func (c *faultRunner) wantUEFIVarsCount(when string, id fleet.VMID, n int) {
	c.t.Helper()
	if all := must(filepath.Glob("/var/lib/libvirt/qemu/nvram/*" + string(id) + "*")); len(all) != n {
		c.t.Fatalf("%s: the firmware's variables are %q, want %d", when, all, n)
	}
}

// requireNoDrift requires that the VM's definition, running guest and disks match its spec.
func (c *faultRunner) requireNoDrift(when string, vm fleet.VM) fleet.VMStatus {
	c.t.Helper()
	s, _, err := c.VM(c.t.Context(), vm.ID)
	c.requireNoError(err)
	if len(s.Drift)+len(s.Faults)+len(s.NextBoot) > 0 || len(s.Disks) != len(vm.Spec.Disks) || len(s.NICs) != len(vm.Spec.NICs) {
		c.t.Fatalf("%s: drift %+v, faults %+v, next boot %q, disks %+v, NICs %+v", when, s.Drift, s.Faults, s.NextBoot, s.Disks, s.NICs)
	}
	for _, d := range s.Disks {
		checkChain(c.t, d.Path)
	}
	return s
}

// waitIdle waits until libvirtd is idle. libvirtd completes calls that a killed agent started, and a killed libvirtd
// takes seconds to restart.
func (c *faultRunner) waitIdle() {
	c.t.Helper()
	waitFor(c.t, "libvirtd is idle", func() bool {
		out := run(c.t, "virt-admin", "-c", "libvirtd:///system", "srv-threadpool-info", "libvirtd")
		number := func(name string) (n int) {
			_, rest, _ := strings.Cut(out, name)
			_, rest, found := strings.Cut(rest, ":")
			if fields := strings.Fields(rest); found && len(fields) > 0 {
				n, _ = strconv.Atoi(fields[0])
			}
			return n
		}
		all := number("nWorkers")
		if all == 0 {
			c.t.Fatalf("libvirtd's workers: %s", out)
		}
		return number("freeWorkers") == all && number("jobQueueDepth") == 0
	})
}

// deleteCompletely deletes the VM with its disks and requires that only the given files remain in the pool.
func (c *faultRunner) deleteCompletely(when string, vm fleet.VM, files ...string) {
	c.t.Helper()
	c.requireNoError(c.DeleteVM(c.t.Context(), vm, []fleet.Pool{c.pool}, true))
	c.wantPoolFiles(when+", deleted", files...)
	c.wantSeedCount(when+", deleted", vm.ID, 0)
	c.wantUEFIVarsCount(when+", deleted", vm.ID, 0)
	if out, err := tryVirsh("domstate", string(vm.ID)); err == nil {
		c.t.Fatalf("%s: the deleted VM is still defined: %s", when, out)
	}
}

// logFaultPlaces logs the number of places with a fault, and requires that the jobs have at least the given number of
// places.
func (c *faultRunner) logFaultPlaces(least int) {
	c.t.Helper()
	if c.t.Logf("interrupted at %d of %d places: %v", c.faultCount, c.placeCount, c.faultCounts); c.placeCount < least {
		c.t.Errorf("the jobs have %d places, fewer than %d: does a step report no progress?", c.placeCount, least)
	}
}
