package libvirt

import (
	"context"
	"io"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// ReadVolume implements hypervisor.Storage. Other jobs may read the file at the same time. ReadVolume sends the last
// bytes only after a final check that the file has not changed.
func (b *Backend) ReadVolume(ctx context.Context, in hypervisor.VolumeWork, to func(size int64) (io.Writer, error)) error {
	act := "send volume " + in.Name
	if !fleet.IsVolumeName(in.Name) || in.Name == pooldir.MarkerFile {
		return fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", in.Name)
	}
	at, err := localVolumeOf(in.Ref(), []fleet.Pool{in.Pool})
	if err != nil {
		return err
	}
	if at.isInBlockPool() {
		return hypervisor.RefuseBlockVolume(in.Pool.Name)
	}
	unlock, err := b.volumeLocks.lockShared(ctx, at.path())
	if err != nil {
		return wrapAction(act, err)
	}
	defer unlock()
	return wrapAction(act, b.withConn(ctx, func(ctx context.Context, c *conn) error {
		pool, err := b.checkedPool(ctx, c, in.Pool)
		if err != nil {
			return err
		}
		w := &volumeJob{Backend: b, localVolume: at, c: c, in: in, pool: pool}
		f, err := w.volumeFile(ctx, w.c, at)
		switch {
		case err != nil:
			return err
		case f.RefersTo != "":
			return hypervisor.RefuseVolumeWithBackingFile(in.Name, f.RefersTo)
		}
		if err := w.refuseFileOfRunningGuest(ctx, at, f.id); err != nil {
			return err
		}
		out, err := to(f.bytes)
		if err != nil {
			return err
		}
		held := &hypervisor.BoundedWriter{To: out, Max: f.bytes}
		if _, err := w.readAndHash(ctx, at, "sending "+in.Name, held); err != nil {
			return err
		}
		if held.Written != f.bytes {
			return hypervisor.RefuseChangedVolume(in.Name)
		}
		return held.Flush()
	}))
}
