package libvirt

import (
	"context"
	"io"

	"quantix/agent/hypervisor"
)

// ReadVolume implements hypervisor.Storage. Other jobs may read the file at the same time. ReadVolume sends the last
// bytes only after a final check that the file has not changed.
func (b *Backend) ReadVolume(ctx context.Context, in hypervisor.VolumeWork, to func(size int64) (io.Writer, error)) error {
	at, err := volumeOfJob(in)
	if err != nil {
		return err
	}
	if at.IsInBlockPool() {
		return hypervisor.RefuseSendOfBlockVolume(in.Pool.Name)
	}
	return b.readVolumeFile(ctx, "send", at, in, func(ctx context.Context, w *volumeJob) error {
		f, err := w.volumeFile(ctx, w.c, at)
		switch {
		case err != nil:
			return err
		case f.RefersTo != "":
			return hypervisor.RefuseVolumeWithBackingFile(in.Name, f.RefersTo)
		}
		if err := w.refuseFileOfRunningGuest(ctx, at, f.ID); err != nil {
			return err
		}
		out, err := to(f.Bytes)
		if err != nil {
			return err
		}
		held := &hypervisor.BoundedWriter{To: out, Max: f.Bytes}
		if _, err := w.readAndHash(ctx, at, "sending "+in.Name, held); err != nil {
			return err
		}
		if held.Written != f.Bytes {
			return hypervisor.RefuseChangedVolume(in.Name)
		}
		return held.Flush()
	})
}
