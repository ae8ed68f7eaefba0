package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/internal/fleet"
)

// takeSnapshot takes a snapshot of the VM. QEMU switches all disks of a running guest to new overlays at the same
// moment. The agent copies the UEFI variables and the TPM state while the guest is paused.
func (w *snapshotJob) takeSnapshot(ctx context.Context) error {
	o := w.in.Params
	if n := w.tree.Node(o.ID); n != nil {
		return fleet.Errorf(fleet.Conflict, "The host already has this snapshot.")
	}
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	if err := w.checkNoUnmanagedState(ctx, s); err != nil {
		return err
	}
	switch {
	case len(s.applied.Spec.Disks) == 0:
		return fleet.Errorf(fleet.Conflict, "The VM has no disk, so a snapshot would be empty.")
	case len(w.tree.Nodes) >= fleet.MaxSnapshots:
		return fleet.Errorf(fleet.Conflict, "The VM has %d snapshots, which is the maximum. Delete a snapshot first.", fleet.MaxSnapshots)
	}
	node, next := w.tree.PlanSnapshot(w.in, s.applied.Spec, w.ownVolumePath)
	on := s.live != nil
	node.Running, node.Domain = on, s.ref.Name
	node.Paused = on && golibvirt.DomainState(s.state) == golibvirt.DomainPaused
	node.Memory = map[bool]string{true: node.Memory}[on]
	node.Snapshot.Memory = node.Memory != ""
	if node.Snapshot.Memory {
		node.Seed = s.live.Seed
	}
	switch {
	case on && o.Memory && s.live.FieldValues.WhyNoMemorySnapshot() != "":
		return fleet.RefusalError(s.live.FieldValues.WhyNoMemorySnapshot())
	case on && o.Memory && golibvirt.DomainState(s.state) != golibvirt.DomainRunning && !node.Paused:
		return fleet.Errorf(fleet.Conflict, "The guest is neither running nor paused, so its memory cannot be saved now. Try again, or take a snapshot without memory.")
	case on && !o.Memory:
		node.Note = "Without memory: the disks are as after a power cut."
	case !on && o.Memory:
		node.Note = "The VM was off, so there was no memory to save."
	}
	for _, n := range append(next, hypervisor.SnapLayer{File: node.Memory}) {
		if there, err := hostfile.Exists(ctx, n.File); n.File != "" && (err != nil || there) {
			return preferFirstError(err, fleet.Errorf(fleet.Conflict, "The file %s already exists. The file was not changed. Try again.", n.File))
		}
	}
	if err := w.checkSpace(ctx, s, node, next); err != nil {
		return err
	}
	if err := w.writeDiskNames(ctx, s); err != nil {
		return err
	}
	w.tree.Work = &hypervisor.SnapOperation{Job: w.in.Job, Kind: hypervisor.SnapTake, Node: &node, New: next}
	if err := w.save(); err != nil {
		return fmt.Errorf("nothing was done, because the host cannot record the start of the job: %w", err)
	}
	w.in.Progress(5, "taking the snapshot")
	if on {
		err = w.snapshotRunningVM(ctx, s)
	} else {
		err = w.snapshotStoppedVM(ctx)
	}
	if err != nil {
		if isInterruptionError(ctx, err) {
			return err
		}
		return w.undoSnapshot(ctx, translateNoSnapshotSpace(filepath.Dir(next[0].File), err))
	}
	w.in.Progress(80, "saving the firmware's variables")
	return w.finishSnapshot(ctx)
}

// snapshotReserveBytes is the free space required beyond the estimate, in bytes.
const snapshotReserveBytes = 64 << 20

// checkSpace checks that the pools have space for the memory file and for the start of each new overlay. The memory
// file is in the pool of the first disk.
func (w *snapshotJob) checkSpace(ctx context.Context, s diskMigrationState, node hypervisor.SnapNode, next []hypervisor.SnapLayer) error {
	need := map[string]int64{}
	for _, n := range next {
		need[filepath.Dir(n.File)] += 1 << 20
	}
	if node.Memory != "" {
		need[filepath.Dir(node.Memory)] += int64(s.live.MemoryMiB)<<20 + snapshotReserveBytes
	}
	for dir, bytes := range need {
		if err := checkFreeSpace(ctx, dir, bytes, "the snapshot"); err != nil {
			return err
		}
	}
	return nil
}

// checkFreeSpace returns an error if the directory's file system has fewer free bytes than needed. purpose names the
// use of the space in the error.
func checkFreeSpace(ctx context.Context, dir string, needed int64, purpose string) error {
	free, err := hostfile.RunWithinLookupTimeout(ctx, func() (int64, error) {
		f, err := os.Open(dir)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return hostfile.FreeBytes(f)
	})
	if err == nil && free < needed {
		err = fleet.Errorf(fleet.Conflict, "%s has %s free, but %s may need %s. Free space there first.", dir, fleet.FormatBytes(free), purpose, fleet.FormatBytes(needed))
	}
	return err
}

