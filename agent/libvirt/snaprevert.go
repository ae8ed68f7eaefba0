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
	"quantix/internal/fleet"
)

// revert brings the VM back to a snapshot. The current state stays until the new overlays exist. After that there is no
// way back, and the next claim of the job goes on.
func (w *snapshotJob) revert(ctx context.Context) error {
	s, err := w.see(ctx)
	if err != nil {
		return err
	}
	if err := w.check(ctx, s); err != nil {
		return err
	}
	node := w.tree.Node(w.in.Order.ID)
	if node == nil || node.Deleted {
		return hypervisor.NoSnapshot(w.in.VM.Name)
	}
	for _, l := range node.Layers {
		if !hasRef(s.applied.Spec, l.Disk) {
			return hypervisor.DiskGone(l.Disk.Volume)
		}
		if err := fits(ctx, filepath.Dir(w.at(l.Disk)), 1<<20, "going back"); err != nil {
			return err
		}
	}
	if node.Memory != "" {
		text, err := w.memoryXML(ctx, *node, s.kept, nil)
		if err == nil {
			err = w.checkMemoryPaths(ctx, text)
		}
		if err != nil {
			return err
		}
	}
	next := w.tree.Back(*node, string(fleet.NewID[fleet.JobID]()), w.at)
	w.tree.Work = &hypervisor.SnapNote{Job: w.in.Job, Kind: hypervisor.SnapRevert, To: string(node.ID), New: next}
	if err := w.save(); err != nil {
		return fmt.Errorf("nothing was done, because the host cannot keep in mind what is begun: %w", err)
	}
	w.in.Progress(10, "making the disks' new files")
	if err := w.createOverlays(ctx, next); err != nil {
		if interrupted(ctx, err) {
			return err
		}
		return cmpErr(w.settleRevert(ctx, w.tree.Work), err)
	}
	w.in.Progress(25, "ending what the guest does now")
	w.tree.Work.Step = hypervisor.SnapOff
	if err := w.save(); err != nil {
		return err
	}
	return w.applyRevert(ctx, true)
}

// applyRevert is the part of a revert that cannot be undone. power also restores the guest's power state, as the
// snapshot and the job request.
func (w *snapshotJob) applyRevert(ctx context.Context, power bool) error {
	note := w.tree.Work
	node := w.tree.Node(fleet.SnapshotID(note.To))
	s, err := w.see(ctx)
	if err != nil {
		return err
	}
	if s.live != nil {
		if err := w.c.do(ctx, func(l *golibvirt.Libvirt) error {
			err := l.DomainDestroy(s.ref)
			if is(err, golibvirt.ErrOperationInvalid) {
				err = nil // the guest has stopped on its own
			}
			return err
		}); err != nil {
			return err
		}
	}
	w.in.Progress(40, "putting the firmware's variables back")
	if node.State != "" {
		if _, err := bounded(ctx, func() (struct{}, error) { return struct{}{}, restoreState(s.kept, node.State) }); err != nil {
			return err
		}
	}
	w.in.Progress(50, "changing the definition")
	if err := w.redefine(ctx, note.New); err != nil {
		return err
	}
	w.in.Progress(60, "the disks are as they were")
	failed := error(nil)
	if power {
		failed = w.restorePower(ctx, *node)
		if failed != nil && interrupted(ctx, failed) {
			return failed
		}
	}
	w.in.Progress(95, "giving up what came after")
	w.tree.Reverted(node.ID, note.New)
	measure(w.tree)
	if failed != nil { // the disks are reverted all the same
		w.tree.Work = nil
	} else {
		w.tree.Finish(note.Job)
	}
	if err := w.save(); err != nil {
		return err
	}
	if err := w.removeTrash(ctx); err != nil {
		return err
	}
	return failed
}

