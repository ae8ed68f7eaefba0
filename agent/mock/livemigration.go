package mock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// liveSteps is the number of steps of a live migration. Each step takes a fraction of Delay.
const liveSteps = 10

// Messages of the two hosts, in this order: movingGuest, hostAnswer, transferEnd, hostAnswer.
type (
	movingGuest struct {
		Generation int64                    `json:"generation"`
		Applied    hypervisor.AppliedRecord `json:"applied"`
		Mark       string                   `json:"mark"`
		Name       string                   `json:"name"`
		Persistent movingDefinition         `json:"persistent"`
		Live       movingDefinition         `json:"live"`
		StartedAt  time.Time                `json:"startedAt"`
		Balloon    int                      `json:"balloon"`
	}
	movingDefinition struct {
		Spec       fleet.VMSpec            `json:"spec"`
		Pools      map[fleet.PoolID]string `json:"pools"`
		Modules    []fleet.Module          `json:"modules"`
		StartVCPUs int                     `json:"startVcpus"`
	}
	transferEnd struct {
		Cancelled bool `json:"cancelled"`
	}
	hostAnswer struct {
		Error string `json:"error"`
	}
)

func (s guestDefinition) moving() movingDefinition {
	return movingDefinition{s.spec, s.pools, s.modules, s.startVCPUs}
}

func (m movingDefinition) definition() guestDefinition {
	return guestDefinition{spec: m.Spec, pools: m.Pools, modules: m.Modules, startVCPUs: m.StartVCPUs}
}

// MigrateRunningVM implements hypervisor.VMs.
func (h *Host) MigrateRunningVM(ctx context.Context, in hypervisor.LiveMigrationWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	interrupted := hypervisor.InterruptedMigrationError(in.VM.Name)
	if in.Begun {
		return h.awaitTarget(ctx, in, interrupted)
	}
	offer, err := h.movingGuest(in)
	if err != nil {
		return err
	}
	link, err := in.Connect(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	if err := in.RecordBegin(); err != nil {
		return err
	}
	var answer hostAnswer
	if err = link.Send(ctx, offer); err == nil {
		err = link.Receive(ctx, &answer)
	}
	switch {
	case err != nil:
		return err
	case answer.Error != "":
		return fleet.Errorf(fleet.Conflict, "%s cannot receive the VM: %s", in.Params.ToName, answer.Error)
	}
	for s := range liveSteps {
		in.Progress(100*s/liveSteps, "memory is being sent")
		if err = h.waitDelay(ctx, 0.5); err != nil {
			break
		}
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	cancelled := err != nil
	if lost := link.Send(within, transferEnd{cancelled}); lost == nil {
		err = errors.Join(err, link.Receive(within, &answer))
	} else {
		err = errors.Join(err, lost)
	}
	switch {
	case cancelled:
		return context.Cause(ctx)
	case err != nil:
		return h.awaitTarget(ctx, in, err)
	case answer.Error != "":
		return fmt.Errorf("%s reports: %s", in.Params.ToName, answer.Error)
	}
	h.removeArrivedVM(in.VM.ID)
	return nil
}

// awaitTarget waits for the end of the target's job. It returns why if the VM stays.
func (h *Host) awaitTarget(ctx context.Context, in hypervisor.LiveMigrationWork, why error) error {
	arrived, err := in.AwaitTarget(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case !arrived:
		return why
	}
	h.removeArrivedVM(in.VM.ID)
	return nil
}

func (h *Host) removeArrivedVM(id fleet.VMID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.guests[id]; g != nil {
		g.screen = nil // the screen moves with the guest
		h.stop(g, "migrated")
	}
	delete(h.guests, id)
	delete(h.seeds, id)
	h.notify()
}

// movingGuest returns what the target needs of the guest.
func (h *Host) movingGuest(in hypervisor.LiveMigrationWork) (out movingGuest, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[in.VM.ID]
	switch {
	case g == nil || g.live == nil || g.power != fleet.Running:
		return out, hypervisor.RefuseMigration(in.VM.Name, "the VM is not running.")
	case g.undefined:
		return out, hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case len(g.live.spec.HostDevices) > 0:
		return out, hypervisor.RefuseMigration(in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	for _, d := range g.live.spec.Disks {
		if !slices.Contains(in.Params.Stay, d.Ref()) {
			return out, hypervisor.RefuseMigration(in.VM.Name, "the disk %s is not in a pool that both hosts share.", d.Volume)
		}
	}
	return movingGuest{
		Generation: g.generation, Applied: g.applied, Mark: g.ownershipMark, Name: g.name, Persistent: g.persistent.moving(), Live: g.live.moving(),
		StartedAt: g.startedAt, Balloon: g.balloon,
	}, nil
}

// ReceiveVM implements hypervisor.VMs.
func (h *Host) ReceiveVM(ctx context.Context, in hypervisor.ReceiveVMWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	vm := in.Apply.VM
	h.mu.Lock()
	known, running := h.guests[vm.ID] != nil, h.guests[vm.ID] != nil && h.guests[vm.ID].isRunning()
	h.mu.Unlock()
	switch {
	case in.Begun && running:
		return nil
	case in.Begun:
		return hypervisor.InterruptedMigrationError(vm.Name)
	case known:
		return hypervisor.RefuseKnownVM(vm.Name)
	}
	if err := in.RecordBegin(); err != nil {
		return err
	}
	if err := h.checkSecurityGroups(in.Apply); err != nil {
		return err
	}
	if err := h.storeSeed(ctx, in.Apply); err != nil {
		return err
	}
	link, err := in.Accept(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	var offer movingGuest
	if err := link.Receive(ctx, &offer); err != nil {
		return err
	}
	answer := hostAnswer{}
	failed := h.checkArrivingDisks(offer)
	if failed != nil {
		answer.Error = failed.Error()
	}
	if err := errors.Join(failed, link.Send(ctx, answer)); err != nil {
		return err
	}
	in.Progress(0, "receiving the guest")
	var end transferEnd
	if err := link.Receive(ctx, &end); err != nil {
		return err
	}
	if end.Cancelled {
		failed = hypervisor.ErrCancelled
		answer.Error = failed.Error()
	} else {
		h.addArrivedVM(vm.ID, offer)
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = link.Send(within, answer) // without it, the source host waits for the end of this job
	return failed
}

func (h *Host) checkArrivingDisks(offer movingGuest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, file := range offer.Live.definition().disks() {
		if h.volumeAt(file) == nil {
			return fleet.Errorf(fleet.Conflict, "Cannot access storage file %s: No such file or directory", file)
		}
	}
	return nil
}

func (h *Host) addArrivedVM(id fleet.VMID, offer movingGuest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	run := offer.Live.definition()
	h.guests[id] = &guest{
		id: id, managed: true, generation: offer.Generation, applied: offer.Applied, ownershipMark: offer.Mark, name: offer.Name,
		persistent: offer.Persistent.definition(), live: &run, power: fleet.Running, startedAt: offer.StartedAt, balloon: offer.Balloon,
		screen: newScreen(offer.Name, run),
	}
	h.notify()
}