// translateNoSnapshotSpace replaces an out-of-space error by an error that says what to do.
func translateNoSnapshotSpace(dir string, err error) error {
	if !hostfile.IsNoSpaceError(err) {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "%s has no space left. The VM's disks are unchanged (%s). Free space there, and try again.", dir, err)
}

// snapshotStoppedVM takes the snapshot of a VM that is off: new overlays and a changed definition.
func (w *snapshotJob) snapshotStoppedVM(ctx context.Context) error {
	if err := w.createOverlays(ctx, w.tree.Work.New); err != nil {
		return err
	}
	w.in.Progress(30, "changing the definition")
	return w.redefineDisksOnLayers(ctx, w.tree.Work.New)
}

// snapshotRunningVM takes the snapshot through libvirt without libvirt's snapshot metadata. It pauses the guest first, so
// that the UEFI variables and TPM state copied later are from the same moment.
func (w *snapshotJob) snapshotRunningVM(ctx context.Context, s diskMigrationState) error {
	note := w.tree.Work
	if w.in.Params.Quiesce && note.Node.Memory == "" && !note.Node.Paused {
		note.Frozen = true
		if err := w.save(); err != nil {
			return err
		}
		w.in.Progress(10, "freezing the guest's file systems")
		if err := w.freezeGuest(ctx, s.ref); err != nil {
			if isInterruptionError(ctx, err) {
				return err
			}
			note.Frozen = false
			note.Node.Note = "The guest agent did not freeze the guest's file systems (" + err.Error() + "), so the disks are as after a power cut."
		} else {
			note.Node.Quiesced, note.Node.Note = true, ""
		}
	}
	if !note.Node.Paused && (note.Node.Memory != "" || firmware.HasState(s.persistentXML)) {
		note.Resume = true
	}
	if err := w.save(); err != nil {
		return err
	}
	if note.Resume {
		if err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.DomainSuspend(s.ref) }); err != nil {
			return err
		}
	}
	w.in.Progress(20, "saving the guest's current state")
	live, err := w.runningDefinition(ctx, s)
	if err == nil && live == nil {
		err = fleet.Errorf(fleet.Conflict, "The guest stopped during the snapshot. Try again.")
	}
	if err != nil {
		return err
	}
	text, err := snapshotXML(live, *note)
	if err != nil {
		return err
	}
	flags := golibvirt.DomainSnapshotCreateNoMetadata | golibvirt.DomainSnapshotCreateAtomic
	if note.Node.Memory == "" {
		flags |= golibvirt.DomainSnapshotCreateDiskOnly
	}
	stop := reportAllocation(note.Node.Memory, int64(s.live.MemoryMiB)<<20, func(percent int) { w.in.Progress(20+percent/2, "saving the guest's memory") })
	defer stop()
	return w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, err := l.DomainSnapshotCreateXML(s.ref, text, uint32(flags))
		return err
	})
}

// freezeTimeout limits how long the guest agent may take.
const freezeTimeout = 20 * time.Second

// freezeGuest asks the guest agent to freeze the guest's file systems.
func (w *snapshotJob) freezeGuest(ctx context.Context, ref golibvirt.Domain) error {
	within, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	return w.withOwnConn(within, func(l *golibvirt.Libvirt) error {
		_, err := l.DomainFsfreeze(ref, nil, 0)
		return err
	})
}

// withOwnConn runs one call on a new connection, because the call may hang as long as the guest does.
func (w *snapshotJob) withOwnConn(ctx context.Context, f func(*golibvirt.Libvirt) error) error {
	c, err := w.daemon.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Disconnect()
	return c.Do(ctx, f)
}

// snapshotXML returns libvirt's snapshot definition. The definition lists each disk of the guest, because libvirt would
// create an overlay for an unlisted disk.
func snapshotXML(live *libvirtxml.Domain, note hypervisor.SnapOperation) (string, error) {
	x := libvirtxml.DomainSnapshot{Name: "quantix-" + string(note.Node.ID), Disks: &libvirtxml.DomainSnapshotDisks{}}
	if note.Node.Memory != "" {
		x.Memory = &libvirtxml.DomainSnapshotMemory{Snapshot: "external", File: note.Node.Memory}
	} else {
		x.Memory = &libvirtxml.DomainSnapshotMemory{Snapshot: "no"}
	}
	for i := range live.Devices.Disks {
		d := &live.Devices.Disks[i]
		out := libvirtxml.DomainSnapshotDisk{Name: domxml.DiskTargetOf(d), Snapshot: "no"}
		for _, n := range note.New {
			if domxml.AliasOf(d.Alias) == domxml.DiskAlias(n.Disk) {
				out.Snapshot = "external"
				out.Driver = &libvirtxml.DomainDiskDriver{Type: "qcow2"}
				out.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: n.File}}
			}
		}
		x.Disks.Disks = append(x.Disks.Disks, out)
	}
	return x.Marshal()
}