// restorePower resumes the guest from its saved memory, or starts it.
func (w *snapshotJob) restorePower(ctx context.Context, node hypervisor.SnapNode) error {
	s, err := w.see(ctx)
	if err != nil {
		return err
	}
	if node.Memory == "" {
		if !w.in.Order.Start || s.live != nil {
			return nil
		}
		w.in.Progress(70, "starting the guest")
		if err := w.prepareStart(ctx, w.c, s.sighted); err != nil {
			return err
		}
		err := w.c.do(ctx, func(l *golibvirt.Libvirt) error { return deviceFree(l.DomainCreate(s.ref)) })
		if err != nil && !interrupted(ctx, err) {
			err = fmt.Errorf("the disks are as in the snapshot and the VM is off, but its guest did not start; start it, or try once more: %w", err)
		}
		return err
	}
	text, err := w.memoryXML(ctx, node, s.kept, w.tree.Work.New)
	if err == nil {
		s, err = w.renameForMemory(ctx, s, text)
	}
	if err == nil {
		text, err = w.memoryXML(ctx, node, s.kept, w.tree.Work.New) // under the name that the memory was saved with
	}
	if err != nil {
		return fmt.Errorf("the disks are as in the snapshot and the VM is off, but its memory is not to be had: %w", err)
	}
	if err := w.checkMemoryPaths(ctx, text); err != nil {
		return err
	}
	w.in.Progress(70, "bringing the guest's memory back")
	flags := golibvirt.DomainSaveRunning
	if node.Paused {
		flags = golibvirt.DomainSavePaused
	}
	err = w.c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainRestoreFlags(node.Memory, golibvirt.OptString{text}, uint32(flags))
	})
	if err != nil && !interrupted(ctx, err) {
		err = fmt.Errorf("the disks are as in the snapshot and the VM is off, but the guest could not go on from its memory; start it, or try once more: %w", err)
	}
	return err
}

// checkMemoryPaths checks the paths that the guest would open when it resumes from saved memory.
func (w *snapshotJob) checkMemoryPaths(ctx context.Context, text string) error {
	x := &libvirtxml.Domain{}
	err := x.Unmarshal(text)
	if err == nil {
		err = w.inPlace(ctx, x)
	}
	return err
}

// renameForMemory renames the domain to the name that its memory was saved with, because libvirt restores only under
// that name. The current name is applied once the guest is off, like any rename of a running guest.
func (w *snapshotJob) renameForMemory(ctx context.Context, s seen, text string) (seen, error) {
	var then struct {
		Name string `xml:"name"`
	}
	if err := xml.Unmarshal([]byte(text), &then); err != nil {
		return s, err
	}
	if s.applied == nil || then.Name == s.ref.Name && (s.applied.Domain == then.Name || s.applied.Was == then.Name) {
		return s, nil
	}
	if then.Name != s.ref.Name {
		err := w.c.do(ctx, func(l *golibvirt.Libvirt) error {
			_, err := l.DomainRename(s.ref, golibvirt.OptString{then.Name}, 0)
			return err
		})
		if err != nil {
			return s, err
		}
	}
	s, err := w.see(ctx)
	if err != nil {
		return s, err
	}
	applied := *s.applied
	applied.Was = then.Name
	encoded, err := json.Marshal(applied)
	if err != nil {
		return s, err
	}
	stamp := s.mark
	stamp.Applied = string(encoded)
	s.kept.Metadata = putMark(s.kept.Metadata, stamp)
	if err := (&moving{Backend: w.Backend, c: w.c}).define(ctx, s.kept); err != nil {
		return s, err
	}
	return w.see(ctx)
}

// memoryMagic is the start of a complete memory file. libvirt writes it last.
const memoryMagic = "LibvirtQemudSave"

