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

// stoppableMover is a host whose disk moves run until they are stopped.
type stoppableMover struct {
	*mock.Host
	moveJobs chan hypervisor.MoveDiskWork
}

func (h stoppableMover) MoveDisk(ctx context.Context, in hypervisor.MoveDiskWork) error {
	h.moveJobs <- in
	if in.RecordedFile == "" {
		if err := in.RecordFile("file 9"); err != nil {
			return err
		}
	}
	in.Progress(10, "copying")
	select {
	case <-in.Stop:
		return hypervisor.ErrCancelled
	case <-ctx.Done():
		return ctx.Err()
	}
}

func diskMoveJob(t *testing.T, p *portal) wire.Work {
	t.Helper()
	vm := newVM("web")
	vm.Spec.Disks = []fleet.Disk{{PoolID: stockPool.ID, Volume: "web.qcow2", SizeBytes: 1 << 20}}
	p.runJob(wire.Work{Kind: fleet.PoolApply, Pool: &stockPool})
	if f := p.runJob(wire.Work{Kind: fleet.VMApply, VM: vm, Pools: []fleet.Pool{stockPool}}); f.Outcome != wire.Done {
		t.Fatalf("%+v", f)
	}
	to := fleet.Volref{PoolID: "01a206ba-f47b-7000-ad01-2714dec349a1", Volume: "web.qcow2"}
	return wire.Work{
		ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMDiskMove, VM: vm, Pools: []fleet.Pool{stockPool},
		Args: fleet.JobArgs{Move: &fleet.DiskMigrationParams{Disk: vm.Spec.Disks[0].Ref(), To: to}},
	}
}

// A disk move ends when users cancel it, whichever message from the portal contains the cancellation, and leaves no
// error on the VM.
func TestDiskMoveEndsWhenCancelled(t *testing.T) {
	t.Parallel()
	const words = "Cancelled by ann."
	for how, cancel := range map[string]func(*portal, *wire.Work){
		"with the work":               func(_ *portal, w *wire.Work) { w.Stop = words },
		"in the answer to progress":   func(p *portal, w *wire.Work) { p.stopsInProgress = map[fleet.JobID]string{w.ID: words} },
		"in the answer to the report": func(p *portal, w *wire.Work) { p.stopsInReports = map[fleet.JobID]string{w.ID: words} },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p, host := newPortal(t), stoppableMover{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.MoveDiskWork, 4)}
			p.startAgent(p.join(), host, host.Host)
			w := diskMoveJob(t, p)
			p.update(func() { cancel(p, &w) })
			f := p.runJob(w)
			if f.Outcome != wire.Cancelled || f.Error != words || f.Retry || f.VM == nil || f.VM.Error != "" {
				t.Fatalf("it ended %+v, the VM %+v", f.Finish, f.VM)
			}
			p.waitNextState("the VM as before", func(s wire.State) bool {
				vm, ok := reportedVM(s, w.VM.ID)
				return ok && vm.Status.Error == ""
			})
		})
	}
}

// After an agent restart, a disk move continues with the file that it began. A move without progress is stopped and
// undone.
func TestDiskMoveContinuesAfterAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), stoppableMover{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.MoveDiskWork, 4)}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	w := diskMoveJob(t, p)
	p.queueJob(w)
	if in := <-host.moveJobs; in.RecordedFile != "" || in.Params != *w.Args.Move || in.IsCancelled() {
		t.Errorf("the order is %+v", in)
	}
	p.waitUntil("its progress", func() bool { return len(p.notes) > 0 })
	stop()
	p.startAgent(dir, host, host.Host)
	w.Epoch = 2
	p.queueJob(w)
	if in := <-host.moveJobs; in.RecordedFile != "file 9" {
		t.Errorf("after the restart, the order is %+v", in)
	}
	if f := p.waitResult(w.ID); f.Outcome != wire.Failed || !strings.Contains(f.Error, "made no progress") || !f.Retry {
		t.Errorf("without progress it ended %+v", f.Finish)
	}
}

// stoppableMigrator is a host whose VM migrations run until they are stopped.
type stoppableMigrator struct {
	*mock.Host
	stamps chan string
}

func (h stoppableMigrator) MigrateVM(ctx context.Context, in hypervisor.MigrateVMWork) error {
	d := in.Params.Disks[0].Transfer
	was := in.SentStamp(d)
	if err := in.RecordSending(d, "as it was"); err != nil {
		return err
	}
	h.stamps <- was + "|" + in.SentStamp(d)
	<-ctx.Done()
	return ctx.Err()
}

// After an agent restart, a migration knows the state of a disk that it began to send.
func TestMigrationDiskStateSurvivesAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), stoppableMigrator{mock.New(mock.Options{Name: "host-1"}), make(chan string, 1)}
	dir := p.join()
	_, stop := p.startAgent(dir, host, host.Host)
	w := diskMoveJob(t, p)
	d := fleet.MigratingDisk{Disk: w.Args.Move.Disk, To: w.Args.Move.To, Transfer: fleet.NewID[fleet.TransferID]()}
	w.Kind, w.Args = fleet.VMMigrate, fleet.JobArgs{Migrate: &fleet.MigrationParams{To: fleet.NewID[fleet.HostID](), ToName: "host-2", Disks: []fleet.MigratingDisk{d}}}
	p.queueJob(w)
	if got := <-host.stamps; got != "|as it was" {
		t.Errorf("it began with %q", got)
	}
	stop()
	p.startAgent(dir, host, host.Host)
	w.Epoch = 2
	p.queueJob(w)
	if got := <-host.stamps; got != "as it was|as it was" {
		t.Errorf("after the restart it began with %q", got)
	}
}
