package conformance

import (
	"context"
	"errors"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// coldRun is one cold migration of a VM with firmware state from the first host to the second. Its disks stay in a
// shared pool.
type coldRun struct {
	source hypervisor.MigrateVMWork
	target hypervisor.ReceiveFirmwareWork
	sent   sentFile
	stamps map[fleet.TransferID]string
}

// newColdRun returns the jobs of the migration.
func (p *twoHosts) newColdRun(vm fleet.VM) *coldRun {
	r := &coldRun{stamps: map[fleet.TransferID]string{}}
	order := fleet.MigrationParams{To: fleet.NewID[fleet.HostID](), ToName: "second", Disks: []fleet.MigratingDisk{}, Firmware: fleet.NewID[fleet.TransferID]()}
	for _, d := range vm.Spec.Disks {
		order.Stay = append(order.Stay, d.Ref())
	}
	r.target = hypervisor.ReceiveFirmwareWork{
		VM: vm.ID, Transfer: order.Firmware, Progress: func(int, string) {},
		Receive: func(context.Context, int64) ([]byte, error) { return r.sent.data, nil },
	}
	r.source = hypervisor.MigrateVMWork{
		VM: vm, Pools: p.first.pools, Params: order, Progress: func(int, string) {},
		SentStamp:     func(file fleet.TransferID) string { return r.stamps[file] },
		RecordSending: func(file fleet.TransferID, stamp string) error { r.stamps[file] = stamp; return nil },
		Send: func(ctx context.Context, _ fleet.TransferID, pieces transfer.Pieces, size int64) error {
			if err := r.sent.send(ctx, pieces, size); err != nil {
				return err
			}
			return p.second.ReceiveFirmware(p.second.ctx, r.target)
		},
		WaitArrived: func(context.Context) error { return nil },
	}
	return r
}

// newFirmwareVM returns a VM with UEFI and a TPM that is off on the first host. If ran is set, it has run there.
func (p *twoHosts) newFirmwareVM(ran bool) fleet.VM {
	p.first.t.Helper()
	vm := p.first.newVM(newDisk(p.newSharedPool()))
	vm.Spec.Firmware, vm.Spec.Security.TPM = fleet.UEFI, true
	p.second.cleanup("delete "+vm.Name, func(ctx context.Context) error { return p.second.DeleteVM(ctx, vm, p.second.pools, false) })
	p.first.apply(vm)
	if ran {
		p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID)) // the start creates the state
		p.first.requireNoError("stop", p.first.StopVM(p.first.ctx, vm.ID))
		p.ChangeFirmware(p.first.t, vm.ID, 0)
	}
	return vm
}

// wantFirmware fails the test unless the host has this firmware state of the VM.
func (p *twoHosts) wantFirmware(when string, id fleet.VMID, host int, want string) {
	p.first.t.Helper()
	if got := p.Firmware(p.first.t, id, host); got != want {
		p.first.t.Fatalf("%s, host %d has firmware state of %d bytes, want %d", when, host+1, len(got), len(want))
	}
}

// wantReceived fails the test unless the second host stores received state of the VM, or stores none.
func (p *twoHosts) wantReceived(when string, id fleet.VMID, want bool) {
	p.first.t.Helper()
	if got := p.HasReceivedFirmware(id, 1); got != want {
		p.first.t.Errorf("%s, the second host stores received firmware state: %v, want %v", when, got, want)
	}
}

// applyOnSecond applies the migrated VM on the second host.
func (p *twoHosts) applyOnSecond(vm fleet.VM) {
	p.first.t.Helper()
	in := p.second.applyJob(vm)
	for _, d := range vm.Spec.Disks {
		in.CreatedDisks = append(in.CreatedDisks, d.Ref())
	}
	p.second.requireNoError("apply", p.second.ApplyVM(p.second.ctx, in))
}