// memoryXML returns the definition for a resume from the snapshot's memory: the devices of that time, with the current
// disks, networks, filters and media. It refuses a NIC that the VM no longer has, because the NIC would bypass networks
// and filters that people removed.
func (w *snapshotJob) memoryXML(ctx context.Context, node hypervisor.SnapNode, inactive *libvirtxml.Domain, next []hypervisor.SnapLayer) (string, error) {
	complete, err := bounded(ctx, func() (bool, error) {
		f, err := openImage(node.Memory, false)
		if err != nil {
			return false, err
		}
		defer f.Close()
		begin := make([]byte, len(memoryMagic))
		_, err = io.ReadFull(f, begin)
		return bytes.Equal(begin, []byte(memoryMagic)), err
	})
	if err == nil && !complete {
		err = fleet.Errorf(fleet.Conflict, "The file of the snapshot's memory, %s, is not whole.", node.Memory)
	}
	if isMissing(err) {
		err = fleet.Errorf(fleet.NotFound, "The file of the snapshot's memory, %s, is gone. Delete the snapshot.", node.Memory)
	}
	if err != nil {
		return "", err
	}
	text, err := call(ctx, w.c, func(l *golibvirt.Libvirt) (string, error) {
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
		return "", fleet.Errorf(fleet.Conflict, "The file of the snapshot's memory, %s, is of another VM.", node.Memory)
	}
	if x.Name != inactive.Name {
		a := applying{Backend: w.Backend, c: w.c, in: hypervisor.Apply{VM: w.in.VM}}
		taken, err := a.taken(ctx, x.Name)
		if err == nil && taken {
			err = fleet.Errorf(fleet.Conflict, "The VM was called %s on the host then, and another has that name now, under which alone its memory comes back.", x.Name)
		}
		if err != nil {
			return "", err
		}
	}
	x.Metadata = inactive.Metadata
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		d.BackingStore = nil
		switch k := slices.IndexFunc(next, func(n hypervisor.SnapLayer) bool { return aliasOf(d.Alias) == diskAlias(n.Disk) }); {
		case k >= 0:
			setFile(d, next[k].File)
		case d.Device == "cdrom" || d.Device == "floppy":
			d.Source = nil
			for n := range inactive.Devices.Disks {
				if targetOf(&inactive.Devices.Disks[n]) == targetOf(d) && inactive.Devices.Disks[n].Device == d.Device {
					d.Source = inactive.Devices.Disks[n].Source
				}
			}
		case aliasOf(d.Alias) == aliasFirstBoot: // the seed is kept for this, and read-only
		case next != nil:
			return "", fleet.Errorf(fleet.Conflict, "The guest had the disk %s then, of which the snapshot has nothing.", targetOf(d))
		}
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		k := slices.IndexFunc(inactive.Devices.Interfaces, func(o libvirtxml.DomainInterface) bool { return strings.EqualFold(macOf(&o), macOf(n)) })
		if k < 0 {
			return "", fleet.Errorf(fleet.Conflict, "The guest had the NIC %s then, which the VM does not have any more. Add it again first, or start from a snapshot without memory.", macOf(n))
		}
		now := inactive.Devices.Interfaces[k]
		n.Source, n.FilterRef, n.Target, n.VirtualPort, n.Link = now.Source, now.FilterRef, now.Target, now.VirtualPort, now.Link
	}
	return x.Marshal()
}

// settleRevert finishes an interrupted revert. Before the guest was stopped, it undoes the revert; after that, it
// completes the revert. It starts with new overlays, because the guest may have written to the old ones, which then no
// longer match its memory.
func (w *snapshotJob) settleRevert(ctx context.Context, note *hypervisor.SnapNote) error {
	drop := func() {
		for _, n := range note.New {
			w.tree.Trash = append(w.tree.Trash, n.File)
		}
	}
	if note.Step != hypervisor.SnapOff {
		drop()
		w.tree.Work = nil
		if err := w.save(); err != nil {
			return err
		}
		return w.removeTrash(ctx)
	}
	node := w.tree.Node(fleet.SnapshotID(note.To))
	if node == nil {
		return hypervisor.NoSnapshot(w.in.VM.Name)
	}
	s, err := w.see(ctx)
	if err != nil {
		return err
	}
	live, err := w.running(ctx, s)
	if err != nil {
		return err
	}
	// The guest already runs. A paused one may wait for the rest of its memory, which nobody loads any more.
	if all, _ := usesAll(live, note.New); live != nil && all && golibvirt.DomainState(s.state) == golibvirt.DomainRunning {
		w.tree.Reverted(node.ID, note.New)
		measure(w.tree)
		w.tree.Finish(note.Job)
		if err := w.save(); err != nil {
			return err
		}
		return w.removeTrash(ctx)
	}
	next := w.tree.Back(*node, string(fleet.NewID[fleet.JobID]()), w.at)
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
