package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// patient is a host whose copies and wipes run until they are stopped.
type patient struct {
	*mock.Host
	entered chan hypervisor.VolumeWork
}

func (h patient) last(ctx context.Context, in hypervisor.VolumeWork) error {
	h.entered <- in
	alive := time.NewTicker(100 * time.Millisecond) // a job without progress would be stopped
	defer alive.Stop()
	for {
		in.Progress(40, "at it")
		select {
		case <-alive.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h patient) CloneVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.last(ctx, in)
}

func (h patient) WipeVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.last(ctx, in)
}

// A cancelled volume job ends when the host learns of the cancellation, and reports what it cannot undo. A cancelled
// job that still waits for a slot has changed nothing.
func TestVolumeJobsEndWhenCancelled(t *testing.T) {
	t.Parallel()
	const words = "Cancelled by ann."
	p, host := newPortal(t), patient{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.VolumeWork, 16)}
	p.startAgent(p.join(), host, host.Host)
	p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &stockPool})
	wipe, clone := volumeJobWork(fleet.VolumeWipe, "data.raw", fleet.VolumeParams{}), volumeJobWork(fleet.VolumeClone, "copy.raw", fleet.VolumeParams{Source: "data.raw"})
	for _, c := range []struct {
		work wire.Work
		left string
	}{{clone, ""}, {wipe, "undefined"}} {
		w := c.work
		w.ID = fleet.NewID[fleet.JobID]()
		p.update(func() { p.stopsInProgress = map[fleet.JobID]string{w.ID: words} })
		f := p.runJob(w)
		if f.Outcome != wire.Cancelled || !strings.HasPrefix(f.Error, words) || !strings.Contains(f.Error, c.left) || (c.left == "") != (f.Error == words) {
			t.Errorf("%s ended %+v", w.Kind, f.Finish)
		}
		<-host.entered
	}
	p.update(func() { p.stopsInProgress = nil })
	for n := range 4 { // as many as an agent has slots
		w := clone
		w.ID, w.Subject = fleet.NewID[fleet.JobID](), fleet.SubjectVolume(fleet.Volref{PoolID: stockPool.ID, Volume: string(rune('a' + n))})
		p.queueJob(w)
		<-host.entered
	}
	late := wipe
	late.ID = fleet.NewID[fleet.JobID]()
	p.update(func() { p.stopsInProgress = map[fleet.JobID]string{late.ID: words} })
	if f := p.runJob(late); f.Outcome != wire.Cancelled || f.Error != words {
		t.Errorf("the job without a slot ended %+v", f.Finish)
	}
}