// wantRunsOnSecond starts the migrated VM.
func (p *twoHosts) wantRunsOnSecond(vm fleet.VM) {
	p.first.t.Helper()
	p.second.requireNoError("start", p.second.StartVM(p.second.ctx, vm.ID))
	if s := p.second.wantPower(vm.ID, fleet.Running); len(s.Faults)+len(s.Drift)+len(s.NextBoot) > 0 {
		p.first.t.Errorf("the migrated VM's status is %+v, want no fault, drift or pending field", s)
	}
}

func testColdMigrationOfFirmwareState(t *testing.T, p *twoHosts) {
	vm := p.newFirmwareVM(true)
	state := p.Firmware(t, vm.ID, 0)
	if state == "" {
		t.Fatal("the first start created no firmware state")
	}

	cut := p.newColdRun(vm)
	cut.source.WaitArrived = func(context.Context) error { return errors.New("the portal does not answer") }
	p.first.requireRefusal("migrate without a result", p.first.MigrateVM(p.first.ctx, cut.source), "does not answer")
	p.wantFirmware("after the failed migration", vm.ID, 0, state)
	p.wantFirmware("after the failed migration", vm.ID, 1, "")
	p.second.wantAbsent(vm.ID)
	p.second.requireNoError("discard another transfer", p.second.DiscardFirmware(p.second.ctx, vm.ID, fleet.NewID[fleet.TransferID]()))
	p.wantReceived("after the failed migration", vm.ID, true)
	for range 2 {
		p.second.requireNoError("discard", p.second.DiscardFirmware(p.second.ctx, vm.ID, cut.target.Transfer))
	}

	p.wantReceived("after the removal", vm.ID, false)

	r := p.newColdRun(vm)
	p.first.requireNoError("migrate", p.first.MigrateVM(p.first.ctx, r.source))
	p.first.wantAbsent(vm.ID)
	p.wantFirmware("after the migration", vm.ID, 0, "")
	p.wantFirmware("before the definition", vm.ID, 1, "")
	r.source.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error { return errors.New("sent again") }
	p.first.requireNoError("repeat the source's job", p.first.MigrateVM(p.first.ctx, r.source))
	r.target.Receive = func(context.Context, int64) ([]byte, error) { return nil, errors.New("received again") }
	p.second.requireNoError("repeat the target's job", p.second.ReceiveFirmware(p.second.ctx, r.target))

	p.applyOnSecond(vm)
	p.wantFirmware("with the definition", vm.ID, 1, state)
	p.wantReceived("with the definition", vm.ID, false)
	p.applyOnSecond(vm)
	p.second.requireNoError("discard too late", p.second.DiscardFirmware(p.second.ctx, vm.ID, r.target.Transfer))
	p.wantFirmware("after repeated jobs", vm.ID, 1, state)
	p.second.requireRefusal("receive the state of a VM that is here", p.second.ReceiveFirmware(p.second.ctx, p.newColdRun(vm).target), "already has a definition")
	p.wantRunsOnSecond(vm)
}

func testColdMigrationWithoutFirmwareState(_ *testing.T, p *twoHosts) {
	vm := p.newFirmwareVM(false)
	p.first.requireNoError("migrate", p.first.MigrateVM(p.first.ctx, p.newColdRun(vm).source))
	p.applyOnSecond(vm)
	p.wantFirmware("of a VM that never ran", vm.ID, 1, "")
	p.wantRunsOnSecond(vm)
}

