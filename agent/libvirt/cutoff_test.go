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

	"quantix/agent"
	"quantix/agent/libvirt"
	"quantix/agent/seed"
	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// cutter has orders done by an agent in a process of its own, and cuts them off: in a place of theirs, which is a step that they tell of, or a moment before,
// in the middle of or after a call that changes something.
type cutter struct {
	fixture
	proxy  *proxy
	book   string         // where agents of the host remember its pools
	seen   int            // steps of the last order
	places int            // places cut off in this run
	kinds  map[string]int // places cut off in this run, by fault
	all    int            // places of all orders, including those that this run leaves out
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	path := t.TempDir()
	b := openWith(t, libvirt.DefaultSocket, must(agent.OpenPoolBook(path)))
	t.Cleanup(func() { b.Close() })
	return &cutter{fixture: newFixtureOn(t, b), proxy: newProxy(t), book: path, kinds: map[string]int{}}
}

// thin is how many times fewer places a run cuts off on real libvirt. Runs with other seeds take other places; the mock's conformance
// takes all of them.
const thin = 3

// fault is what happens in a place.
type fault struct {
	name  string
	first int    // the first place in which it may happen
	every int    // from each place in which it may happen to the next
	at    string // what is to be done there; empty: anything
	// happens reports whether the agent goes on.
	happens func(c *cutter, r *childRun, place int) bool
}

// places returns the first place in which this run has the fault happen, and the distance to the next.
func (f fault) places(t *testing.T) (first, every int) {
	t.Helper()
	return f.first + f.every*tier.Offset(t, thin), f.every * thin
}

// of returns the number of places in which the fault may happen in an order of that many steps.
func (f fault) of(steps int) int { return max(0, (steps-f.first+f.every)/f.every) }

func killAgent(c *cutter, r *childRun, _ int) bool {
	c.ok(r.cmd.Process.Kill())
	return false
}

// killAgentLater kills it at another moment each time, be it between two steps that nobody is told of.
func killAgentLater(_ *cutter, r *childRun, place int) bool {
	time.AfterFunc(time.Duration(place*7%17)*time.Millisecond, func() { _ = r.cmd.Process.Kill() })
	return true
}

// killServer kills libvirtd. The agent survives that, and its order fails or does not.
func killServer(c *cutter, _ *childRun, _ int) bool {
	stopLibvirtd(c.t)
	startLibvirtd(c.t)
	return true
}

type asked struct {
	what  string
	place bool // something can be cut off there
	goOn  chan bool
}

// cut has the order done, and cut off in the nth place of it; 0: nowhere. It is what the order came to: an error is why it failed, or that it was cut off.
// The order is as it is to be given again: with what was made kept in mind. where is the place; empty: it has fewer.
func (c *cutter) cut(o *childOrder, n int, f fault) (where string, err error) {
	c.t.Helper()
	asks, over := make(chan asked), make(chan struct{})
	c.proxy.changes.Store(&changeWatch{at: func(what string) bool {
		a := asked{what: what, place: true, goOn: make(chan bool, 1)}
		select {
		case asks <- a:
			return <-a.goOn
		case <-over:
			return false
		}
	}})
	r := startChild(c.t, c.proxy.socket, *o)
	defer close(over)
	defer r.end()
	c.seen = 0
	reached := func(what string) (goOn bool) {
		if f.at != "" && f.at != what {
			return true
		}
		if c.seen++; c.seen != n {
			return true
		}
		where = what
		return f.happens(c, r, n)
	}
	err = fmt.Errorf("the agent was killed")
	for {
		select {
		case a := <-asks:
			a.goOn <- reached(a.what)
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
					r.goOn()
				}
			default:
				if reached("before it is kept in mind what was made") && c.keep(o, line) && reached("after it is kept in mind what was made") {
					r.goOn()
				}
			}
		}
	}
}

func (c *cutter) keep(o *childOrder, line string) bool {
	if file, ok := strings.CutPrefix(line, childWhole); ok {
		o.File = file
		return true
	}
	var ref fleet.Volref
	c.ok(json.Unmarshal([]byte(strings.TrimPrefix(line, childMade)), &ref))
	o.Made = append(o.Made, ref)
	return true
}

// again gives the order again until it is done, as the portal does, by another agent.
func (c *cutter) again(when string, o childOrder) {
	c.t.Helper()
	c.back()
	var all []error
	for range 3 {
		err := o.do(c.t.Context(), c.backend, nil)
		if err == nil {
			return
		}
		all = append(all, err)
		c.back()
	}
	c.t.Fatalf("%s: the order given again: %v", when, all)
}

