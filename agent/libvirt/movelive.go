package libvirt

import (
	"context"
	"fmt"
	"os"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// copyRunningDisk makes QEMU copy the disk of a running guest. The copy has the final file name from the start, because
// QEMU cannot rename an open file. The agent recognizes an incomplete copy by the recorded identity of the file and by
// the mirror in the domain's definition.
func (m *diskMigration) copyRunningDisk(ctx context.Context, s diskMigrationState, h hostfile.ImageHeader) error {
	w := &volumeJob{Backend: m.Backend, LocalVolume: m.to, c: m.c, pool: m.targetPool}
	if err := w.createUnfinishedVolume(ctx, newVolumeSpec{format: "qcow2", size: h.Size}); err != nil {
		return err
	}
	if err := m.recordFile(ctx); err != nil {
		return m.undoMigration(ctx, err)
	}
	if _, err := hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, renameUnfinishedFile(m.to) }); err != nil {
		return m.undoMigration(ctx, err)
	}
	m.pools.Refresh(ctx, m.c, m.targetPool)
	if err := m.startMirror(ctx, s); err != nil {
		return m.undoMigration(ctx, err)
	}
	return m.waitForMirror(ctx)
}

// startMirror starts QEMU's copy as a transient block job, which libvirt requires for a persistent domain.
func (m *diskMigration) startMirror(ctx context.Context, s diskMigrationState) error {
	dest := libvirtxml.DomainDisk{
		Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: m.to.Path()}},
	}
	text, err := dest.Marshal()
	if err != nil {
		return err
	}
	var params []golibvirt.TypedParam
	if rate := m.in.Params.RateBytes; rate > 0 {
		params = append(params, golibvirt.TypedParam{Field: golibvirt.DomainBlockCopyBandwidth, Value: *golibvirt.NewTypedParamValueUllong(uint64(rate))})
	}
	// By default, QEMU copies the guest's new writes later. In write-blocking mode, QEMU writes to both disks at once,
	// so that the copy always catches up with the guest. But in that mode QEMU 7.2 on a busy host sometimes exits,
	// loses a write in the copy, or hangs the guest when the copy is cancelled.
	const flags = golibvirt.DomainBlockCopyReuseExt | golibvirt.DomainBlockCopyTransientJob
	return m.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockCopy(s.ref, domxml.DiskTargetOf(s.liveDisk), text, params, flags)
	})
}

// mirrorPollPeriod is the interval at which the agent checks QEMU's copy.
const mirrorPollPeriod = 500 * time.Millisecond

// waitForMirror waits for QEMU's copy and pivots the guest to the copy once the copy is complete.
func (m *diskMigration) waitForMirror(ctx context.Context) error {
	tick := time.NewTicker(mirrorPollPeriod)
	defer tick.Stop()
	var last copyProgress
	for {
		s, err := m.readState(ctx)
		if err != nil {
			return err
		}
		d := s.liveDisk
		if s.live != nil && m.isMirrored(d) {
			switch gone, over, err := m.findEndedMirror(ctx, s); {
			case err != nil:
				return err
			case over:
				return m.finishMove(ctx)
			case gone:
				return m.undoMigration(ctx, errCopyWithoutQEMU("the disk"))
			}
		}
		switch {
		case s.live == nil && m.definitionNamesNewDisk(s):
			return m.finishMove(ctx) // the guest ended after the pivot
		case s.live == nil || d == nil:
			return m.undoMigration(ctx, fleet.Errorf(fleet.Conflict, "The guest was powered off while its disk was being moved. The disk was not moved; move the disk again."))
		case d.Mirror == nil && domxml.DiskPathOf(d) == m.to.Path():
			return m.finishMove(ctx)
		case d.Mirror == nil:
			return m.undoMigration(ctx, m.mirrorFailure(ctx, s))
		case !m.isMirrored(d):
			return fleet.Errorf(fleet.Conflict, "The host is already copying the disk (virsh blockjob). End that copy first.")
		case m.in.IsCancelled():
			return m.undoMigration(ctx, hypervisor.ErrCancelled)
		case d.Mirror.Ready == "yes":
			if err := m.pivotToCopy(ctx, s); err != nil {
				return m.undoMigration(ctx, err) // undoMigration detects a pivot that succeeded despite the error
			}
			continue
		}
		if last, err = m.reportProgress(ctx, s.ref, domxml.DiskTargetOf(d), last); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err() // QEMU continues to copy, and the retried job resumes in waitForMirror
		case <-m.in.Stop:
		case <-tick.C:
		}
	}
}

