package mock

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// unmanagedActions are the power actions on domains without Quantix metadata, for running guests. A start is not among
// them, because it needs a guest that is off.
var unmanagedActions = map[fleet.Action]func(*Host, *guest){
	fleet.ActShutdown: func(h *Host, g *guest) {
		id, run := g.id, g.live
		time.AfterFunc(h.options.Delay, func() { h.powerOff(id, run, "shut down") })
	},
	fleet.ActStop:   func(h *Host, g *guest) { h.stop(g, "forced off") },
	fleet.ActReboot: func(_ *Host, g *guest) { g.screen.showInitialText() },
	fleet.ActReset:  func(_ *Host, g *guest) { g.screen.showInitialText() },
	fleet.ActPause:  func(_ *Host, g *guest) { g.power = fleet.Paused },
	fleet.ActResume: func(_ *Host, g *guest) { g.power = fleet.Running },
}

// ControlUnmanagedVM implements hypervisor.VMs.
func (h *Host) ControlUnmanagedVM(ctx context.Context, id fleet.VMID, act fleet.Action) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	do, known := unmanagedActions[act]
	switch {
	case !ok:
		return errNoDomain(id)
	case g.managed:
		return hypervisor.ManagedDomainError(g.name)
	case act == fleet.ActStart && !g.isRunning():
		g.start(time.Now())
	case act == fleet.ActStart:
		return nil
	case !known:
		return fmt.Errorf("no power action %q", act)
	case !g.isRunning() && (act == fleet.ActShutdown || act == fleet.ActStop):
		return nil
	case !g.isRunning():
		return hypervisor.ErrNotRunning
	case g.undefined && (act == fleet.ActShutdown || act == fleet.ActStop):
		return fleet.RefusalError(fleet.TransientDomainRefusal)
	default:
		do(h, g)
	}
	h.notify()
	return nil
}

// ReadUnmanagedVM implements hypervisor.VMs.
func (h *Host) ReadUnmanagedVM(ctx context.Context, id fleet.VMID, pools []fleet.Pool) (out fleet.AdoptableVM, err error) {
	if err := h.simulateCall(ctx); err != nil {
		return out, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[id]
	if !ok {
		return out, errNoDomain(id)
	}
	out = fleet.AdoptableVM{Name: g.name, Spec: g.persistent.spec, Verbatim: slices.Clone(g.verbatim)}
	if out.Spec.Power = g.power; g.power == fleet.Crashed {
		out.Spec.Power = fleet.Stopped
	}
	if g.undefined {
		out.Refusals = append(out.Refusals, fleet.TransientAdoptionRefusal)
	}
	out.Spec.Firmware = cmp.Or(out.Spec.Firmware, fleet.BIOS)
	out.Spec.Disks = []fleet.Disk{}
	for i, d := range g.persistent.spec.Disks {
		at := g.persistent.path(d.Ref())
		refuse := func(why string) {
			out.Refusals = append(out.Refusals, fmt.Sprintf("Disk vd%c (%s): %s", 'a'+i, at, why))
		}
		k := slices.IndexFunc(pools, func(p fleet.Pool) bool { return volumePathPrefix(p.Spec) == path.Dir(at) })
		if k < 0 {
			refuse("no pool of Quantix on this host has it. Adopt or create a pool with its folder, or with its storage, first.")
			continue
		}
		d.PoolID = pools[k].ID
		p, err := h.activePool(d.PoolID, pools)
		if err != nil {
			refuse(err.Error())
			continue
		}
		job := hypervisor.ApplyWork{VM: fleet.VM{Spec: fleet.VMSpec{Disks: []fleet.Disk{d}}}, Pools: pools}
		switch why := h.missingVolumeReason(d.Ref(), hypervisor.NewAppliedRecord(job, "", "", nil).Pools); {
		case why != "":
			refuse(why)
		case h.refuseUsedDisk(at, id) != nil:
			refuse("another VM of the host uses it, too.")
		default:
			d.SizeBytes = p.dir.files[d.Volume].CapacityBytes
		}
		out.Spec.Disks = append(out.Spec.Disks, d)
	}
	return out, nil
}

// markAdopted makes a domain without metadata the job's VM, if the job's VM was adopted. The caller holds h.mu.
func (h *Host) markAdopted(in hypervisor.ApplyWork) error {
	g, ok := h.guests[in.VM.ID]
	switch {
	case !in.Adopted || ok && g.managed || !ok && h.defineReceived(in):
		return nil
	case !ok && in.AppliedGeneration == 0 && !in.Reapply:
		return fleet.Errorf(fleet.Conflict, "The host no longer has the VM that was adopted. Release or delete the VM, or define its domain on the host again.")
	case !ok:
		return nil
	case g.undefined:
		return fleet.RefusalError(fleet.TransientAdoptionRefusal)
	}
	g.managed, g.generation, g.ownershipMark = true, in.VM.Generation, in.OwnershipMark
	g.applied = hypervisor.NewAppliedRecord(in, g.name, "", nil)
	g.applied.Adopted = true
	for _, def := range []*guestDefinition{&g.persistent, g.live} {
		if def != nil {
			def.nameVolumes(in.Pools)
		}
	}
	h.notify()
	return nil
}

// nameVolumes gives the disks of a definition made outside Quantix the pools that have them.
func (s *guestDefinition) nameVolumes(pools []fleet.Pool) {
	disks, dirs := slices.Clone(s.spec.Disks), map[fleet.PoolID]string{}
	for i, d := range disks {
		at := path.Dir(s.path(d.Ref()))
		if k := slices.IndexFunc(pools, func(p fleet.Pool) bool { return volumePathPrefix(p.Spec) == at }); k >= 0 {
			disks[i].PoolID = pools[k].ID
		}
		dirs[disks[i].PoolID] = at
	}
	s.spec.Firmware = cmp.Or(s.spec.Firmware, fleet.BIOS)
	s.spec.Disks, s.pools = disks, dirs
}

// ReleaseVM implements hypervisor.VMs.
func (h *Host) ReleaseVM(ctx context.Context, vm fleet.VM) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[vm.ID]
	if !ok {
		return nil
	}
	g.managed, g.generation, g.ownershipMark, g.snapshotTree, g.applied = false, 0, "", nil, hypervisor.AppliedRecord{}
	for _, def := range []*guestDefinition{&g.persistent, g.live} {
		if def == nil {
			continue
		}
		def.spec.NICs = slices.Clone(def.spec.NICs)
		for i := range def.spec.NICs {
			def.spec.NICs[i].SecurityGroups, def.spec.NICs[i].AntiSpoofing = nil, nil
		}
	}
	h.notify()
	return nil
}

// AddUnmanagedVM adds a running domain without Quantix metadata whose disks are the files at the paths, and whose
// definition has the verbatim parts.
func (h *Host) AddUnmanagedVM(name string, disks, verbatim []string) fleet.VMID {
	id := h.addUnmanaged(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[id]
	g.verbatim, g.persistent.pools = verbatim, map[fleet.PoolID]string{}
	for _, at := range disks {
		dir := fleet.PoolID(path.Dir(at))
		g.persistent.pools[dir] = path.Dir(at)
		g.persistent.spec.Disks = append(g.persistent.spec.Disks, fleet.Disk{PoolID: dir, Volume: path.Base(at)})
	}
	g.start(time.Now())
	h.notify()
	return id
}
