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
func (h *Host) MoveDisk(ctx context.Context, in hypervisor.MoveDisk) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	done, err := h.beginMove(in)
	if err != nil || done {
		return err
	}
	for s := range moveSteps {
		in.Progress(hypervisor.FormatCopyProgress("copying disk 1", int64(s)*fetchedBytes/moveSteps, fetchedBytes, 45<<20))
		err := h.step(ctx, 0.5)
		if in.Stopped() {
			err = hypervisor.ErrStopped
		}
		if err == nil && s == moveSteps/2 && misbehaves(in.VM.Name, FailMove) {
			err = fleet.Errorf(fleet.Conflict, "The pool is full: No space left on device. The disk was not moved. Free space in the pool, and move the disk again.")
		}
		if err != nil {
			return err
		}
	}
	if err := in.RecordDisk(in.Order.To); err != nil {
		return err
	}
	return h.endMove(in)
}

// beginMove refuses an impossible move. done reports that an earlier call has completed the move.
func (h *Host) beginMove(in hypervisor.MoveDisk) (done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, p, f, err := h.moveObjects(in)
	switch {
	case err != nil:
		return false, err
	case hasRef(g.def, in.Order.To):
		return true, nil
	case in.Stopped():
		return false, hypervisor.ErrStopped
	case !hasRef(g.def, in.Order.Disk) || g.undefined:
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the VM's definition on this host does not have the disk. Reapply the VM's configuration first.", in.Order.Disk.Volume)
	case slices.ContainsFunc(in.VM.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == in.Order.Disk && d.Format == fleet.Raw }):
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the VM's definition has the disk as a raw file.", in.Order.Disk.Volume)
	case g.tree != nil && g.tree.ActiveFile(in.Order.Disk) != "":
		return false, hypervisor.RefuseVMWithSnapshots(in.VM.Name)
	case f == nil:
		return false, hypervisor.NoVolume(in.Order.Disk.Volume, in.Order.Disk.Volume)
	case f.Backing != "" || f.refers:
		return false, fleet.Errorf(fleet.Conflict, "Disk %s is not moved: the disk's file refers to %s. Merge that file first.", f.Name, f.Backing)
	case p.dir.files[in.Order.To.Volume] != nil:
		return false, hypervisor.RefuseTakenVolumeName(in.Order.To.Volume, poolNamed(in.Pools, in.Order.To.PoolID))
	}
	return false, in.RecordFile(fmt.Sprintf("%p", &in))
}

// endMove switches the guest and its definition to the copy.
func (h *Host) endMove(in hypervisor.MoveDisk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, p, f, err := h.moveObjects(in) // the host may have changed during the copy
	if err != nil {
		return err
	}
	if f == nil || !hasRef(g.def, in.Order.Disk) {
		return hypervisor.NoVolume(in.Order.Disk.Volume, in.Order.Disk.Volume)
	}
	if p.dir.files[in.Order.To.Volume] != nil {
		return hypervisor.RefuseTakenVolumeName(in.Order.To.Volume, poolNamed(in.Pools, in.Order.To.PoolID))
	}
	v := f.Volume
	v.Name = in.Order.To.Volume
	p.dir.files[v.Name] = &file{Volume: v}
	i := slices.IndexFunc(in.Pools, func(p fleet.Pool) bool { return p.ID == in.Order.To.PoolID })
	g.def = g.def.withMovedDisk(in.Order, in.Pools[i])
	if g.isRunning() {
		run := g.live.withMovedDisk(in.Order, in.Pools[i])
		*g.live = run
	}
	g.applied.Spec.Disks = movedDisks(g.applied.Spec.Disks, in.Order)
	g.applied.Pools = maps.Clone(g.applied.Pools)
	g.applied.Pools[in.Order.To.PoolID] = hypervisor.AppliedPool{Name: in.Pools[i].Name, Path: in.Pools[i].Spec.Path}
	h.notify()
	return nil
}

// moveObjects returns the guest, the destination pool and the disk's file of a move. f is nil if the disk's file is
// missing. The caller holds h.mu.
func (h *Host) moveObjects(in hypervisor.MoveDisk) (g *guest, to *pool, f *file, err error) {
	if g, err = h.find(in.VM.ID); err != nil {
		return nil, nil, nil, err
	}
	if to, err = h.active(in.Order.To.PoolID, in.Pools); err != nil {
		return nil, nil, nil, err
	}
	if !fleet.IsVolumeName(in.Order.To.Volume) || in.Order.To == in.Order.Disk {
		return nil, nil, nil, fleet.Errorf(fleet.Invalid, "%q is not a valid destination for a disk.", in.Order.To.Volume)
	}
	if hasRef(g.def, in.Order.To) {
		return g, to, nil, nil
	}
	from, err := h.active(in.Order.Disk.PoolID, in.Pools)
	if err != nil {
		return nil, nil, nil, err
	}
	return g, to, from.dir.files[in.Order.Disk.Volume], nil
}

func poolNamed(pools []fleet.Pool, id fleet.PoolID) string {
	i := slices.IndexFunc(pools, func(p fleet.Pool) bool { return p.ID == id })
	return pools[i].Name
}

func hasRef(s definition, ref fleet.Volref) bool {
	return slices.ContainsFunc(s.spec.Disks, func(d fleet.Disk) bool { return d.Ref() == ref })
}

// withMovedDisk returns the definition with the disk in the destination pool.
func (s definition) withMovedDisk(o fleet.MoveParams, to fleet.Pool) definition {
	s.spec.Disks = movedDisks(s.spec.Disks, o)
	s.pools = maps.Clone(s.pools)
	s.pools[to.ID] = path.Clean(to.Spec.Path)
	return s
}

func movedDisks(all []fleet.Disk, o fleet.MoveParams) []fleet.Disk {
	out := slices.Clone(all)
	for i, d := range out {
		if d.Ref() == o.Disk {
			out[i].PoolID, out[i].Volume = o.To.PoolID, o.To.Volume
		}
	}
	return out
}
