package libvirt

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/network"
	"quantix/internal/fleet"
)

// revertToSnapshot reverts the VM to a snapshot. The current state stays until the new overlays exist. After that the
// revert cannot be undone, and a retried job continues it.
func (w *snapshotJob) revertToSnapshot(ctx context.Context) error {
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	if err := w.checkNoUnmanagedState(ctx, s); err != nil {
		return err
	}
	node := w.tree.Node(w.in.Params.ID)
	if node == nil || node.Deleted {
		return hypervisor.NoSnapshotError(w.in.VM.Name)
	}
	for _, l := range node.Layers {
		if !specHasVolume(s.applied.Spec, l.Disk) {
			return hypervisor.RefuseRevertWithoutDisk(l.Disk.Volume)
		}
		if err := checkFreeSpace(ctx, filepath.Dir(w.ownVolumePath(l.Disk)), 1<<20, "the revert"); err != nil {
			return err
		}
	}
	if node.Memory != "" {
		text, err := w.memoryXML(ctx, *node, s.applied, s.persistentXML, nil)
		if err == nil {
			err = w.checkMemoryPaths(ctx, text)
		}
		if err != nil {
			return err
		}
	}
	next := w.tree.PlanRevert(*node, string(fleet.NewID[fleet.JobID]()), w.ownVolumePath)
	w.tree.Work = &hypervisor.SnapOperation{Job: w.in.Job, Kind: hypervisor.SnapRevert, To: string(node.ID), New: next}
	if err := w.save(); err != nil {
		return fmt.Errorf("nothing was done, because the host cannot record the start of the job: %w", err)
	}
	w.in.Progress(10, "creating the disks' new files")
	if err := w.createOverlays(ctx, next); err != nil {
		if isInterruptionError(ctx, err) {
			return err
		}
		return preferFirstError(w.recoverRevert(ctx, w.tree.Work), err)
	}
	w.in.Progress(25, "stopping the guest")
	w.tree.Work.Step = hypervisor.SnapStepGuestOff
	if err := w.save(); err != nil {
		return err
	}
	return w.applyRevert(ctx, true)
}

// applyRevert does the steps of a revert that cannot be undone. If restorePower is set, it also restores the guest's
// power state, as the snapshot and the job require.
func (w *snapshotJob) applyRevert(ctx context.Context, restorePower bool) error {
	note := w.tree.Work
	node := w.tree.Node(fleet.SnapshotID(note.To))
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	if s.live != nil {
		if err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			err := l.DomainDestroy(s.ref)
			if conn.IsLibvirtCode(err, golibvirt.ErrOperationInvalid) {
				err = nil // the guest has stopped on its own
			}
			return err
		}); err != nil {
			return err
		}
	}
	w.in.Progress(40, "restoring the firmware's variables")
	if node.State != "" {
		if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, w.firmware.Restore(s.persistentXML, node.State) }); err != nil {
			return err
		}
	}
	w.in.Progress(50, "changing the definition")
	if err := w.redefineDisksOnLayers(ctx, note.New); err != nil {
		return err
	}
	w.in.Progress(60, "the disks are reverted")
	failed := error(nil)
	if restorePower {
		failed = w.restorePower(ctx, *node)
		if failed != nil && isInterruptionError(ctx, failed) {
			return failed
		}
	}
	w.in.Progress(95, "deleting files that are no longer needed")
	w.tree.FinishRevert(node.ID, note.New)
	recordLayerSizes(w.tree)
	if failed != nil { // the disks are reverted in any case
		w.tree.Work = nil
	} else {
		w.tree.FinishJob(note.Job)
	}
	if err := w.save(); err != nil {
		return err
	}
	if err := w.removeTrash(ctx); err != nil {
		return err
	}
	return failed
}

