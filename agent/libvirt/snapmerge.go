package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// deleteSnapshot deletes a snapshot and merges its files if possible. The snapshot counts as deleted immediately, even
// if its files cannot be merged yet.
func (w *snapshotJob) deleteSnapshot(ctx context.Context) error {
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	if err := w.checkNoUnmanagedState(ctx, s); err != nil {
		return err
	}
	if id := w.in.Params.ID; id != "" {
		node := w.tree.Node(id)
		switch {
		case node == nil && w.tree.Deleted == w.in.Job:
		case node == nil:
			return hypervisor.NoSnapshotError(w.in.VM.Name)
		case !node.Deleted || w.in.Params.Subtree:
			w.tree.MarkDeleted(id, w.in.Params.Subtree)
			w.tree.Deleted = w.in.Job
			if err := w.save(); err != nil {
				return fmt.Errorf("nothing was done, because the host cannot record the start of the job: %w", err)
			}
		}
	}
	w.in.Progress(5, "the snapshot is deleted")
	if err := w.removeTrash(ctx); err != nil {
		return err
	}
	for n := 0; ; n++ {
		all := w.tree.PendingMerges()
		if len(all) == 0 {
			break
		}
		if w.in.IsCancelled() {
			return hypervisor.ErrCancelled
		}
		if err := w.mergeFile(ctx, all[0], n, n+len(all)); err != nil {
			return err
		}
	}
	w.tree.FinishJob(w.in.Job)
	return w.save()
}

// mergeFile commits one file into its backing file, which backs no other file. A reader of the chain sees the same
// content at all times.
func (w *snapshotJob) mergeFile(ctx context.Context, m hypervisor.SnapMerge, n, of int) error {
	top, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.ImageHeader, error) { return hostfile.ReadHeader(m.Top, false) })
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(m.Top), err)
	}
	if err := checkFreeSpace(ctx, filepath.Dir(m.Base), top.Alloc+1<<20, "merging the disk"); err != nil {
		return err
	}
	w.tree.Work = &hypervisor.SnapOperation{Job: w.in.Job, Kind: hypervisor.SnapMergeKind, Merge: &m}
	if err := w.save(); err != nil {
		return err
	}
	progress := func(percent int) {
		w.in.Progress(min(99, 5+(n*100+percent)*94/(of*100)), fmt.Sprintf("merging %s into %s", filepath.Base(m.Top), filepath.Base(m.Base)))
	}
	progress(0)
	s, by, err := w.findGuestOfMerge(ctx, m)
	if err != nil {
		return err
	}
	if by {
		err = w.commitLiveDisk(ctx, s, m, progress)
	} else {
		err = w.commitFile(ctx, m, progress)
	}
	if err != nil {
		return err
	}
	return w.finishMerge(ctx, m)
}

// findGuestOfMerge reports whether the VM's running guest uses the files of the merge. A restarted libvirt needs some
// time to learn its guests' backing chains. Until then, a QEMU has the files open but libvirt does not name its guest.
func (w *snapshotJob) findGuestOfMerge(ctx context.Context, m hypervisor.SnapMerge) (s diskMigrationState, inUse bool, err error) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for began := time.Now(); ; {
		if s, err = w.readState(ctx); err != nil {
			return s, false, err
		}
		live, err := w.runningDefinition(ctx, s)
		if err != nil || live != nil && isInBackingChain(domainDiskOf(live, m.Disk), m.Top) {
			return s, err == nil, err
		}
		open, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return hostfile.IsOpenByQEMU(m.Top) })
		if err != nil || !open || time.Since(began) > unplugTimeout {
			return s, false, err
		}
		select {
		case <-ctx.Done():
			return s, false, ctx.Err()
		case <-tick.C:
		}
	}
}

// isInBackingChain reports whether the file is the running guest's disk d or in the backing chain of d.
func isInBackingChain(d *libvirtxml.DomainDisk, file string) bool {
	if d == nil {
		return false
	}
	if domxml.DiskPathOf(d) == file {
		return true
	}
	for b := d.BackingStore; b != nil; b = b.BackingStore {
		if domxml.SourcePath(b.Source) == file {
			return true
		}
	}
	return false
}

