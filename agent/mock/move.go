package mock

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// FailMove in a VM's name makes the destination pool of its disk full halfway through the copy.
const FailMove = "fail-move"

// moveSteps is the number of steps of a copy. Each step takes a fraction of Delay.
const moveSteps = 10

// MoveDisk implements hypervisor.VMs.
func (h *Host) MoveDisk(ctx context.Context, in hypervisor.MoveDiskWork) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	done, err := h.checkMove(in)
	if err != nil || done {
		return err
	}
	for s := range moveSteps {
		in.Progress(hypervisor.FormatCopyProgress("copying disk 1", int64(s)*downloadedBytes/moveSteps, downloadedBytes, 45<<20))
		err := h.waitDelay(ctx, 0.5)
		if in.IsCancelled() {
			err = hypervisor.ErrCancelled
		}
		if err == nil && s == moveSteps/2 && nameContains(in.VM.Name, FailMove) {
			err = fleet.Errorf(fleet.Conflict, "The pool is full: No space left on device. The disk was not moved. Free space in the pool, and move the disk again.")
		}
		if err != nil {
			return err
		}
	}
	if err := in.RecordDisk(in.Params.To); err != nil {
		return err
	}
	return h.switchToCopy(in)
}

// checkMove refuses an impossible move. done reports that an earlier call has completed the move.
func (h *Host) checkMove(in hypervisor.MoveDiskWork) (done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, p, f, err := h.findMoveObjects(in)
	switch {
	case err != nil:
		return false, err
	case definitionHasVolume(g.persistent, in.Params.To):
		return true, nil
	case in.IsCancelled():
		return false, hypervisor.ErrCancelled
	case !definitionHasVolume(g.persistent, in.Params.Disk) || g.undefined:
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the VM's definition on this host does not have the disk. Reapply the VM's configuration first.", in.Params.Disk.Volume)
	case slices.ContainsFunc(in.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == in.Params.Disk && d.Format == fleet.Raw }):
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the VM's definition has the disk as a raw file.", in.Params.Disk.Volume)
	case g.snapshotTree != nil && g.snapshotTree.ActiveFile(in.Params.Disk) != "":
		return false, hypervisor.RefuseVMWithSnapshots(in.VM.Name)
	case f == nil:
		return false, hypervisor.NoVolumeError(in.Params.Disk.Volume, in.Params.Disk.Volume)
	case f.Backing != "" || f.hasExternalData:
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the disk's file refers to %s. Merge that file first.", f.Name, f.Backing)
	case p.dir.files[in.Params.To.Volume] != nil:
		return false, hypervisor.RefuseTakenVolumeName(in.Params.To.Volume, poolNameOf(in.Pools, in.Params.To.PoolID))
	}
	return false, in.RecordFile(fmt.Sprintf("%p", &in))
}

// switchToCopy switches the guest and its definition to the copy.
func (h *Host) switchToCopy(in hypervisor.MoveDiskWork) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, p, f, err := h.findMoveObjects(in) // the host may have changed during the copy
	if err != nil {
		return err
	}
	if f == nil || !definitionHasVolume(g.persistent, in.Params.Disk) {
		return hypervisor.NoVolumeError(in.Params.Disk.Volume, in.Params.Disk.Volume)
	}
	if p.dir.files[in.Params.To.Volume] != nil {
		return hypervisor.RefuseTakenVolumeName(in.Params.To.Volume, poolNameOf(in.Pools, in.Params.To.PoolID))
	}
	v := f.Volume
	v.Name = in.Params.To.Volume
	p.dir.files[v.Name] = &file{Volume: v}
	i := slices.IndexFunc(in.Pools, func(p fleet.Pool) bool { return p.ID == in.Params.To.PoolID })
	g.persistent = g.persistent.withMovedDisk(in.Params, in.Pools[i])
	if g.isRunning() {
		run := g.live.withMovedDisk(in.Params, in.Pools[i])
		*g.live = run
	}
	g.applied.Spec.Disks = movedDisks(g.applied.Spec.Disks, in.Params)
	g.applied.Pools = maps.Clone(g.applied.Pools)
	g.applied.Pools[in.Params.To.PoolID] = hypervisor.AppliedPool{Name: in.Pools[i].Name, Path: in.Pools[i].Spec.Path}
	h.notify()
	return nil
}

// findMoveObjects returns the guest, the destination pool and the disk's file of a move. f is nil if the disk's file is
// missing. The caller holds h.mu.
func (h *Host) findMoveObjects(in hypervisor.MoveDiskWork) (g *guest, to *pool, f *file, err error) {
	if g, err = h.findManaged(in.VM.ID); err != nil {
		return nil, nil, nil, err
	}
	if to, err = h.activePool(in.Params.To.PoolID, in.Pools); err != nil {
		return nil, nil, nil, err
	}
	if !fleet.IsVolumeName(in.Params.To.Volume) || in.Params.To == in.Params.Disk {
		return nil, nil, nil, fleet.Errorf(fleet.Invalid, "%q is not a valid destination for a disk.", in.Params.To.Volume)
	}
	if definitionHasVolume(g.persistent, in.Params.To) {
		return g, to, nil, nil
	}
	from, err := h.activePool(in.Params.Disk.PoolID, in.Pools)
	if err != nil {
		return nil, nil, nil, err
	}
	return g, to, from.dir.files[in.Params.Disk.Volume], nil
}

func poolNameOf(pools []fleet.Pool, id fleet.PoolID) string {
	i := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.ID == id })
	return pools[i].Name
}

func definitionHasVolume(s guestDefinition, ref fleet.Volref) bool {
	return slices.ContainsFunc(s.spec.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
}

// withMovedDisk returns the definition with the disk in the destination pool.
func (s guestDefinition) withMovedDisk(o fleet.DiskMigrationParams, to fleet.Pool) guestDefinition {
	s.spec.Disks = movedDisks(s.spec.Disks, o)
	s.pools = maps.Clone(s.pools)
	s.pools[to.ID] = path.Clean(to.Spec.Path)
	return s
}

func movedDisks(all []fleet.Disk, o fleet.DiskMigrationParams) []fleet.Disk {
	out := slices.Clone(all)
	for i, d := range out {
		if d.Ref() == o.Disk {
			out[i].PoolID, out[i].Volume = o.To.PoolID, o.To.Volume
		}
	}
	return out
}
