package mock

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
		Firmware   string                   `json:"firmware"`
		Balloon    int                      `json:"balloon"`
		Disks      []movingFile             `json:"disks"` // in the order of the job
	}
	movingFile struct {
		Volume fleet.Volume `json:"volume"`
		Bytes  string       `json:"bytes"`
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
		Error   string `json:"error"`
		Arrived bool   `json:"arrived"` // the guest runs on the target
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
	if in.Begun {
		return h.awaitTarget(ctx, in, nil)
	}
	if err := hypervisor.CheckMigrationOptions(in.Params.Options); err != nil {
		return err
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
	note := "disks and memory are being sent"
	for s := range liveSteps {
		in.Progress(100*s/liveSteps, note)
		if s == liveSteps/2 && migrationExpires(in) {
			switch in.Params.Options.OnTimeout {
			case fleet.ExpiryCancel:
				err = hypervisor.MigrationTimeoutError(in.VM.Name, in.Params.Options)
			case fleet.ExpiryPause:
				note += ", the guest is paused"
			}
		}
		if err != nil {
			break
		}
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
	case cancelled && ctx.Err() == nil:
		return hypervisor.StayedVMError(hypervisor.MigrationTimeoutError(in.VM.Name, in.Params.Options), h.powerOf(in.VM.ID))
	case cancelled:
		return context.Cause(ctx)
	case err != nil:
		return h.awaitTarget(ctx, in, err)
	case answer.Error != "":
		return fmt.Errorf("%s reports: %s", in.Params.ToName, answer.Error)
	case !answer.Arrived:
		return h.awaitTarget(ctx, in, fmt.Errorf("%s reports success without the guest", in.Params.ToName))
	}
	h.removeArrivedVM(in.VM.ID)
	return nil
}

// migrationExpires reports whether the memory at the job's rate takes longer than the job's time limit.
func migrationExpires(in hypervisor.LiveMigrationWork) bool {
	limit, rate := int64(in.Params.Options.TimeoutSeconds), in.Params.RateBytes
	return limit > 0 && rate > 0 && int64(in.VM.Spec.MemoryMiB)<<20/rate > limit
}

// awaitTarget waits for the end of the target's job. If the VM stays, it returns why, or for a nil why that the migration
// was interrupted.
func (h *Host) awaitTarget(ctx context.Context, in hypervisor.LiveMigrationWork, why error) error {
	arrived, err := in.AwaitTarget(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case !arrived && why == nil:
		return hypervisor.StayedVMError(hypervisor.InterruptedMigrationError(in.VM.Name), h.powerOf(in.VM.ID))
	case !arrived:
		return why
	}
	h.removeArrivedVM(in.VM.ID)
	return nil
}

func (h *Host) powerOf(id fleet.VMID) fleet.Power {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g := h.guests[id]; g != nil {
		return g.power
	}
	return fleet.Absent
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
	out = movingGuest{
		Generation: g.generation, Applied: g.applied, Mark: g.ownershipMark, Name: g.name,
		StartedAt: g.startedAt, Balloon: g.balloon, Firmware: g.firmware,
	}
	persistent, live := g.persistent, *g.live
	for _, d := range live.spec.Disks {
		i := slices.IndexFunc(in.Params.Disks, func(o fleet.MigratingDisk) bool { return o.Disk == d.Ref() })
		if i < 0 && !slices.Contains(in.Params.Stay, d.Ref()) {
			return out, hypervisor.RefuseMigration(in.VM.Name, "the migration job does not list the disk %s.", d.Volume)
		}
	}
	for _, o := range in.Params.Disks {
		f, to, err := h.movingFile(live, o, in.Pools)
		if err != nil {
			return out, err
		}
		out.Disks = append(out.Disks, movingFile{Volume: f.Volume, Bytes: f.bytes})
		move := fleet.DiskMigrationParams{Disk: o.Disk, To: o.To}
		persistent, live = persistent.withMovedDisk(move, to), live.withMovedDisk(move, to)
		out.Applied.Spec.Disks = movedDisks(out.Applied.Spec.Disks, move)
		out.Applied.Pools = maps.Clone(out.Applied.Pools)
		out.Applied.Pools[to.ID] = hypervisor.AppliedPool{Name: to.Name, Path: to.Spec.Path}
	}
	out.Persistent, out.Live = persistent.moving(), live.moving()
	return out, nil
}

// movingFile returns the file of a copied disk and the pool of its copy. The caller holds h.mu.
func (h *Host) movingFile(live guestDefinition, o fleet.MigratingDisk, pools []fleet.Pool) (*file, fleet.Pool, error) {
	i := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.ID == o.To.PoolID })
	f := h.fileAt(live.path(o.Disk))
	raw := slices.ContainsFunc(live.spec.Disks, func(d fleet.Disk) bool { return d.Ref() == o.Disk && d.FileFormat() == fleet.Raw })
	switch {
	case i < 0:
		return nil, fleet.Pool{}, fleet.Errorf(fleet.Conflict, "The pool of the volume %s is not assigned to this host. Assign the pool first.", o.To.Volume)
	case f == nil:
		return nil, fleet.Pool{}, hypervisor.NoVolumeError(o.Disk.Volume, o.Disk.Volume)
	case f.Backing != "" || f.hasExternalData:
		return nil, fleet.Pool{}, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the disk's file refers to %s. Merge that file first.", f.Name, f.Backing)
	case !fleet.IsVolumeName(o.To.Volume) || fleet.IsRawName(o.To.Volume) != raw:
		return nil, fleet.Pool{}, fleet.Errorf(fleet.Invalid, "%q is not a valid name for the copy of the disk %s.", o.To.Volume, f.Name)
	}
	return f, pools[i], nil
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
	case in.Arrived, in.Begun && running:
		return nil
	case in.Begun:
		h.removeArrivingFiles(in)
		return hypervisor.InterruptedMigrationError(vm.Name)
	case known:
		return hypervisor.RefuseKnownVM(vm.Name)
	}
	if err := in.RecordBegin(); err != nil {
		return err
	}
	err := h.receiveGuest(ctx, in)
	if err != nil {
		h.removeArrivingFiles(in)
	}
	return err
}

