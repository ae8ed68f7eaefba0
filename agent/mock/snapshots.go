package mock

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// These words in a VM's name make its snapshots misbehave.
const (
	FailSnapshot = "fail-snapshot" // the pool runs full during a snapshot
	FailMerge    = "fail-merge"    // the pool runs full during a merge
)

// TakeSnapshot implements hypervisor.Snapshots.
func (h *Host) TakeSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	return h.runSnapshotStep(ctx, in, 1, func(g *guest, t *hypervisor.SnapTree) error {
		switch {
		case t.Node(in.Params.ID) != nil:
			return fleet.Errorf(fleet.Conflict, "The host already has this snapshot.")
		case len(g.applied.Spec.Disks) == 0:
			return fleet.Errorf(fleet.Conflict, "The VM has no disk, so a snapshot would be empty.")
		case len(t.Nodes) >= fleet.MaxSnapshots:
			return fleet.Errorf(fleet.Conflict, "The VM has %d snapshots, which is the maximum. Delete a snapshot first.", fleet.MaxSnapshots)
		case g.isRunning() && in.Params.Memory && g.live.spec.WhyNoMemorySnapshot() != "":
			return fleet.RefusalError(g.live.spec.WhyNoMemorySnapshot())
		case nameContains(in.VM.Name, FailSnapshot):
			return fleet.Errorf(fleet.Conflict, "/srv/full has 3 MiB free, but the snapshot may need %s. Free space there first.", fleet.FormatBytes(int64(in.VM.Spec.MemoryMiB)<<20))
		}
		node, next := t.PlanSnapshot(in, g.applied.Spec, g.persistent.path)
		node.Domain = g.name
		node.At = time.Now().UTC().Truncate(time.Second)
		switch on := g.isRunning(); {
		case on && in.Params.Memory:
			node.Snapshot.Memory, node.Paused, node.MemSize = true, g.power == fleet.Paused, int64(g.live.spec.MemoryMiB)<<20
			h.addFile(node.Memory, "raw", "", node.MemSize)
		case in.Params.Memory:
			node.Memory, node.Note = "", "The VM was off, so there was no memory to save."
		case on && in.Params.Quiesce:
			node.Quiesced = true
		case on:
			node.Note = "Without memory: the disks are as after a power cut."
		}
		h.addLayers(next)
		t.AddSnapshot(node, next)
		return nil
	})
}

// RevertSnapshot implements hypervisor.Snapshots.
func (h *Host) RevertSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	return h.runSnapshotStep(ctx, in, 2, func(g *guest, t *hypervisor.SnapTree) error {
		node := t.Node(in.Params.ID)
		if node == nil || node.Deleted {
			return hypervisor.NoSnapshotError(in.VM.Name)
		}
		for _, l := range node.Layers {
			if !definitionHasVolume(g.persistent, l.Disk) {
				return hypervisor.RefuseRevertWithoutDisk(l.Disk.Volume)
			}
		}
		next := t.PlanRevert(*node, string(in.Job), g.persistent.path)
		h.addLayers(next)
		h.stop(g, "forced off")
		if node.Memory != "" || in.Params.Start {
			g.start(time.Now())
			if node.Memory != "" {
				run := g.persistent
				run.spec.CPUs, run.spec.MemoryMiB = node.Spec.CPUs, node.Spec.MemoryMiB
				g.live = &run
				if g.name != node.Domain { // the domain gets its own name once the guest is off
					g.name, g.applied.FormerDomain = node.Domain, node.Domain
				}
			}
			if node.Paused {
				g.power = fleet.Paused
			}
		}
		t.FinishRevert(node.ID, next)
		return nil
	})
}

