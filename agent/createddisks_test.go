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

var errInterrupted = fleet.Errorf(fleet.Unavailable, "The test cuts it off.")

// interruptedApply is a host whose ApplyVM calls can be interrupted after the disks are created. It records the calls.
type interruptedApply struct {
	*mock.Host
	applyJobs chan hypervisor.ApplyWork
	fail      chan bool
}

func (c interruptedApply) ApplyVM(ctx context.Context, in hypervisor.ApplyWork) error {
	c.applyJobs <- in
	if !<-c.fail {
		return c.Host.ApplyVM(ctx, in)
	}
	for _, d := range in.VM.Spec.Disks {
		if err := in.RecordDisk(d.Ref()); err != nil {
			return err
		}
	}
	return errInterrupted
}

// A created disk is recorded before any definition names it, across a restart of the agent, until the VM's spec no
// longer contains the disk.
func TestRecordOfCreatedDisksSurvivesAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), interruptedApply{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.ApplyWork, 1), make(chan bool, 1)}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	vm := newVM("web")
	vm.Spec.Disks = []fleet.Disk{{PoolID: "p", Volume: "web-1", SizeBytes: 1}}
	known := fleet.Volref{PoolID: "p", Volume: "older"}
	host.fail <- true
	p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm, CreatedDisks: []fleet.Volref{known}, Project: "acme"})
	if in := <-host.applyJobs; len(in.CreatedDisks) != 1 || in.CreatedDisks[0] != known || in.Project != "acme" || in.Reapply {
		t.Errorf("the first order is %+v", in)
	}
	stop()
	p.startAgent(dir, host, host.Host)
	host.fail <- true
	p.runJob(wire.Work{Kind: fleet.VMReapply, VM: vm, Epoch: 2})
	if in := <-host.applyJobs; len(in.CreatedDisks) != 1 || in.CreatedDisks[0] != vm.Spec.Disks[0].Ref() || !in.Reapply {
		t.Errorf("after the restart, the order is %+v", in)
	}
	vm.Spec.Disks, vm.Generation = nil, 2
	for epoch := range int64(2) {
		host.fail <- false
		if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm, Epoch: 3 + epoch}); f.Outcome != wire.Done {
			t.Errorf("the order without the disk ended %+v", f)
		}
		if in := <-host.applyJobs; len(in.CreatedDisks) != int(1-epoch) || in.AppliedGeneration != 2*epoch {
			t.Errorf("order %d without the disk has made %+v, stamped %d", epoch, in.CreatedDisks, in.AppliedGeneration)
		}
	}
}

// A missing disk is named in the job's error and in the VM's status in the job's result.
func TestMissingDiskIsReportedInJobResult(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgent(t)
	pool := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: "fast", Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}}
	p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &pool})
	vm := newVM("web")
	vm.Spec.Disks = []fleet.Disk{{PoolID: pool.ID, Volume: "web-1", SizeBytes: 1}}
	f := p.runJob(wire.Work{Kind: fleet.VMStart, VM: vm, Pools: []fleet.Pool{pool}, CreatedDisks: []fleet.Volref{vm.Spec.Disks[0].Ref()}})
	if f.Outcome != wire.Failed || !strings.HasPrefix(f.Error, "Disk 1 (pool fast, volume web-1) is not on host-1: ") || f.VM.Power != fleet.Absent {
		t.Errorf("the start ended %+v", f)
	}
}
