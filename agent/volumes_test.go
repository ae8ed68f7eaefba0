package agent_test

import (
	"context"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

var stockPool = fleet.Pool{ID: "01a206ba-f47b-7000-ad01-2714dec349a0", Name: "stock", Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/stock"}}

// volumeJobWork returns a job for a volume of the pool.
func volumeJobWork(kind fleet.JobKind, name string, o fleet.VolumeParams) wire.Work {
	args := fleet.JobArgs{Volume: &o, DeleteDisks: kind == fleet.VolumeWipe || kind == fleet.VolumeDelete}
	return wire.Work{Kind: kind, Subject: fleet.SubjectVolume(fleet.Volref{PoolID: stockPool.ID, Volume: name}), Pool: &stockPool, Args: args, VolumeUsers: &fleet.VolumeUsers{}}
}

func TestVolumeJobResultContainsPoolStatus(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &stockPool})
	f := p.runJob(volumeJobWork(fleet.VolumeCreate, "data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20}))
	if f.Outcome != wire.Done || f.Pool == nil || len(f.Pool.Volumes) != 1 || f.Pool.Volumes[0].Name != "data.raw" {
		t.Errorf("the creation ended %+v", f)
	}
	f = p.runJob(volumeJobWork(fleet.VolumeCreate, "fail-volume.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20, Full: true}))
	if f.Outcome != wire.Failed || !strings.Contains(f.Error, "No space left on device") || f.Pool == nil || f.Pool.State != fleet.PoolActive {
		t.Errorf("a failure is none of its pool: %+v", f)
	}

	needed := volumeJobWork(fleet.VolumeDelete, "data.raw", fleet.VolumeParams{})
	needed.VolumeUsers = &fleet.VolumeUsers{Disk: "web"}
	astray := volumeJobWork(fleet.VolumeDelete, "data.raw", fleet.VolumeParams{})
	astray.Subject = fleet.SubjectVolume(fleet.Volref{PoolID: "other", Volume: "data.raw"})
	outside := volumeJobWork(fleet.VolumeDelete, "../data.raw", fleet.VolumeParams{})
	for why, w := range map[string]wire.Work{"VM web": needed, "without its pool": astray, "is not a valid volume": outside} {
		if f := p.runJob(w); f.Outcome != wire.Failed || !strings.Contains(f.Error, why) {
			t.Errorf("%s: the deletion ended %+v", why, f)
		}
	}
	if f := p.runJob(volumeJobWork(fleet.VolumeDelete, "data.raw", fleet.VolumeParams{})); f.Outcome != wire.Done || len(f.Pool.Volumes) != 0 {
		t.Errorf("the deletion ended %+v", f)
	}
}

// interruptedVolumes is a host whose first creation is interrupted after the volume exists, and whose deletions wait.
type interruptedVolumes struct {
	*mock.Host
	createJobs chan hypervisor.VolumeWork
	entered    chan bool
}

func (h interruptedVolumes) CreateVolume(_ context.Context, in hypervisor.VolumeWork) error {
	h.createJobs <- in
	if in.RecordedFile != "" {
		return nil
	}
	if err := in.RecordFile("file 7"); err != nil {
		return err
	}
	return errInterrupted
}

func (h interruptedVolumes) DeleteVolume(ctx context.Context, _ hypervisor.VolumeWork) error {
	h.entered <- true
	<-ctx.Done()
	return ctx.Err()
}

// After a restart, a repeated job recognizes the volume that it created. A deletion with unknown outcome is reported as
// unknown and not repeated.
func TestRepeatedVolumeJobRecognizesItsFile(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), interruptedVolumes{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.VolumeWork, 2), make(chan bool, 2)}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	w := volumeJobWork(fleet.VolumeCreate, "data.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 1})
	w.ID = fleet.NewID[fleet.JobID]()
	p.runJob(w)
	if in := <-host.createJobs; in.RecordedFile != "" || in.Pool.ID != stockPool.ID || in.Params.SizeBytes != 1 {
		t.Errorf("the order is %+v", in)
	}
	gone := volumeJobWork(fleet.VolumeDelete, "gone.raw", fleet.VolumeParams{})
	gone.ID = fleet.NewID[fleet.JobID]()
	if f := p.runJob(gone); f.Outcome != wire.Unknown || f.Retry {
		t.Errorf("a deletion that storage does not answer ended %+v", f)
	}
	stop()
	p.startAgent(dir, host, host.Host)
	gone.Epoch = 2
	p.queueJob(gone)
	w.Epoch = 2
	p.queueJob(w)
	if in := <-host.createJobs; in.RecordedFile != "file 7" {
		t.Errorf("after the restart, the order is %+v", in)
	}
	p.waitIdle()
	if n := len(host.entered); n != 1 {
		t.Errorf("it was deleted %d times", n)
	}
}