func (h *Host) receiveGuest(ctx context.Context, in hypervisor.ReceiveVMWork) error {
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
	failed := h.createArrivingFiles(in, offer)
	if failed == nil {
		failed = h.checkArrivingDisks(in, offer)
	}
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
		h.addArrivedVM(in.Apply.VM.ID, offer)
		answer.Arrived = true
		_ = in.RecordArrived() // without the record, a restarted agent looks for the guest
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = link.Send(within, answer) // without it, the source host waits for the end of this job
	return failed
}

// createArrivingFiles creates the files of the copied disks.
func (h *Host) createArrivingFiles(in hypervisor.ReceiveVMWork, offer movingGuest) error {
	if len(offer.Disks) != len(in.Disks) {
		return errors.New("the source host offers other disks than the portal ordered")
	}
	for i, d := range in.Disks {
		offered := offer.Disks[i]
		if offered.Volume.CapacityBytes > d.TakesBytes {
			return fleet.Errorf(fleet.Conflict, "The source host offers disk %d with %s, but the portal reserved %s for it.", i+1, fleet.FormatBytes(offered.Volume.CapacityBytes), fleet.FormatBytes(d.TakesBytes))
		}
		f := &file{Volume: offered.Volume, bytes: offered.Bytes}
		f.Name, f.UsedBy = d.To.Volume, nil
		if err := in.RecordFile(d.To, f.identityText()); err != nil {
			return err
		}
		if err := h.addArrivingFile(in, d.To, f); err != nil {
			return err
		}
		if nameContains(in.Apply.VM.Name, FailSend) {
			return fleet.Errorf(fleet.Conflict, "The pool is full: No space left on device.")
		}
	}
	return nil
}

func (h *Host) addArrivingFile(in hypervisor.ReceiveVMWork, to fleet.Volref, f *file) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, err := h.activePool(to.PoolID, in.Apply.Pools)
	if err != nil {
		return err
	}
	if p.dir.files[to.Volume] != nil {
		return hypervisor.RefuseTakenVolumeName(to.Volume, poolNameOf(in.Apply.Pools, to.PoolID))
	}
	p.dir.files[to.Volume] = f
	h.notify()
	return nil
}

// removeArrivingFiles removes the files that the job has created, unless the VM is here.
func (h *Host) removeArrivingFiles(in hypervisor.ReceiveVMWork) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests[in.Apply.VM.ID] != nil {
		return
	}
	for _, d := range in.Disks {
		p, err := h.activePool(d.To.PoolID, in.Apply.Pools)
		if err != nil {
			continue
		}
		if f := p.dir.files[d.To.Volume]; f != nil && f.identityText() == in.CreatedFile(d.To) {
			delete(p.dir.files, d.To.Volume)
		}
	}
	h.notify()
}

// checkArrivingDisks refuses a guest whose disks are not those of the VM.
func (h *Host) checkArrivingDisks(in hypervisor.ReceiveVMWork, offer movingGuest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range slices.Concat(offer.Live.Spec.Disks, offer.Persistent.Spec.Disks) {
		if !slices.ContainsFunc(in.Apply.VM.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref() }) {
			return fleet.Errorf(fleet.Conflict, "The VM's definition has the disk %s, which is none of the VM's disks on this host.", d.Volume)
		}
	}
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
		screen: newScreen(offer.Name, run), firmware: offer.Firmware,
	}
	delete(h.receivedFirmware, id)
	h.notify()
}
