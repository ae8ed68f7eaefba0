package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/mock"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// stoppableReceiver is a host that records the file of each arriving disk and then waits for the end of the agent.
type stoppableReceiver struct {
	*mock.Host
	jobs chan hypervisor.ReceiveVMWork
}

func (h stoppableReceiver) ReceiveVM(ctx context.Context, in hypervisor.ReceiveVMWork) error {
	err := in.RecordBegin()
	for _, d := range in.Disks {
		if in.CreatedFile(d.To) == "" {
			err = errors.Join(err, in.RecordFile(d.To, "file of "+d.To.Volume))
		}
	}
	if err != nil {
		return err
	}
	h.jobs <- in
	<-ctx.Done()
	return ctx.Err()
}

// The job that receives a running VM has the VM with its disks at their new volumes. After a restart of the agent, the
// job knows that it began and which files it has created.
func TestReceivedVMHasNewDisksAndRecordedFiles(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), stoppableReceiver{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.ReceiveVMWork, 1)}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	w := diskMoveJob(t, p)
	shared := fleet.Disk{PoolID: stockPool.ID, Volume: "shared.qcow2"}
	from, to := w.Args.Move.Disk, w.Args.Move.To
	w.VM.Spec.Disks = append(w.VM.Spec.Disks, shared)
	options := fleet.MigrationOptions{Channels: 4}
	w.Kind, w.Args = fleet.VMReceive, fleet.JobArgs{Migrate: &fleet.MigrationParams{
		Live: fleet.NewID[fleet.TransferID](), Disks: []fleet.MigratingDisk{{Disk: from, To: to}}, Stay: []fleet.Volref{shared.Ref()}, Options: options,
	}}
	p.queueJob(w)
	in := <-host.jobs
	if got := in.Apply.VM.Spec.Disks; in.Begun || in.Options != options || len(got) != 2 || got[0].Ref() != to || got[1].Ref() != shared.Ref() {
		t.Errorf("the job has the disks %+v and the options %+v, begun %v; want the new volume and the shared disk", got, in.Options, in.Begun)
	}
	stop()
	p.startAgent(dir, host, host.Host)
	w.Epoch = 2
	p.queueJob(w)
	in = <-host.jobs
	if file := in.CreatedFile(to); !in.Begun || file != "file of "+to.Volume {
		t.Errorf("after the restart the job has begun %v and created %q, want the recorded file", in.Begun, file)
	}
}

// connectingSource is a host that only connects to the target of a live migration.
type connectingSource struct{ *mock.Host }

func (connectingSource) MigrateRunningVM(ctx context.Context, in hypervisor.LiveMigrationWork) error {
	_, err := in.Connect(ctx)
	return err
}

// A target that reports success before the hosts are connected must not let the source wait for ever.
func TestSourceRefusesTargetThatNeverConnected(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), connectingSource{mock.New(mock.Options{Name: "host-1"})}
	p.transferPeer = wire.TransferPeerState{Peer: "host-2", PeerName: "host-2", Begun: true, Received: true}
	p.startAgent(p.join(), host, host.Host)
	w := diskMoveJob(t, p)
	w.Kind, w.Args = fleet.VMMigrate, fleet.JobArgs{Migrate: &fleet.MigrationParams{Live: fleet.NewID[fleet.TransferID](), To: "host-2", ToName: "host-2"}}
	if f := p.runJob(w); f.Outcome != wire.Failed || !strings.Contains(f.Error, "never connected") {
		t.Errorf("the migration is %s %q, want a failure", f.Outcome, f.Error)
	}
}