// DeleteSnapshot implements hypervisor.Snapshots.
func (h *Host) DeleteSnapshot(ctx context.Context, in hypervisor.SnapshotWork) error {
	id := in.Params.ID
	err := h.runSnapshotStep(ctx, in, 0.2, func(_ *guest, t *hypervisor.SnapTree) error {
		if id == "" {
			return nil
		}
		if t.Node(id) == nil && t.Deleted == in.Job {
			return nil
		}
		if t.Node(id) == nil {
			return hypervisor.NoSnapshotError(in.VM.Name)
		}
		t.MarkDeleted(id, in.Params.Subtree)
		t.Deleted = in.Job
		return nil
	})
	for more := true; more && err == nil; {
		if in.IsCancelled() {
			return hypervisor.ErrCancelled
		}
		in.Progress(50, "merging the remaining files")
		err = h.runSnapshotStep(ctx, hypervisor.SnapshotWork{VM: in.VM, Pools: in.Pools, Progress: in.Progress}, 0.5, func(_ *guest, t *hypervisor.SnapTree) error {
			all := t.PendingMerges()
			if more = len(all) > 0; !more {
				return nil
			}
			if nameContains(in.VM.Name, FailMerge) {
				return fleet.Errorf(fleet.Conflict, "/srv/full has 3 MiB free, but merging the disk may need %s. Free space there first.", fleet.FormatBytes(1<<30))
			}
			top, base := h.fileAt(all[0].Top), h.fileAt(all[0].Base)
			if top == nil || base == nil {
				return fmt.Errorf("qemu-img: Could not open '%s': No such file or directory", all[0].Top)
			}
			if top.bytes != "" {
				base.bytes = top.bytes
			}
			for _, l := range t.LayersBackedBy(all[0].Top) {
				h.fileAt(l.File).Backing = all[0].Base
			}
			t.FinishMerge(all[0])
			return nil
		})
	}
	return err
}

// runSnapshotStep runs one operation on a VM's snapshots. It does nothing for a job that is already done. parts is the
// duration as a fraction of Delay.
func (h *Host) runSnapshotStep(ctx context.Context, in hypervisor.SnapshotWork, parts float64, do func(*guest, *hypervisor.SnapTree) error) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	in.Progress(10, "asking QEMU")
	if err := h.waitDelay(ctx, parts); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err := h.findManaged(in.VM.ID)
	if err != nil {
		return err
	}
	t := g.snapshotTree
	if t == nil {
		t = &hypervisor.SnapTree{VM: in.VM.ID}
	}
	if t.IsJobDone(in.Job) {
		return nil
	}
	if h.snapshotReads[in.VM.ID] > 0 {
		return hypervisor.RefuseSnapshotsBeingCopied(in.VM.Name)
	}
	if err := h.checkSnapshots(g, in); err != nil {
		return err
	}
	if err := do(g, t); err != nil {
		return err
	}
	for _, f := range t.Trash {
		if p := h.poolAt(f); p != nil {
			delete(p.dir.files, path.Base(f))
		}
	}
	t.Trash = nil
	t.FinishJob(in.Job)
	h.recordLayerSizes(t)
	g.snapshotTree = t
	h.notify()
	return nil
}

// checkSnapshots refuses a VM whose disks or snapshots somebody changed outside Quantix. The caller holds h.mu.
func (h *Host) checkSnapshots(g *guest, in hypervisor.SnapshotWork) error {
	switch {
	case g.undefined:
		return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case len(g.foreignSnapshots) > 0:
		return fleet.Errorf(fleet.Conflict, "Somebody made snapshots of the VM with virsh on the host (%s), which would be lost. Delete those snapshots first (virsh snapshot-list, snapshot-delete).", g.foreignSnapshots[0])
	}
	if len(g.foreignOverlays) > 0 {
		return fleet.Errorf(fleet.Conflict, "The VM uses the file %s instead of %s, for example because of a snapshot or a change on the host. Merge that file first.", g.foreignOverlays[0].File, g.foreignOverlays[0].Disk.Volume)
	}
	if i := slices.IndexFunc(g.persistent.spec.HostDevices, func(d fleet.VMHostDevice) bool { return d.PhysicalDiskName() != "" }); i >= 0 {
		return fleet.Errorf(fleet.Conflict, "The VM has the physical disk %s. Physical disks cannot have snapshots.", g.persistent.spec.HostDevices[i].Device)
	}
	for i, d := range g.applied.Spec.Disks {
		if !definitionHasVolume(g.persistent, d.Ref()) {
			return fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not in the VM's definition on the host. Add the disk to the definition again, or detach the disk, first.", i+1, d.Volume)
		}
		p, err := h.activePool(d.PoolID, in.Pools)
		if err != nil {
			return err
		}
		if d.Encryption != "" {
			return fleet.Errorf(fleet.Conflict, "Disk %d (%s) is encrypted, so the disk cannot have snapshots.", i+1, d.Volume)
		}
		if d.Format == fleet.Raw {
			return fleet.Errorf(fleet.Conflict, "Disk %d (%s) is a raw file, so the disk cannot have snapshots.", i+1, d.Volume)
		}
		if !p.spec.Kind.Info().FilePool || d.Existing {
			return fleet.Errorf(fleet.Conflict, "Disk %d (%s) is not a file of a pool, so the disk cannot have snapshots.", i+1, d.Volume)
		}
		if h.volumeAt(g.currentDiskFile(g.persistent, d.Ref())) == nil {
			return hypervisor.NoVolumeError(path.Base(g.currentDiskFile(g.persistent, d.Ref())), in.Pools[slices.IndexFunc(in.Pools, func(o fleet.Pool) bool { return o.ID == d.PoolID })].Name)
		}
	}
	return nil
}

