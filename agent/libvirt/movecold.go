package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// copyStoppedDisk copies the disk of a stopped guest, verifies the copy and changes the definition to the copy.
func (m *diskMigration) copyStoppedDisk(ctx context.Context) error {
	before, err := m.readUnusedFile(ctx)
	if err != nil {
		return err
	}
	if err := m.writeCopy(ctx, before); err != nil {
		return m.undoMigration(ctx, err)
	}
	after, err := m.readUnusedFile(ctx)
	if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
		err = fleet.Errorf(fleet.Conflict, "The disk %s was written to while it was being copied, so the copy is incomplete. The disk was not moved; move the disk again.", m.from.Name)
	}
	if err == nil && m.in.IsCancelled() {
		err = hypervisor.ErrCancelled // a small disk may be complete before the copy notices the stop
	}
	if err == nil {
		_, err = hostfile.RunWithinLookupTimeout(ctx, func() (struct{}, error) { return struct{}{}, renameUnfinishedFile(m.to) })
	}
	if err != nil {
		return m.undoMigration(ctx, err)
	}
	m.pools.Refresh(ctx, m.c, m.targetPool)
	return m.redefineStoppedVM(ctx, before)
}

// readUnusedFile returns the state of the disk's file. It fails if somebody writes to the file.
func (m *diskMigration) readUnusedFile(ctx context.Context) (hostfile.VolumeFile, error) {
	f, err := m.volumeFile(ctx, m.c, m.from)
	if err == nil {
		err = m.checkNotWrittenByGuest(ctx, m.c, m.from, f.ID)
	}
	if err == nil {
		err = checkVolumeNotOpen(ctx, m.from)
	}
	return f, err
}

// writeCopy copies the disk to the unfinished name of the destination volume.
func (m *diskMigration) writeCopy(ctx context.Context, was hostfile.VolumeFile) error {
	dst, err := hostfile.RunWithinLookupTimeout(ctx, func() (*os.File, error) {
		return os.OpenFile(m.to.WithUnfinishedName().Path(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if err != nil {
		return err
	}
	if err := m.recordFile(ctx); err != nil {
		dst.Close()
		return err
	}
	if free, err := hostfile.RunWithinLookupTimeout(ctx, func() (int64, error) { return hostfile.FreeBytes(dst) }); err == nil && free < was.Alloc {
		dst.Close()
		return fleet.Errorf(fleet.Conflict, "The pool %s has %s free on this host, but the disk needs %s. Free space in the pool first.", m.to.Pool.Name, fleet.FormatBytes(free), fleet.FormatBytes(was.Alloc))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer runWhenClosed(m.in.Stop, func() { cancel(hypervisor.ErrCancelled) })()
	err = hostfile.WaitUnlessHung(ctx, func() error {
		defer dst.Close()
		return m.copyAndCheck(ctx, dst, was)
	})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, hypervisor.ErrCancelled) {
		return cause
	}
	return err
}

func (m *diskMigration) copyAndCheck(ctx context.Context, dst *os.File, was hostfile.VolumeFile) error {
	src, err := hostfile.OpenImage(m.from.Path(), false)
	if err != nil {
		return err
	}
	defer src.Close()
	meter := func(act string, from, share int) *transfer.Meter {
		return &transfer.Meter{Total: was.Bytes, Report: func(done, total, rate int64) {
			percent, note := hypervisor.FormatCopyProgress(fmt.Sprintf("%s disk %d", act, m.from.Number), done, total, rate)
			m.in.Progress(from+percent*share/100, note)
		}}
	}
	sum, err := transfer.CopyFile(ctx, dst, src, was.Bytes, &transfer.RateLimit{Bytes: m.in.Params.RateBytes}, meter("copying", 0, 75))
	if err != nil {
		return err
	}
	return transfer.VerifyFile(ctx, dst, was.Bytes, sum, meter("checking", 75, 24))
}

// redefineStoppedVM changes the definition to the copy. If somebody starts the guest with virsh during the change,
// redefineStoppedVM restores the old definition.
func (m *diskMigration) redefineStoppedVM(ctx context.Context, before hostfile.VolumeFile) error {
	s, err := m.readState(ctx)
	if err != nil {
		return err
	}
	if s.live != nil || s.persistentDisk == nil || domxml.DiskPathOf(s.persistentDisk) != m.from.Path() {
		return m.undoMigration(ctx, errStartedDuringCopy())
	}
	was, err := s.persistentXML.Marshal()
	if err != nil {
		return err
	}
	if err := m.finishMove(ctx); err != nil {
		return m.undoMigration(ctx, err)
	}
	s, err = m.readState(ctx)
	if err != nil {
		return err
	}
	if (s.live == nil || s.liveDisk == nil || domxml.DiskPathOf(s.liveDisk) != m.from.Path()) && !m.isSourceWrittenSince(ctx, before) {
		return nil
	}
	back := &libvirtxml.Domain{}
	if err := back.Unmarshal(was); err != nil {
		return err
	}
	if err := m.defineDomain(ctx, back); err != nil {
		return err
	}
	return m.undoMigration(ctx, errStartedDuringCopy())
}

// isSourceWrittenSince reports whether the old file was modified after the reading earlier. It returns false for a missing
// file.
func (m *diskMigration) isSourceWrittenSince(ctx context.Context, earlier hostfile.VolumeFile) bool {
	f, err := m.volumeFile(ctx, m.c, m.from)
	return err == nil && !f.Modified.Equal(earlier.Modified)
}

func errStartedDuringCopy() error {
	return fleet.Errorf(fleet.Conflict, "Somebody started or changed the VM while its disk was being copied. The disk was not moved; move the disk again.")
}

// runWhenClosed runs do once the channel closes, unless the caller calls forget first.
func runWhenClosed(c <-chan struct{}, do func()) (forget func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-c:
			do()
		case <-done:
		}
	}()
	return func() { close(done) }
}
