package agent_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// delayedReader is a host that can delay the result of a read: it then returns the state from before the delay.
type delayedReader struct {
	*counted
	mu      sync.Mutex
	delayed *heldRead
}

type heldRead struct {
	has     chan struct{} // closed once the state is read
	release chan struct{}
	open    func() // lets the delayed read return
}

// delayNextRead delays the result of the next read, at the latest until the test ends.
func (l *delayedReader) delayNextRead(t *testing.T) *heldRead {
	t.Helper()
	h := &heldRead{has: make(chan struct{}), release: make(chan struct{})}
	h.open = sync.OnceFunc(func() { close(h.release) })
	t.Cleanup(h.open)
	l.mu.Lock()
	l.delayed = h
	l.mu.Unlock()
	return h
}

func (l *delayedReader) HostState(ctx context.Context, on hypervisor.Assignment) (wire.State, error) {
	s, err := l.counted.HostState(ctx, on)
	l.mu.Lock()
	h := l.delayed
	l.delayed = nil
	l.mu.Unlock()
	if h != nil {
		close(h.has)
		<-h.release
	}
	return s, err
}

// reportCount returns the number of reports received.
func (p *portal) reportCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reports)
}

// waitReports waits for n more reports.
func (p *portal) waitReports(n int) {
	p.t.Helper()
	from := p.reportCount()
	p.waitUntil("further reports", func() bool { return len(p.reports) >= from+n })
}

// A read that began before a job must not undo the job's effect: a guest that a user powered off stays off, even if its
// host goes down before the next read.
func TestHostReadBegunBeforeJobIsIgnored(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &delayedReader{counted: newCounted()}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host)
	always := vmWithPolicy("always", fleet.VMPolicy{Restart: "always", Autostart: "last"})
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: always})
	p.waitReportedOn(host.counted, always)

	look := host.delayNextRead(t)
	<-look.has // the guest is on
	if f := p.runJob(wire.Work{Kind: fleet.VMShutdown, VM: always, Epoch: 2}); f.Outcome != wire.Done {
		t.Fatalf("shut down: %+v", f)
	}
	from := p.reportCount()
	look.open()
	p.waitStateSince(from, "it is off", func(s wire.State) bool {
		r, _ := reportedVM(s, always.ID)
		return r.Status.Power == fleet.Stopped
	})
	p.waitReports(5) // the policy would have restarted it by now
	if n := host.startCount(always.ID); n != 1 || host.powerOf(always.ID) != fleet.Stopped {
		t.Errorf("the VM that was shut down is %s after %d starts", host.powerOf(always.ID), n)
	}

	from = p.reportCount()
	p.runJob(wire.Work{Kind: fleet.VMStart, VM: always, Epoch: 3})
	p.waitStateSince(from, "it is on again", func(s wire.State) bool {
		r, _ := reportedVM(s, always.ID)
		return r.Status.Power == fleet.Running
	})
	look = host.delayNextRead(t)
	<-look.has
	p.runJob(wire.Work{Kind: fleet.VMStop, VM: always, Epoch: 4})
	begun := host.startCount(always.ID)
	go look.open()
	stop()
	host.boot = "boot-2"
	p.update(func() { p.reports = nil })
	p.startAgent(dir, host, host)
	p.waitFaults(always.ID, "after the reboot", func(codes []fleet.FaultCode) bool { return !slices.Contains(codes, fleet.FaultRebooted) })
	p.waitReports(5)
	if n := host.startCount(always.ID); n != begun || host.powerOf(always.ID) == fleet.Running {
		t.Errorf("the VM that was powered off is %s, started %d times since", host.powerOf(always.ID), n-begun)
	}
}