// restorePower resumes the guest from the saved memory, or starts the guest.
func (w *snapshotJob) restorePower(ctx context.Context, node hypervisor.SnapNode) error {
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	if node.Memory == "" {
		if !w.in.Params.Start || s.live != nil {
			return nil
		}
		w.in.Progress(70, "starting the guest")
		if err := w.prepareGuestStart(ctx, w.c, s.observedDomain); err != nil {
			return err
		}
		err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error { return network.TranslateNoFreeDevice(l.DomainCreate(s.ref)) })
		if err != nil && !isInterruptionError(ctx, err) {
			err = fmt.Errorf("the disks are as in the snapshot and the VM is off, but the guest did not start. Start the VM, or revert again: %w", err)
		}
		return err
	}
	text, err := w.memoryXML(ctx, node, s.applied, s.persistentXML, w.tree.Work.New)
	if err == nil {
		s, err = w.renameForMemoryRestore(ctx, s, text)
	}
	if err == nil {
		text, err = w.memoryXML(ctx, node, s.applied, s.persistentXML, w.tree.Work.New) // with the domain's name at the time of the snapshot
	}
	if err != nil {
		return fmt.Errorf("the disks are as in the snapshot and the VM is off, but the guest's memory cannot be restored: %w", err)
	}
	if err := w.checkMemoryPaths(ctx, text); err != nil {
		return err
	}
	w.in.Progress(70, "restoring the guest's memory")
	flags := golibvirt.DomainSaveRunning
	if node.Paused {
		flags = golibvirt.DomainSavePaused
	}
	err = w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainRestoreFlags(node.Memory, golibvirt.OptString{text}, uint32(flags))
	})
	if err != nil && !isInterruptionError(ctx, err) {
		err = fmt.Errorf("the disks are as in the snapshot and the VM is off, but the guest could not resume from its saved memory. Start the VM, or revert again: %w", err)
	}
	return err
}

// checkMemoryPaths checks the paths that the guest would open when it resumes from saved memory.
func (w *snapshotJob) checkMemoryPaths(ctx context.Context, text string) error {
	x := &libvirtxml.Domain{}
	err := x.Unmarshal(text)
	if err == nil {
		err = w.checkDefinedPaths(ctx, x)
	}
	return err
}

// renameForMemoryRestore renames the domain to its name at the time of the snapshot, because libvirt restores memory only
// under that name. The domain gets its current name once the guest is off, like any rename of a running guest.
func (w *snapshotJob) renameForMemoryRestore(ctx context.Context, s diskMigrationState, text string) (diskMigrationState, error) {
	var then struct {
		Name string `xml:"name"`
	}
	if err := xml.Unmarshal([]byte(text), &then); err != nil {
		return s, err
	}
	if s.applied == nil || then.Name == s.ref.Name && (s.applied.Domain == then.Name || s.applied.FormerDomain == then.Name) {
		return s, nil
	}
	if then.Name != s.ref.Name {
		err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.DomainRename(s.ref, golibvirt.OptString{then.Name}, 0)
			return err
		})
		if err != nil {
			return s, err
		}
	}
	s, err := w.readState(ctx)
	if err != nil {
		return s, err
	}
	applied := *s.applied
	applied.FormerDomain = then.Name
	encoded, err := json.Marshal(applied)
	if err != nil {
		return s, err
	}
	stamp := s.metadata
	stamp.Applied = string(encoded)
	s.persistentXML.Metadata = domxml.PutQuantixMetadata(s.persistentXML.Metadata, stamp)
	if err := (&diskMigration{Backend: w.Backend, c: w.c}).defineDomain(ctx, s.persistentXML); err != nil {
		return s, err
	}
	return w.readState(ctx)
}

// memoryMagic is the start of a complete memory file. libvirt writes these bytes last.
const memoryMagic = "LibvirtQemudSave"

