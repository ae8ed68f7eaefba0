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
	orders chan hypervisor.MoveDisk
}

func (h stoppableMover) MoveDisk(ctx context.Context, in hypervisor.MoveDisk) error {
	h.orders <- in
	if in.RecordedFile == "" {
		if err := in.RecordFile("file 9"); err != nil {
			return err
		}
	}
	in.Progress(10, "copying")
	select {
	case <-in.Stop:
		return hypervisor.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

func moving(t *testing.T, p *portal) wire.Work {
	t.Helper()
	vm := newVM("web")
	vm.Spec.Disks = []fleet.Disk{{PoolID: stock.ID, Volume: "web.qcow2", SizeBytes: 1 << 20}}
	p.do(wire.Work{Kind: fleet.PoolApply, Pool: &stock})
	if f := p.do(wire.Work{Kind: fleet.VMApply, VM: vm, Pools: []fleet.Pool{stock}}); f.Outcome != wire.Done {
		t.Fatalf("%+v", f)
	}
	to := fleet.Volref{PoolID: "01a206ba-f47b-7000-ad01-2714dec349a1", Volume: "web.qcow2"}
	return wire.Work{
		ID: fleet.NewID[fleet.JobID](), Kind: fleet.VMDiskMove, VM: vm, Pools: []fleet.Pool{stock},
		Args: fleet.JobArgs{Move: &fleet.MoveParams{Disk: vm.Spec.Disks[0].Ref(), To: to}},
	}
}

// A disk move ends when users cancel it, whichever message from the portal contains the cancellation, and leaves no
// error on the VM.
func TestDiskMoveEndsWhenCancelled(t *testing.T) {
	t.Parallel()
	const words = "Cancelled by ann."
	for how, cancel := range map[string]func(*portal, *wire.Work){
		"with the work":               func(_ *portal, w *wire.Work) { w.Stop = words },
		"in the answer to progress":   func(p *portal, w *wire.Work) { p.stops = map[fleet.JobID]string{w.ID: words} },
		"in the answer to the report": func(p *portal, w *wire.Work) { p.reported = map[fleet.JobID]string{w.ID: words} },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p, host := newPortal(t), stoppableMover{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.MoveDisk, 4)}
			p.running(p.join(), host, host.Host)
			w := moving(t, p)
			p.set(func() { cancel(p, &w) })
			f := p.do(w)
			if f.Outcome != wire.Cancelled || f.Error != words || f.Retry || f.VM == nil || f.VM.Error != "" {
				t.Fatalf("it ended %+v, the VM %+v", f.Finish, f.VM)
			}
			p.nextState("the VM as before", func(s wire.State) bool {
				vm, ok := vmIn(s, w.VM.ID)
				return ok && vm.Status.Error == ""
			})
		})
	}
}

// After an agent restart, a disk move continues with the file that it began. A move without progress is stopped and
// undone.
func TestDiskMoveContinuesAfterAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), stoppableMover{mock.New(mock.Options{Name: "host-1"}), make(chan hypervisor.MoveDisk, 4)}
	dir := p.join()
	_, stop := p.running(dir, host, host.Host)
	w := moving(t, p)
	p.give(w)
	if in := <-host.orders; in.RecordedFile != "" || in.Order != *w.Args.Move || in.Stopped() {
		t.Errorf("the order is %+v", in)
	}
	p.wait("its progress", func() bool { return len(p.notes) > 0 })
	stop()
	p.running(dir, host, host.Host)
	w.Epoch = 2
	p.give(w)
	if in := <-host.orders; in.RecordedFile != "file 9" {
		t.Errorf("after the restart, the order is %+v", in)
	}
	if f := p.result(w.ID); f.Outcome != wire.Failed || !strings.Contains(f.Error, "made no progress") || !f.Retry {
		t.Errorf("without progress it ended %+v", f.Finish)
	}
}

// stoppableMigrator is a host whose VM migrations run until they are stopped.
type stoppableMigrator struct {
	*mock.Host
	stamps chan string
}

func (h stoppableMigrator) MigrateVM(ctx context.Context, in hypervisor.MigrateVM) error {
	d := in.Order.Disks[0]
	was := in.SentStamp(d)
	if err := in.RecordSending(d, "as it was"); err != nil {
		return err
	}
	h.stamps <- was + "|" + in.SentStamp(d)
	<-ctx.Done()
	return ctx.Err()
}

// After an agent restart, a migration knows the state of a disk that it began to send.
func TestSentDisksAreKnownAfterAgentRestart(t *testing.T) {
	t.Parallel()
	p, host := newPortal(t), stoppableMigrator{mock.New(mock.Options{Name: "host-1"}), make(chan string, 1)}
	dir := p.join()
	_, stop := p.running(dir, host, host.Host)
	w := moving(t, p)
	d := fleet.MigratingDisk{Disk: w.Args.Move.Disk, To: w.Args.Move.To, Transfer: fleet.NewID[fleet.TransferID]()}
	w.Kind, w.Args = fleet.VMMigrate, fleet.JobArgs{Migrate: &fleet.MigrationParams{To: fleet.NewID[fleet.HostID](), ToName: "host-2", Disks: []fleet.MigratingDisk{d}}}
	p.give(w)
	if got := <-host.stamps; got != "|as it was" {
		t.Errorf("it began with %q", got)
	}
	stop()
	p.running(dir, host, host.Host)
	w.Epoch = 2
	p.give(w)
	if got := <-host.stamps; got != "as it was|as it was" {
		t.Errorf("after the restart it began with %q", got)
	}
}
