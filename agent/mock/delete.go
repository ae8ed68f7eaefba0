package mock

import (
	"context"
	"path"

	"quantix/internal/fleet"
)

// DeleteVM implements hypervisor.VMs.
func (h *Host) DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	if err := h.waitDelay(ctx, 0.3); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, ok := h.guests[vm.ID]
	if ok && !g.managed {
		return errUnmanaged()
	}
	volumesToDelete, err := h.volumesToDelete(vm, pools, disks)
	if err != nil {
		return err
	}
	if err := h.deleteSnapshotFiles(g, vm.Name, disks); err != nil {
		return err
	}
	if ok && disks {
		for _, o := range g.foreignOverlays {
			if p := h.poolAt(g.currentDiskFile(g.persistent, o.Disk)); p != nil {
				delete(p.dir.files, o.File)
			}
		}
	}
	if ok {
		h.stop(g, "forced off")
		delete(h.guests, vm.ID)
	}
	delete(h.seeds, vm.ID)
	delete(h.receivedFirmware, vm.ID)
	for _, d := range volumesToDelete {
		delete(d.in.files, d.Name)
	}
	h.notify()
	return nil
}

// volumesToDelete returns the volumes to delete with the VM. It refuses a disk of another VM. It also refuses a missing
// pool, unless the VM does not exist, because the VM's disks in that pool then count as deleted. The caller holds h.mu.
func (h *Host) volumesToDelete(vm fleet.VM, pools []fleet.Pool, disks bool) (out []newVolume, _ error) {
	if !disks {
		return nil, nil
	}
	for _, d := range vm.Spec.Disks {
		if d.Existing {
			continue
		}
		p, err := h.activePool(d.PoolID, pools)
		if _, here := h.guests[vm.ID]; err != nil && !here {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := h.refuseUsedDisk(path.Join(volumePathPrefix(p.spec), d.Volume), vm.ID); err != nil {
			return nil, err
		}
		out = append(out, newVolume{in: p.dir, file: file{Volume: fleet.Volume{Name: d.Volume}}})
	}
	return out, nil
}
