package conformance

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// liveRun is one live migration between the two hosts. The test plays the portal: it connects the hosts, and gives the
// source the target's result.
type liveRun struct {
	source hypervisor.LiveMigrationWork
	target hypervisor.ReceiveVMWork
	files  map[fleet.Volref]string // recorded by the target
	cut    func()                  // cuts the connection

	sourceEnd, targetEnd net.Conn // of the connection

	memoryStreams atomic.Int32 // QEMU's connections through a relay: see putBetween

	arrived bool // recorded by the target

	received chan struct{} // closed when ReceiveVM has returned
	failure  error         // of ReceiveVM
}

// newLiveRun returns the jobs of a migration from the first host to the second.
func (p *twoHosts) newLiveRun(vm fleet.VM) *liveRun {
	a, b := net.Pipe()
	var once sync.Once
	r := &liveRun{sourceEnd: a, targetEnd: b, received: make(chan struct{}), cut: func() { once.Do(func() { a.Close(); b.Close() }) }}
	p.first.t.Cleanup(r.cut)
	order := fleet.MigrationParams{ToName: "second", Disks: []fleet.MigratingDisk{}}
	there := vm // as the second host has it
	there.Spec.Disks = slices.Clone(vm.Spec.Disks)
	for i, d := range vm.Spec.Disks {
		to := p.local[d.PoolID]
		if to.ID == "" {
			order.Stay = append(order.Stay, d.Ref())
			continue
		}
		there.Spec.Disks[i].PoolID, there.Spec.Disks[i].Volume = to.ID, "copy-"+d.Volume
		order.Disks = append(order.Disks, fleet.MigratingDisk{Disk: d.Ref(), To: there.Spec.Disks[i].Ref(), TakesBytes: d.SizeBytes})
	}
	r.source = hypervisor.LiveMigrationWork{
		VM: vm, Pools: p.first.pools, Params: order, RecordBegin: func() error { return nil }, Progress: func(int, string) {},
		Connect: func(context.Context) (*migration.Link, error) {
			return migration.NewLink(r.sourceEnd, migration.Source), nil
		},
		AwaitTarget: func(ctx context.Context) (bool, error) {
			select {
			case <-r.received:
				return r.failure == nil, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		},
	}
	apply := p.second.applyJob(there)
	for _, d := range there.Spec.Disks {
		apply.CreatedDisks = append(apply.CreatedDisks, d.Ref())
	}
	r.files = map[fleet.Volref]string{}
	r.target = hypervisor.ReceiveVMWork{
		Apply: apply, Disks: order.Disks,
		RecordFile:  func(to fleet.Volref, file string) error { r.files[to] = file; return nil },
		CreatedFile: func(to fleet.Volref) string { return r.files[to] },
		RecordBegin: func() error { return nil }, Progress: func(int, string) {},
		RecordArrived: func() error { r.arrived = true; return nil },
		Accept: func(context.Context) (*migration.Link, error) {
			return migration.NewLink(r.targetEnd, migration.Target), nil
		},
	}
	return r
}

// migrate runs both jobs and returns their errors.
func (p *twoHosts) migrate(r *liveRun) (sent, received error) {
	go func() {
		defer close(r.received)
		if r.failure = p.second.ReceiveVM(p.second.ctx, r.target); r.failure != nil {
			r.cut()
		}
	}()
	sent = p.first.MigrateRunningVM(p.first.ctx, r.source)
	r.cut()
	<-r.received
	return sent, r.failure
}

func testLiveMigration(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	before := p.first.wantPower(vm.ID, fleet.Running)
	first := p.newLiveRun(vm)
	sent, received := p.migrate(first)
	if sent != nil || received != nil || !first.arrived {
		t.Fatalf("the migration failed: %v; %v; recorded %v", sent, received, first.arrived)
	}
	p.first.wantAbsent(vm.ID)
	p.second.wantPower(vm.ID, fleet.Running)
	p.second.wantOwnershipMark("on the target", vm.ID, guestOwnershipMark)
	if after := p.second.wantPower(vm.ID, fleet.Running); len(after.Disks) != len(before.Disks) || len(after.Faults)+len(after.Drift) > 0 {
		t.Errorf("the VM's status on the target is %+v, want that of the source, %+v", after, before)
	}
	r := p.newLiveRun(vm)
	r.source.Begun, r.target.Begun = true, true
	if sent, received = p.migrate(r); sent != nil || received != nil {
		t.Errorf("the repeated jobs failed: %v; %v", sent, received)
	}
	p.second.apply(vm)
	p.second.requireNoError("stop", p.second.StopVM(p.second.ctx, vm.ID))
	// The target's agent restarts after the guest has powered off. The source must not resume its old guest.
	r = p.newLiveRun(vm)
	r.source.Begun, r.target.Begun, r.target.Arrived = true, true, true
	if sent, received = p.migrate(r); sent != nil || received != nil {
		t.Errorf("the repeated jobs of an arrived VM that is off failed: %v; %v", sent, received)
	}
	p.second.requireNoError("start", p.second.StartVM(p.second.ctx, vm.ID))
}

func testCancelledLiveMigration(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	r := p.newLiveRun(vm)
	stopped := errors.New("cancelled by a user")
	ctx, cancel := context.WithCancelCause(p.first.ctx)
	accept := r.target.Accept
	r.target.Accept = func(ctx context.Context) (*migration.Link, error) {
		cancel(stopped)
		return accept(ctx)
	}
	go func() {
		defer close(r.received)
		r.failure = p.second.ReceiveVM(p.second.ctx, r.target)
	}()
	if err := p.first.MigrateRunningVM(ctx, r.source); !errors.Is(err, stopped) {
		t.Errorf("the cancelled migration ended with %v, want the cancellation", err)
	}
	r.cut()
	<-r.received
	if r.failure == nil {
		t.Error("the target reports success for a cancelled migration")
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
}

// testInterruptedLiveMigration repeats the source's job of a migration that did not reach the target.
func testInterruptedLiveMigration(_ *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	want := func(when, state string) {
		r := p.newLiveRun(vm)
		r.source.Begun = true
		r.source.AwaitTarget = func(context.Context) (bool, error) { return false, nil }
		p.first.requireRefusal(when, p.first.MigrateRunningVM(p.first.ctx, r.source), "was interrupted. Try again. "+state)
	}
	want("while it runs", "The VM still runs on its host.")
	p.first.requireNoError("pause", p.first.PauseVM(p.first.ctx, vm.ID))
	want("while it is paused", "The VM is paused on its host.")
	p.first.requireNoError("stop", p.first.StopVM(p.first.ctx, vm.ID))
	want("while it is off", "The VM is off on its host.")
}

func testLiveMigrationRefusals(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	r := p.newLiveRun(vm)
	r.source.Params.Stay = nil
	if err := p.first.MigrateRunningVM(p.first.ctx, r.source); fleet.CodeOf(err) != fleet.Conflict {
		t.Errorf("a migration without a shared disk ended with %v, want a refusal", err)
	}
	p.first.wantPower(vm.ID, fleet.Running)

	p.second.requireNoError("define", p.second.ApplyVM(p.second.ctx, func() hypervisor.ApplyWork {
		in := p.second.applyJob(vm)
		in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()}
		return in
	}()))
	if sent, received := p.migrate(p.newLiveRun(vm)); sent == nil || fleet.CodeOf(received) != fleet.Conflict {
		t.Errorf("a migration to a host that has the VM ended with %v; %v, want a refusal", sent, received)
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantPower(vm.ID, fleet.Stopped)
}

func testUnreachableTarget(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	r := p.newLiveRun(vm)
	await := r.source.AwaitTarget
	asked := false
	r.source.AwaitTarget = func(ctx context.Context) (bool, error) { asked = true; return await(ctx) }
	r.source.Connect = func(context.Context) (*migration.Link, error) {
		return nil, errors.New("the hosts cannot reach each other")
	}
	sent, received := p.migrate(r)
	if sent == nil || received == nil {
		t.Errorf("a migration without a connection ended with %v; %v, want errors", sent, received)
	}
	if asked {
		t.Error("the source asked for the target's result before it sent anything")
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
}

func testCutLiveMigration(t *testing.T, p *twoHosts) {
	vm := p.newRunningGuest()
	r := p.newLiveRun(vm)
	r.source.Params.RateBytes = 1 << 20
	r.source.Progress = func(_ int, note string) {
		if strings.Contains(note, "memory") {
			r.cut()
		}
	}
	if sent, received := p.migrate(r); sent == nil || received == nil {
		t.Errorf("a migration whose connection was cut ended with %v; %v, want errors", sent, received)
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)

	// Both agents restart after a cut, and run their jobs again.
	again := p.newLiveRun(vm)
	again.source.Begun, again.target.Begun = true, true
	if sent, received := p.migrate(again); sent == nil || received == nil {
		t.Errorf("the repeated jobs ended with %v; %v, want errors", sent, received)
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
	if sent, received := p.migrate(p.newLiveRun(vm)); sent != nil || received != nil {
		t.Errorf("the next migration failed: %v; %v", sent, received)
	}
	p.first.wantAbsent(vm.ID)
	p.second.wantPower(vm.ID, fleet.Running)
}