// currentDiskFile returns the path of the file that the VM writes to for a disk.
func (g *guest) currentDiskFile(s guestDefinition, ref fleet.Volref) string {
	for _, o := range g.foreignOverlays {
		if o.Disk == ref {
			return path.Join(path.Dir(s.path(ref)), o.File)
		}
	}
	if g.snapshotTree != nil && g.snapshotTree.ActiveFile(ref) != "" {
		return g.snapshotTree.ActiveFile(ref)
	}
	return s.path(ref)
}

// poolAt returns the pool of the file. The caller holds h.mu.
func (h *Host) poolAt(file string) *pool {
	for _, p := range h.pools {
		if p.dir != nil && volumePathPrefix(p.spec) == path.Dir(file) {
			return p
		}
	}
	return nil
}

func (h *Host) fileAt(at string) *file {
	if p := h.poolAt(at); p != nil {
		return p.dir.files[path.Base(at)]
	}
	return nil
}

func (h *Host) addFile(at, format, base string, bytes int64) {
	p := h.poolAt(at)
	if p == nil {
		return
	}
	v := fleet.Volume{Name: path.Base(at), Format: format, Backing: base, CapacityBytes: bytes, AllocBytes: bytes}
	if below := h.fileAt(base); below != nil {
		v.CapacityBytes, v.AllocBytes = below.CapacityBytes, 192<<10
	}
	p.dir.files[v.Name] = &file{Volume: v}
}

// readSnapshot returns the name of the disk's file in the snapshot. The file stays unchanged until the caller calls
// release.
func (h *Host) readSnapshot(of fleet.SnapshotRef, disk fleet.Volref) (name string, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.guests[of.VMID]
	if g == nil || g.snapshotTree.SnapshotFile(of.ID, disk) == "" {
		return "", nil, fleet.Errorf(fleet.NotFound, "The host no longer has this snapshot of the disk %s.", disk.Volume)
	}
	h.snapshotReads[of.VMID]++
	return path.Base(g.snapshotTree.SnapshotFile(of.ID, disk)), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.snapshotReads[of.VMID]--
	}, nil
}

func (h *Host) addLayers(next []hypervisor.SnapLayer) {
	for _, n := range next {
		h.addFile(n.File, "qcow2", n.Base, 0)
	}
}

func (h *Host) recordLayerSizes(t *hypervisor.SnapTree) {
	for i := range t.Nodes {
		for k := range t.Nodes[i].Layers {
			if f := h.fileAt(t.Nodes[i].Layers[k].File); f != nil {
				t.Nodes[i].Layers[k].Bytes = f.AllocBytes
			}
		}
	}
}

// refuseDisksWithSnapshots refuses an operation on disks with snapshots.
func (g *guest) refuseDisksWithSnapshots(disks []fleet.Disk, vm string) error {
	if g == nil || g.snapshotTree == nil {
		return nil
	}
	for _, d := range disks {
		if g.snapshotTree.ActiveFile(d.Ref()) != "" {
			return hypervisor.RefuseVMWithSnapshots(vm)
		}
	}
	return nil
}

// deleteSnapshotFiles deletes the files of a VM's snapshots. It refuses to delete them without the disks. The caller
// holds h.mu.
func (h *Host) deleteSnapshotFiles(g *guest, vm string, disks bool) error {
	switch {
	case g == nil || g.snapshotTree == nil || len(g.snapshotTree.Active) == 0:
		return nil
	case h.snapshotReads[g.snapshotTree.VM] > 0:
		return hypervisor.RefuseSnapshotsBeingCopied(vm)
	case !disks:
		return hypervisor.RefuseDeleteWithoutDisks(vm)
	}
	for _, f := range g.snapshotTree.AllFiles() {
		if p := h.poolAt(f); p != nil {
			delete(p.dir.files, path.Base(f))
		}
	}
	return nil
}