// A VM whose firmware state changed after it was sent stays on its host.
func testColdMigrationOfChangedFirmwareState(_ *testing.T, p *twoHosts) {
	vm := p.newFirmwareVM(true)
	r := p.newColdRun(vm)
	r.source.WaitArrived = func(context.Context) error { return errors.New("the agent ends here") }
	p.first.requireRefusal("interrupt the migration", p.first.MigrateVM(p.first.ctx, r.source), "the agent ends here")
	p.ChangeFirmware(p.first.t, vm.ID, 0)
	changed := p.Firmware(p.first.t, vm.ID, 0)
	r.source.WaitArrived = func(context.Context) error { return nil }
	p.first.requireRefusal("repeat the job", p.first.MigrateVM(p.first.ctx, r.source), "while it was being sent")

	late := p.newColdRun(vm)
	late.source.WaitArrived = func(context.Context) error { p.ChangeFirmware(p.first.t, vm.ID, 0); return nil }
	p.first.requireRefusal("change the state during the job", p.first.MigrateVM(p.first.ctx, late.source), "while it was being sent")
	if got := p.Firmware(p.first.t, vm.ID, 0); got == changed || got == "" {
		p.first.t.Error("the first host has lost the newest firmware state")
	}
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))
}

// The source's agent ends after it has removed the definition, and before it has removed the firmware state.
func testColdMigrationResumedWithoutDefinition(t *testing.T, p *twoHosts) {
	if p.UndefineKeepingFirmware == nil {
		t.Skip("this host keeps no firmware state without a definition")
	}
	for _, changed := range []bool{false, true} {
		vm := p.newFirmwareVM(true)
		r := p.newColdRun(vm)
		r.source.WaitArrived = func(context.Context) error { return errors.New("the agent ends here") }
		p.first.requireRefusal("interrupt the migration", p.first.MigrateVM(p.first.ctx, r.source), "the agent ends here")
		p.UndefineKeepingFirmware(t, vm.ID, 0)
		r.source.WaitArrived = func(context.Context) error { return nil }
		if !changed {
			p.first.requireNoError("repeat the job", p.first.MigrateVM(p.first.ctx, r.source))
			p.wantFirmware("after the repeated job", vm.ID, 0, "")
			continue
		}
		p.ChangeFirmware(t, vm.ID, 0)
		newest := p.Firmware(t, vm.ID, 0)
		p.first.requireRefusal("repeat the job after a change", p.first.MigrateVM(p.first.ctx, r.source), "while it was being sent")
		p.wantFirmware("after the refusal", vm.ID, 0, newest)
	}
}

func testColdMigrationOfFirmwareStateRefused(_ *testing.T, p *twoHosts) {
	vm := p.newFirmwareVM(true)
	state := p.Firmware(p.first.t, vm.ID, 0)
	unlisted := p.newColdRun(vm)
	unlisted.source.Params.Firmware = ""
	p.first.requireRefusal("a job without the state", p.first.MigrateVM(p.first.ctx, unlisted.source), "does not list the VM's UEFI variables")
	lost := p.newColdRun(vm)
	lost.source.Send = func(context.Context, fleet.TransferID, transfer.Pieces, int64) error {
		return errors.New("it was cut off")
	}
	p.first.requireRefusal("lose the connection", p.first.MigrateVM(p.first.ctx, lost.source), "cut off")
	p.wantFirmware("after refused migrations", vm.ID, 0, state)
	p.first.requireNoError("start", p.first.StartVM(p.first.ctx, vm.ID))

	sent := p.newColdRun(vm)
	sent.source.WaitArrived = func(context.Context) error { return errors.New("the portal does not answer") }
	p.first.requireNoError("stop", p.first.StopVM(p.first.ctx, vm.ID))
	p.first.requireRefusal("migrate without a result", p.first.MigrateVM(p.first.ctx, sent.source), "does not answer")
	p.wantReceived("before the deletion", vm.ID, true)
	p.second.requireNoError("delete", p.second.DeleteVM(p.second.ctx, vm, p.second.pools, false))
	p.wantReceived("after the deletion", vm.ID, false)

	hostile := p.newColdRun(vm)
	hostile.sent.data = []byte(`{"tpm":{"../../../../etc/passwd":""}}`)
	p.second.requireRefusal("receive a file of another place", p.second.ReceiveFirmware(p.second.ctx, hostile.target), "source host sends")
	hostile.target.VM = "../" + vm.ID
	p.second.requireRefusal("receive the state of a path", p.second.ReceiveFirmware(p.second.ctx, hostile.target), "")
}