// memoryXML returns the definition for a resume from the snapshot's memory. The definition has the devices of the
// snapshot with the current disks, networks, filters and media. memoryXML refuses a NIC that the VM no longer has,
// because the NIC would bypass networks and filters that people removed.
func (w *snapshotJob) memoryXML(ctx context.Context, node hypervisor.SnapNode, applied *hypervisor.AppliedRecord, inactive *libvirtxml.Domain, next []hypervisor.SnapLayer) (string, error) {
	complete, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) {
		f, err := hostfile.OpenImage(node.Memory, false)
		if err != nil {
			return false, err
		}
		defer f.Close()
		begin := make([]byte, len(memoryMagic))
		_, err = io.ReadFull(f, begin)
		return bytes.Equal(begin, []byte(memoryMagic)), err
	})
	if err == nil && !complete {
		err = fleet.Errorf(fleet.Conflict, "The file of the snapshot's memory, %s, is incomplete.", node.Memory)
	}
	if hostfile.IsFileMissingError(err) {
		err = fleet.Errorf(fleet.NotFound, "The file of the snapshot's memory, %s, is missing. Delete the snapshot.", node.Memory)
	}
	if err != nil {
		return "", err
	}
	text, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (string, error) {
		return l.DomainSaveImageGetXMLDesc(node.Memory, uint32(golibvirt.DomainSaveImageXMLSecure))
	})
	if err != nil {
		return "", err
	}
	x := &libvirtxml.Domain{}
	if err := x.Unmarshal(text); err != nil {
		return "", err
	}
	if x.UUID != inactive.UUID {
		return "", fleet.Errorf(fleet.Conflict, "The file of the snapshot's memory, %s, belongs to another VM.", node.Memory)
	}
	if x.Name != inactive.Name {
		a := applyRun{Backend: w.Backend, c: w.c, in: hypervisor.ApplyWork{VM: w.in.VM}}
		taken, err := a.isNameTaken(ctx, x.Name)
		if err == nil && taken {
			err = fleet.Errorf(fleet.Conflict, "The VM was named %s on the host when the snapshot was taken, and another VM has that name now. libvirt restores memory only under the same name.", x.Name)
		}
		if err != nil {
			return "", err
		}
	}
	x.Metadata = inactive.Metadata
	names := domxml.NewDeviceNames(applied, w.assignedPools.Lookup(), inactive)
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		d.BackingStore = nil
		switch k := slices.IndexFunc(next, func(n hypervisor.SnapLayer) bool { return names.DiskName(d) == domxml.DiskAlias(n.Disk) }); {
		case k >= 0:
			setDiskFile(d, next[k].File)
		case d.Device == "cdrom" || d.Device == "floppy":
			d.Source = nil
			for n := range inactive.Devices.Disks {
				if domxml.DiskTargetOf(&inactive.Devices.Disks[n]) == domxml.DiskTargetOf(d) && inactive.Devices.Disks[n].Device == d.Device {
					d.Source = inactive.Devices.Disks[n].Source
				}
			}
		case domxml.AliasOf(d.Alias) == domxml.FirstBootAlias: // the first-boot image of that time still exists and is read-only
		case next != nil:
			return "", fleet.Errorf(fleet.Conflict, "At the time of the snapshot the guest had the disk %s, which is not in the snapshot.", domxml.DiskTargetOf(d))
		}
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		k := slices.IndexFunc(inactive.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool {
			return strings.EqualFold(domxml.NICMACOf(&o), domxml.NICMACOf(n))
		})
		if k < 0 {
			return "", fleet.Errorf(fleet.Conflict, "At the time of the snapshot the guest had the NIC %s, which the VM no longer has. Add the NIC again first, or use a snapshot without memory.", domxml.NICMACOf(n))
		}
		now := inactive.Devices.Interfaces[k]
		n.Source, n.FilterRef, n.Target, n.VirtualPort, n.Link = now.Source, now.FilterRef, now.Target, now.VirtualPort, now.Link
	}
	return x.Marshal()
}

// recoverRevert finishes an interrupted revert. If the guest was not stopped yet, it undoes the revert; otherwise it
// completes the revert. It completes the revert with new overlays, because the guest may have written to the old
// overlays, which then no longer match the saved memory.
func (w *snapshotJob) recoverRevert(ctx context.Context, note *hypervisor.SnapOperation) error {
	drop := func() {
		for _, n := range note.New {
			w.tree.Trash = append(w.tree.Trash, n.File)
		}
	}
	if note.Step != hypervisor.SnapStepGuestOff {
		drop()
		w.tree.Work = nil
		if err := w.save(); err != nil {
			return err
		}
		return w.removeTrash(ctx)
	}
	node := w.tree.Node(fleet.SnapshotID(note.To))
	if node == nil {
		return hypervisor.NoSnapshotError(w.in.VM.Name)
	}
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	live, err := w.runningDefinition(ctx, s)
	if err != nil {
		return err
	}
	// A guest that runs on the new overlays needs no further step. A paused guest may lack memory that the interrupted
	// restore did not load, so it is restored again.
	if all, _ := compareLayers(live, note.New); live != nil && all && golibvirt.DomainState(s.state) == golibvirt.DomainRunning {
		w.tree.FinishRevert(node.ID, note.New)
		recordLayerSizes(w.tree)
		w.tree.FinishJob(note.Job)
		if err := w.save(); err != nil {
			return err
		}
		return w.removeTrash(ctx)
	}
	next := w.tree.PlanRevert(*node, string(fleet.NewID[fleet.JobID]()), w.ownVolumePath)
	drop()
	note.New = next
	if err := w.save(); err != nil {
		return err
	}
	if err := w.createOverlays(ctx, next); err != nil {
		return err
	}
	return w.applyRevert(ctx, note.Job == w.in.Job)
}