// finishSnapshot finishes a snapshot whose overlays are in use. It copies the UEFI variables and TPM state, resumes the
// guest and adds the snapshot to the tree.
func (w *snapshotJob) finishSnapshot(ctx context.Context) error {
	note := w.tree.Work
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	state := filepath.Join(snapshotDirOf(w.in.VM.ID), string(note.Node.ID))
	kept, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return w.firmware.Save(s.persistentXML, state) })
	if err != nil {
		// The snapshot is not undone, because only a stopped guest could switch back from the new overlays. A snapshot
		// without copies of the firmware state is still usable.
		note.Node.Note = "The firmware's variables and the TPM's state could not be saved: " + err.Error()
		w.log.Warn("a snapshot lacks the VM's firmware variables and TPM state", "vm", w.in.VM.ID, "error", err)
	}
	if kept {
		note.Node.State = state
	}
	w.in.Progress(90, "resuming the guest")
	if err := w.resumeGuest(ctx, s, note); err != nil {
		return err
	}
	if err := w.redefineDisksOnLayers(ctx, note.New); err != nil {
		return err
	}
	note.Node.At = time.Now().UTC().Truncate(time.Second)
	w.tree.AddSnapshot(*note.Node, note.New)
	recordLayerSizes(w.tree)
	w.tree.FinishJob(note.Job)
	return w.save()
}

// resumeGuest resumes and thaws a guest that this job paused or froze.
func (w *snapshotJob) resumeGuest(ctx context.Context, s diskMigrationState, note *hypervisor.SnapOperation) error {
	if note.Resume && s.live != nil && golibvirt.DomainState(s.state) == golibvirt.DomainPaused {
		if err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.DomainResume(s.ref) }); err != nil && !conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) {
			return err
		}
	}
	if note.Frozen && s.live != nil {
		within, cancel := context.WithTimeout(ctx, freezeTimeout)
		defer cancel()
		err := w.withOwnConn(within, func(l *golibvirt.Libvirt) error {
			_, err := l.DomainFsthaw(s.ref, nil, 0)
			return err
		})
		if err != nil {
			w.log.Warn("the guest agent did not thaw the guest's file systems", "vm", w.in.VM.ID, "error", err)
		}
	}
	return nil
}

// undoSnapshot restores the VM if the failed job took no snapshot. If the snapshot exists despite the error,
// undoSnapshot finishes the snapshot.
func (w *snapshotJob) undoSnapshot(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*cleanupTimeout)
	defer cancel()
	if err := w.recoverSnapshot(ctx, w.tree.Work); err != nil {
		return errors.Join(why, err)
	}
	if w.tree.IsJobDone(w.in.Job) {
		return nil
	}
	return why
}

// recoverSnapshot finishes an interrupted snapshot job. The files of the domain's disks show whether the snapshot was
// taken.
func (w *snapshotJob) recoverSnapshot(ctx context.Context, note *hypervisor.SnapOperation) error {
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	live, err := w.runningDefinition(ctx, s)
	if err != nil {
		return err
	}
	now := live
	if now == nil {
		now = s.persistentXML
	}
	all, none := compareLayers(now, note.New)
	if all {
		return w.finishSnapshot(ctx)
	}
	if !none {
		return fleet.Errorf(fleet.Conflict, "Only some of the VM's disks use the files of an interrupted snapshot. Merge those files on the host (virsh blockcommit), and try again.")
	}
	for _, n := range note.New {
		open, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return hostfile.IsOpenByQEMU(n.File) })
		if err != nil && !hostfile.IsFileMissingError(err) {
			return err
		}
		if open {
			return fleet.Errorf(fleet.Conflict, "QEMU uses the file %s, which libvirt does not know, because libvirt was interrupted while it took a snapshot. Shut the guest down, and try again.", n.File)
		}
	}
	if err := w.resumeGuest(ctx, s, note); err != nil {
		return err
	}
	if live == nil { // the inactive definition may already name some of the overlays
		back := make([]hypervisor.SnapLayer, len(note.Node.Layers))
		copy(back, note.Node.Layers)
		if err := w.redefineDisksOnLayers(ctx, back); err != nil {
			return err
		}
	}
	for _, n := range note.New {
		w.tree.Trash = append(w.tree.Trash, n.File)
	}
	if note.Node.Memory != "" {
		w.tree.Trash = append(w.tree.Trash, note.Node.Memory)
	}
	w.tree.Trash = append(w.tree.Trash, filepath.Join(snapshotDirOf(w.in.VM.ID), string(note.Node.ID)), filepath.Join(snapshotDirOf(w.in.VM.ID), string(note.Node.ID))+storage.PartialSuffix)
	w.tree.Work = nil
	if err := w.save(); err != nil {
		return err
	}
	return w.removeTrash(ctx)
}
