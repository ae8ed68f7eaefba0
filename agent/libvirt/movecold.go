package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// copyStopped copies the disk of a stopped guest, verifies the copy and changes the definition to the copy.
func (m *diskMove) copyStopped(ctx context.Context) error {
	before, err := m.unusedFile(ctx)
	if err != nil {
		return err
	}
	if err := m.writeCopy(ctx, before); err != nil {
		return m.revert(ctx, err)
	}
	after, err := m.unusedFile(ctx)
	if err == nil && (after.id != before.id || after.bytes != before.bytes || !after.modified.Equal(before.modified)) {
		err = fleet.Errorf(fleet.Conflict, "The disk %s was written to while it was being copied, so the copy is incomplete. The disk was not moved; move the disk again.", m.from.volume)
	}
	if err == nil && m.in.Stopped() {
		err = hypervisor.ErrStopped // a small disk may be complete before the copy notices the stop
	}
	if err == nil {
		_, err = withinLookPatience(ctx, func() (struct{}, error) { return struct{}{}, putInPlace(m.to) })
	}
	if err != nil {
		return m.revert(ctx, err)
	}
	m.refreshPool(ctx, m.c, m.pool)
	return m.redefineStopped(ctx, before)
}

// unusedFile returns the state of the disk's file. It fails if somebody writes to the file.
func (m *diskMove) unusedFile(ctx context.Context) (volumeFile, error) {
	f, err := m.volumeFile(ctx, m.c, m.from)
	if err == nil {
		err = m.checkUnwritten(ctx, m.c, m.from, f.id)
	}
	if err == nil {
		err = checkNotOpen(ctx, m.from)
	}
	return f, err
}

// writeCopy copies the disk to the unfinished name of the destination volume.
func (m *diskMove) writeCopy(ctx context.Context, was volumeFile) error {
	dst, err := withinLookPatience(ctx, func() (*os.File, error) {
		return os.OpenFile(m.to.partial().path(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if err != nil {
		return err
	}
	if err := m.recordFile(ctx); err != nil {
		dst.Close()
		return err
	}
	if free, err := withinLookPatience(ctx, func() (int64, error) { return freeBytes(dst) }); err == nil && free < was.alloc {
		dst.Close()
		return fleet.Errorf(fleet.Conflict, "The pool %s has %s free on this host, but the disk needs %s. Free space in the pool first.", m.to.pool.Name, fleet.Bytes(free), fleet.Bytes(was.alloc))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer whenClosed(m.in.Stop, func() { cancel(hypervisor.ErrStopped) })()
	err = waitUnlessHung(ctx, func() error {
		defer dst.Close()
		return m.copyAndCheck(ctx, dst, was)
	})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, hypervisor.ErrStopped) {
		return cause
	}
	return err
}

func (m *diskMove) copyAndCheck(ctx context.Context, dst *os.File, was volumeFile) error {
	src, err := openImage(m.from.path(), false)
	if err != nil {
		return err
	}
	defer src.Close()
	meter := func(act string, from, share int) *transfer.Meter {
		return &transfer.Meter{Total: was.bytes, Report: func(done, total, rate int64) {
			percent, note := hypervisor.FormatCopyProgress(fmt.Sprintf("%s disk %d", act, m.from.number), done, total, rate)
			m.in.Progress(from+percent*share/100, note)
		}}
	}
	sum, err := transfer.Copy(ctx, dst, src, was.bytes, &transfer.Rate{Bytes: m.in.Order.RateBytes}, meter("copying", 0, 75))
	if err != nil {
		return err
	}
	return transfer.Check(ctx, dst, was.bytes, sum, meter("checking", 75, 24))
}

// redefineStopped changes the definition to the copy. If somebody starts the guest with virsh during the change,
// redefineStopped restores the old definition.
func (m *diskMove) redefineStopped(ctx context.Context, before volumeFile) error {
	s, err := m.readState(ctx)
	if err != nil {
		return err
	}
	if s.live != nil || s.keptDisk == nil || pathOf(s.keptDisk) != m.from.path() {
		return m.revert(ctx, errStartedDuringCopy())
	}
	was, err := s.kept.Marshal()
	if err != nil {
		return err
	}
	if err := m.finishMove(ctx); err != nil {
		return m.revert(ctx, err)
	}
	s, err = m.readState(ctx)
	if err != nil {
		return err
	}
	if (s.live == nil || s.liveDisk == nil || pathOf(s.liveDisk) != m.from.path()) && !m.writtenSince(ctx, before) {
		return nil
	}
	back := &libvirtxml.Domain{}
	if err := back.Unmarshal(was); err != nil {
		return err
	}
	if err := m.define(ctx, back); err != nil {
		return err
	}
	return m.revert(ctx, errStartedDuringCopy())
}

// writtenSince reports whether the old file was modified since before. It returns false for a missing file.
func (m *diskMove) writtenSince(ctx context.Context, before volumeFile) bool {
	f, err := m.volumeFile(ctx, m.c, m.from)
	return err == nil && !f.modified.Equal(before.modified)
}

func errStartedDuringCopy() error {
	return fleet.Errorf(fleet.Conflict, "Somebody started or changed the VM while its disk was being copied. The disk was not moved; move the disk again.")
}

// whenClosed runs do once the channel closes, unless the caller calls forget first.
func whenClosed(c <-chan struct{}, do func()) (forget func()) {
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

// abandonAfter is how long file operations may continue after ctx ended. After this time, the agent abandons hanging
// storage.
const abandonAfter = 10 * time.Second

// waitUnlessHung runs work, which must check ctx, and waits for the result. It returns an error if the storage still
// hangs abandonAfter after ctx ended.
func waitUnlessHung(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(abandonAfter):
		return fmt.Errorf("the storage did not answer in time: %w", ctx.Err())
	}
}