// commitLiveDisk makes QEMU merge while the guest runs. It always names the top file and the base, because libvirt without
// a base would merge into the last file of the chain.
func (w *snapshotJob) commitLiveDisk(ctx context.Context, s diskMigrationState, m hypervisor.SnapMerge, progress func(int)) error {
	d, err := w.liveDisk(ctx, m.Disk)
	if err != nil {
		return err
	}
	active := d != nil && domxml.DiskPathOf(d) == m.Top
	flags := golibvirt.DomainBlockCommitFlags(0)
	if active {
		flags = golibvirt.DomainBlockCommitActive
	}
	err = w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockCommit(s.ref, domxml.DiskTargetOf(d), golibvirt.OptString{m.Base}, golibvirt.OptString{m.Top}, 0, flags)
	})
	if err != nil {
		return err
	}
	return w.waitForBlockCommit(ctx, s.ref, m, active, progress)
}

// liveDisk returns the running guest's disk. It returns nil if the guest is off.
func (w *snapshotJob) liveDisk(ctx context.Context, ref fleet.Volref) (*libvirtxml.DomainDisk, error) {
	s, err := w.readState(ctx)
	if err != nil {
		return nil, err
	}
	live, err := w.runningDefinition(ctx, s)
	return domainDiskOf(live, ref), err
}

// waitForBlockCommit waits for QEMU's block commit. A commit of the active layer continues until QEMU pivots to the base on
// command.
func (w *snapshotJob) waitForBlockCommit(ctx context.Context, ref golibvirt.Domain, m hypervisor.SnapMerge, active bool, progress func(int)) error {
	tick := time.NewTicker(mirrorPollPeriod / 5)
	defer tick.Stop()
	for {
		d, err := w.liveDisk(ctx, m.Disk)
		switch {
		case err != nil:
			return err
		case d == nil:
			return errGuestEndedDuringMerge()
		case active && domxml.DiskPathOf(d) == m.Base, !active && !isInBackingChain(d, m.Top):
			return nil
		case w.in.IsCancelled() && w.tree.Work.Step != hypervisor.SnapStepPivoting:
			if err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.DomainBlockJobAbort(ref, domxml.DiskTargetOf(d), 0) }); err != nil && !conn.IsLibvirtError(err) {
				return err
			}
			return errors.Join(hypervisor.ErrCancelled, w.removeOperationRecord())
		case active && d.Mirror != nil && d.Mirror.Ready == "yes":
			if err := w.recordPivot(); err != nil {
				return err
			}
			progress(99)
			err := w.c.Do(ctx, func(l *golibvirt.Libvirt) error {
				return l.DomainBlockJobAbort(ref, domxml.DiskTargetOf(d), golibvirt.DomainBlockJobAbortPivot)
			})
			if err != nil && !conn.IsLibvirtError(err) {
				return err
			}
			if err == nil {
				continue
			}
		}
		type info struct{ jobs, done, total int64 }
		now, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (info, error) {
			jobs, _, _, done, total, err := l.DomainGetBlockJobInfo(ref, domxml.DiskTargetOf(d), 0)
			return info{int64(jobs), int64(done), int64(total)}, err
		})
		if err != nil && !conn.IsLibvirtError(err) {
			return err
		}
		if err == nil && now.jobs == 0 {
			if over, err := w.hasPivoted(ctx, m, active); err != nil || over {
				return err
			}
			if err := checkFreeSpace(ctx, filepath.Dir(m.Base), minFreeBytes, "merging the disk"); err != nil {
				return errors.Join(err, w.removeOperationRecord())
			}
			return errors.Join(fleet.Errorf(fleet.Conflict, "QEMU or somebody on the host (virsh blockjob --abort) stopped the merge of the disk. No data is lost. Consolidate the VM's disks to try again."), w.removeOperationRecord())
		}
		if now.total > 0 {
			progress(int(now.done * 100 / now.total))
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // QEMU continues, and the retried job follows QEMU's block job
		case <-tick.C:
		case <-w.in.Stop:
		}
	}
}