// back waits until the backend has found libvirt again.
func (c *cutter) back() {
	c.t.Helper()
	waitFor(c.t, "the backend has found libvirt again", func() bool {
		_, err := c.Snapshot(c.t.Context(), agent.Assigned{})
		s, _ := c.Snapshot(c.t.Context(), agent.Assigned{})
		return err == nil && s.Host.Connected
	})
}

// ordeal is an order that is cut off everywhere.
type ordeal struct {
	name string
	// begin makes all as it is before the order, which it returns.
	begin func(when string) childOrder
	// between demands what must hold where it was cut off; nil: nothing but that it can be given again.
	between func(when string)
	// check demands that all is as was asked, and takes it away.
	check func(when string, o childOrder)
}

// each cuts the order off in the places of each fault that this run takes.
func (c *cutter) each(d ordeal, faults ...fault) {
	c.t.Helper()
	for _, f := range faults {
		first, every := f.places(c.t)
		for n := first; ; n += every {
			when := fmt.Sprintf("%s, %s at place %d", d.name, f.name, n)
			o := d.begin(when)
			where, err := c.cut(&o, n, f)
			if where == "" && err != nil {
				c.t.Fatalf("%s: %v", when, err)
			}
			if when += " (" + where + ")"; where != "" {
				c.places++
				c.kinds[f.name]++
			}
			if d.between != nil {
				c.back()
				d.between(when)
			}
			c.again(when, o)
			d.check(when, o)
			if where == "" {
				c.all += f.of(c.seen)
				break
			}
		}
	}
}

// wantFiles demands that the pool has these files, and no other.
func (c *cutter) wantFiles(when string, names ...string) {
	c.t.Helper()
	var have []string
	for _, e := range must(os.ReadDir(c.pool.Spec.Path)) {
		if e.Name() != agent.PoolMarker {
			have = append(have, e.Name())
		}
	}
	if slices.Sort(names); !slices.Equal(have, names) {
		c.t.Fatalf("%s: the pool has %q, want %q", when, have, names)
	}
}

// wantSeeds demands that so many files lie on the host for the VM's first boot, whole or not.
func (c *cutter) wantSeeds(when string, id fleet.VMID, n int) {
	c.t.Helper()
	all, err := os.ReadDir(filepath.Join(seed.Dir, string(id)))
	if len(all) != n || n == 0 && !os.IsNotExist(err) {
		c.t.Fatalf("%s: for its first boot there is %v, %v; want %d", when, all, err, n)
	}
}

// wantVars demands that there are the firmware's variables of the VM, once, or that there are none.
func (c *cutter) wantVars(when string, id fleet.VMID, n int) {
	c.t.Helper()
	if all := must(filepath.Glob("/var/lib/libvirt/qemu/nvram/*" + string(id) + "*")); len(all) != n {
		c.t.Fatalf("%s: the firmware's variables are %q, want %d", when, all, n)
	}
}

// agrees demands that the VM is as its spec says: its definition, its guest where that runs, and its disks.
func (c *cutter) agrees(when string, vm fleet.VM) fleet.VMStatus {
	c.t.Helper()
	s, _, err := c.VM(c.t.Context(), vm.ID)
	c.ok(err)
	if len(s.Drift)+len(s.Faults)+len(s.NextBoot) > 0 || len(s.Disks) != len(vm.Spec.Disks) || len(s.NICs) != len(vm.Spec.NICs) {
		c.t.Fatalf("%s: drift %+v, faults %+v, next boot %q, disks %+v, NICs %+v", when, s.Drift, s.Faults, s.NextBoot, s.Disks, s.NICs)
	}
	for _, d := range s.Disks {
		checkChain(c.t, d.Path)
	}
	return s
}

// settled waits until libvirtd has done all that it was asked: it ends what it has begun for an agent that is killed, and the next
// one is there only seconds after.
func (c *cutter) settled() {
	c.t.Helper()
	waitFor(c.t, "libvirtd has nothing to do", func() bool {
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

// gone deletes the VM with its disks, and demands that nothing is left of it.
func (c *cutter) gone(when string, vm fleet.VM, files ...string) {
	c.t.Helper()
	c.ok(c.DeleteVM(c.t.Context(), vm, []fleet.Pool{c.pool}, true))
	c.wantFiles(when+", deleted", files...)
	c.wantSeeds(when+", deleted", vm.ID, 0)
	c.wantVars(when+", deleted", vm.ID, 0)
	if out, err := tryVirsh("domstate", string(vm.ID)); err == nil {
		c.t.Fatalf("%s: it is there still, %s", when, out)
	}
}

// tell reports how many places there were, and demands at least so many.
func (c *cutter) tell(least int) {
	c.t.Helper()
	if c.t.Logf("cut off in %d of %d places: %v", c.places, c.all, c.kinds); c.all < least {
		c.t.Errorf("the orders have %d places, fewer than %d: are there steps that report nothing?", c.all, least)
	}
}