// pivotToCopy switches the guest to the new disk. It records the switch first, because the old disk may miss the
// guest's later writes. If the record cannot be written, pivotToCopy does not start the switch.
func (m *diskMigration) pivotToCopy(ctx context.Context, s diskMigrationState) error {
	m.in.Progress(99, "switching to the new disk")
	if !m.pivoted {
		if err := m.in.RecordFile(m.in.RecordedFile + pivotSuffix); err != nil {
			return err
		}
		if err := m.in.RecordDisk(m.to.Ref()); err != nil {
			return err
		}
		m.pivoted = true
	}
	return m.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainBlockJobAbort(s.ref, domxml.DiskTargetOf(s.liveDisk), golibvirt.DomainBlockJobAbortPivot)
	})
}

// findEndedMirror detects a copy that libvirt still lists although QEMU ended it while libvirtd was stopped. gone
// reports that QEMU has no such job; pivoted reports that QEMU uses the new disk.
func (m *diskMigration) findEndedMirror(ctx context.Context, s diskMigrationState) (gone, pivoted bool, err error) {
	for began := time.Now(); time.Since(began) < endedJobTimeout; {
		found, err := conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (int32, error) {
			found, _, _, _, _, err := l.DomainGetBlockJobInfo(s.ref, domxml.DiskTargetOf(s.liveDisk), 0)
			return found, err
		})
		if err != nil && conn.IsLibvirtError(err) {
			return false, false, nil // the guest has just ended, and the next check shows the result
		}
		if err != nil || found != 0 {
			return false, false, err
		}
		if s, err = m.readState(ctx); err != nil || s.live == nil || !m.isMirrored(s.liveDisk) {
			return false, false, err // the copy or the guest has just ended; the next check shows the result
		}
		if err := waitPollPeriod(ctx); err != nil {
			return false, false, err
		}
	}
	pivoted, err = m.guestUsesNewDisk(ctx, s)
	return err == nil, pivoted, err
}

// guestUsesNewDisk asks QEMU whether the guest uses the new disk.
func (m *diskMigration) guestUsesNewDisk(ctx context.Context, s diskMigrationState) (bool, error) {
	return m.guestUsesNewFile(ctx, m.c, s.observedDomain, m.from.Path(), m.to.Path())
}

// finishMoveOfLostGuest handles a guest that libvirt lost during the pivot. If the guest's QEMU runs and uses the new
// disk, finishMoveOfLostGuest changes the definition to the new disk.
func (m *diskMigration) finishMoveOfLostGuest(ctx context.Context, s diskMigrationState) error {
	if !m.pivoted {
		return nil
	}
	over, err := m.guestUsesNewDisk(ctx, s)
	if err != nil || !over {
		return err
	}
	return m.finishMove(ctx)
}

// copyProgress is the progress of QEMU's copy at a point in time.
type copyProgress struct {
	done int64
	at   time.Time
}

// reportProgress reports the copy's progress if it has advanced.
func (m *diskMigration) reportProgress(ctx context.Context, ref golibvirt.Domain, dev string, last copyProgress) (copyProgress, error) {
	type info struct{ done, total int64 }
	now, err := conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (info, error) {
		_, _, _, done, total, err := l.DomainGetBlockJobInfo(ref, dev, 0)
		return info{int64(done), int64(total)}, err
	})
	if err != nil && conn.IsLibvirtError(err) {
		return last, nil // the copy or the guest has just ended; the next check shows the result
	}
	if err != nil || now.done == last.done {
		return last, err
	}
	var rate int64
	if !last.at.IsZero() {
		rate = int64(float64(now.done-last.done) / time.Since(last.at).Seconds())
	}
	m.in.Progress(hypervisor.FormatCopyProgress(fmt.Sprintf("copying disk %d", m.from.Number), now.done, now.total, max(0, rate)))
	return copyProgress{now.done, time.Now()}, nil
}

// minFreeBytes is the free space, in bytes, below which storage counts as full.
const minFreeBytes = 4 << 20

// mirrorFailure returns the likely reason why QEMU's copy ended early. libvirt does not record the reason.
func (m *diskMigration) mirrorFailure(ctx context.Context, s diskMigrationState) error {
	free, err := m.freeTargetBytes(ctx)
	if err == nil && free < minFreeBytes {
		return fleet.Errorf(fleet.Conflict, "The pool %s is full: No space left on device. The disk was not moved. Free space in the pool, and move the disk again.", m.to.Pool.Name)
	}
	return fleet.Errorf(fleet.Conflict, "QEMU or somebody on the host (virsh blockjob --abort) stopped the copy. The disk was not moved. The host's /var/log/libvirt/qemu/%s.log may have the reason.", s.ref.Name)
}

// freeTargetBytes returns the free space of the destination pool in bytes.
func (m *diskMigration) freeTargetBytes(ctx context.Context) (int64, error) {
	return hostfile.RunWithinLookupTimeout(ctx, func() (int64, error) {
		f, err := os.Open(m.to.Pool.Spec.Path)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return hostfile.FreeBytes(f)
	})
}