// removeOperationRecord removes the record of the unfinished job from the tree.
func (w *snapshotJob) removeOperationRecord() error {
	w.tree.Work = nil
	return w.save()
}

// commitFile merges files that no guest uses. An interrupted merge can be repeated, because the top file stays complete
// until the base replaces it.
func (w *snapshotJob) commitFile(ctx context.Context, m hypervisor.SnapMerge, progress func(int)) error {
	if err := checkFilesUnused(ctx, m.Top, m.Base); err != nil {
		return err
	}
	stop := reportAllocation(m.Base, 0, func(int) { progress(50) })
	defer stop()
	within, cancel := w.contextUntilCancelled(ctx)
	defer cancel()
	err := runQemuImg(within, "commit", "-q", "-f", "qcow2", "-d", "-b", m.Base, m.Top)
	switch {
	case err == nil || ctx.Err() != nil:
		return err // after an interruption, the tree still records the merge
	case w.in.IsCancelled():
		return errors.Join(hypervisor.ErrCancelled, w.removeOperationRecord())
	}
	return errors.Join(translateNoSnapshotSpace(filepath.Dir(m.Base), err), w.removeOperationRecord())
}

// checkFilesUnused returns an error if a QEMU has one of the files open.
func checkFilesUnused(ctx context.Context, files ...string) error {
	for _, f := range files {
		open, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return hostfile.IsOpenByQEMU(f) })
		if err == nil && open {
			err = fleet.Errorf(fleet.Conflict, "A QEMU process on this or another host has %s open. Find that process, and stop it first.", f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contextUntilCancelled returns a context that is cancelled when the job is stopped.
func (w *snapshotJob) contextUntilCancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-w.in.Stop:
			cancel()
		case <-within.Done():
		}
	}()
	return within, cancel
}

// runQemuImg runs qemu-img without a shell and with a minimal environment. All path arguments must be absolute.
func runQemuImg(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "qemu-img", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	cmd.WaitDelay = hostfile.HungStorageTimeout
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("qemu-img %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()[:min(stderr.Len(), 512)]))
	}
	return nil
}

// finishMerge finishes a merge once the base has all data. It rebases other overlays of the top file onto the base, and
// then removes the top file.
func (w *snapshotJob) finishMerge(ctx context.Context, m hypervisor.SnapMerge) error {
	w.tree.Work = &hypervisor.SnapOperation{Job: w.in.Job, Kind: hypervisor.SnapMergeKind, Step: hypervisor.SnapStepCommitted, Merge: &m}
	if err := w.save(); err != nil {
		return err
	}
	w.in.Progress(95, "moving overlays to the remaining file")
	for _, l := range w.tree.LayersBackedBy(m.Top) {
		refs, err := hostfile.RunWithinLookupTimeout(ctx, func() ([]hostfile.ImageReference, error) { return hostfile.ReadReferences(l.File), nil })
		if err != nil {
			return err
		}
		if len(refs) == 1 && filepath.Clean(refs[0].Path) == m.Base {
			continue
		}
		if err := runQemuImg(ctx, "rebase", "-q", "-u", "-f", "qcow2", "-F", "qcow2", "-b", m.Base, l.File); err != nil {
			return err
		}
	}
	for _, a := range w.tree.Active {
		if a.File != m.Top {
			continue
		}
		to := a
		to.File = m.Base
		if err := w.redefineDisksOnLayers(ctx, []hypervisor.SnapLayer{to}); err != nil {
			return err
		}
	}
	w.tree.FinishMerge(m)
	recordLayerSizes(w.tree)
	w.tree.Work = nil
	if err := w.save(); err != nil {
		return err
	}
	return w.removeTrash(ctx)
}
