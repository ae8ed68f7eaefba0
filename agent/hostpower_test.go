package agent_test

import (
	"context"
	"strings"
	"testing"

	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// powerRecorder is a simulated host that records power commands instead of running them.
type powerRecorder struct {
	*mock.Host
	commands chan fleet.JobKind
}

func (h *powerRecorder) Power(_ context.Context, kind fleet.JobKind) error {
	h.commands <- kind
	return nil
}

func hostPowerWork(kind fleet.JobKind) wire.Work {
	return wire.Work{ID: fleet.NewID[fleet.JobID](), Kind: kind, Subject: fleet.SubjectHost("01890000-0000-7000-8000-000000000001"), Epoch: 1}
}

// TestHostPowerCommandRunsAfterPortalAcceptedResult checks that the command runs once, and only after the portal has
// accepted the job's end.
func TestHostPowerCommandRunsAfterPortalAcceptedResult(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), &powerRecorder{mock.New(mock.Options{Name: "host-1"}), make(chan fleet.JobKind, 8)}
	before := 0
	p.update(func() { p.beforeAck = func() { before = len(host.commands) } })
	p.startAgent(p.join(), host, host)
	for i, kind := range []fleet.JobKind{fleet.HostReboot, fleet.HostShutdown} {
		w := hostPowerWork(kind)
		w.Epoch = int64(2*i + 1)
		p.queueJob(w)
		if f := p.waitResult(w.ID); f.Outcome != wire.Done || f.Error != "" {
			t.Fatalf("%s ended %+v", kind, f)
		}
		if got := <-host.commands; got != kind {
			t.Errorf("the agent ran %s for %s", got, kind)
		}
		// The portal sends the job again: the agent returns the result from its journal.
		p.waitIdle()
		p.update(func() { p.finishes = nil })
		w.Epoch++
		p.queueJob(w)
		if f := p.waitResult(w.ID); f.Outcome != wire.Done {
			t.Errorf("the repeated job ended %+v", f)
		}
		p.waitIdle()
	}
	if before != 0 || len(host.commands) != 0 {
		t.Errorf("%d commands ran before the portal's answer, and %d for repeated jobs", before, len(host.commands))
	}
	p.waitUntil("a report of the setting", func() bool {
		for _, r := range p.reports {
			if r.State != nil && r.State.Host.Settings != nil && r.State.Host.Settings.HostPower {
				return true
			}
		}
		return false
	})
}

func TestHostPowerRefusedWithoutSettingOfAgent(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	w := hostPowerWork(fleet.HostReboot)
	p.queueJob(w)
	if f := p.waitResult(w.ID); f.Outcome != wire.Failed || !strings.Contains(f.Error, "hostPower: true") {
		t.Errorf("the job ended %+v", f)
	}
}
