package libvirt

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/transfer"
)

// SendVolume implements hypervisor.Storage. Other jobs may read the file at the same time.
func (b *Backend) SendVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	at, err := volumeOfJob(in)
	if err != nil {
		return err
	}
	return b.readVolumeFile(ctx, "send", at, in, func(ctx context.Context, w *volumeJob) error {
		if at.IsInBlockPool() {
			return errNotFilePool(in.Pool)
		}
		return w.sendFile(ctx)
	})
}

// sendFile sends the file that it opened, even if another file gets the path during the transfer.
func (w *volumeJob) sendFile(ctx context.Context) error {
	before, err := w.volumeFile(ctx, w.c, w.LocalVolume)
	if err != nil {
		return err
	}
	if err := w.refuseFileOfRunningGuest(ctx, w.LocalVolume, before.ID); err != nil {
		return err
	}
	sound, err := w.readImageSource(ctx, w.c, w.LocalVolume)
	if err != nil {
		return err
	}
	if err := sound.CheckClonable(w.Name); err != nil {
		return err
	}
	err = hostfile.WaitUnlessHung(ctx, func() error {
		f, err := hostfile.OpenImage(w.Path(), false)
		if err != nil {
			return translateReadError(w.LocalVolume, err)
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || hostfile.IdentityOf(info) != before.ID {
			return errors.Join(err, hypervisor.RefuseChangedVolume(w.Name))
		}
		return w.in.Send(ctx, w.failIfChanged(before, transfer.FilePieces(f, before.Bytes)), before.Bytes)
	})
	return err
}

// failIfChanged returns pieces that fail at the end if the file changed during the transfer, so that the receiver never
// gets the checksum.
func (w *volumeJob) failIfChanged(before hostfile.VolumeFile, pieces transfer.Pieces) transfer.Pieces {
	return func(ctx context.Context, do func(int64, []byte, int64) error) error {
		if err := pieces(ctx, do); err != nil {
			return err
		}
		if err := w.refuseFileOfRunningGuest(ctx, w.LocalVolume, before.ID); err != nil {
			return err
		}
		after, err := w.volumeFile(ctx, w.c, w.LocalVolume)
		if err == nil && (after.ID != before.ID || after.Bytes != before.Bytes || !after.Modified.Equal(before.Modified)) {
			err = hypervisor.RefuseChangedVolume(w.Name)
		}
		return err
	}
}

// ReceiveVolume implements hypervisor.Storage.
func (b *Backend) ReceiveVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "receive", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		there, err := w.isAlreadyCreated(ctx)
		if err != nil || there {
			return err
		}
		var received hypervisor.ReceivedFile
		err = w.createFilledVolume(ctx, func() error {
			received, err = w.receiveFile(ctx)
			return err
		})
		if err != nil {
			return err
		}
		id, err := hostfile.RunWithinLookupTimeout(ctx, func() (hostfile.Version, error) { return hostfile.VersionAt(w.Path()), nil })
		if err != nil {
			return err
		}
		return in.RecordChecksums(hypervisor.VolumeChecksum{Ref: w.Ref(), SHA256: received.SHA256(), FileStamp: id.Stamp()})
	})
}

// receiveFile receives into the unfinished file and inspects the file before it becomes a volume.
func (w *volumeJob) receiveFile(ctx context.Context) (hypervisor.ReceivedFile, error) {
	type opened struct {
		f    *os.File
		room int64
	}
	o, err := hostfile.RunWithinLookupTimeout(ctx, func() (o opened, err error) { o.f, o.room, err = w.createUnfinishedFile(); return o, err })
	if err != nil {
		return hypervisor.ReceivedFile{}, err
	}
	var received hypervisor.ReceivedFile
	err = hostfile.WaitUnlessHung(ctx, func() error {
		defer o.f.Close()
		var err error
		received, err = w.receiveIntoFile(ctx, o.f, o.room)
		return err
	})
	return received, err
}

// receiveIntoFile receives the file, verifies its checksum and inspects it.
func (w *volumeJob) receiveIntoFile(ctx context.Context, f *os.File, room int64) (hypervisor.ReceivedFile, error) {
	to := &hostfile.ReceivedFile{File: f}
	received, err := w.in.Receive(ctx, to, room)
	if err != nil {
		return received, err
	}
	if want, has := strings.CutPrefix(w.in.Params.Checksum, "sha256:"); has && want != received.SHA256() {
		return received, hypervisor.RefuseDifferentCopy(w.Name, received.SHA256(), want)
	}
	head := &hostfile.WithheldHeadFile{File: f, Head: to.Head[:min(received.Bytes, hostfile.WithheldHeadBytes)], Bytes: received.Bytes}
	if err := w.acceptReceivedFile(ctx, head, "sent", f.Sync); err != nil {
		return received, err
	}
	if t := w.in.Params.Transfer; t == nil || !t.Check {
		return received, nil
	}
	return received, transfer.VerifyFile(ctx, f, received.Bytes, received.Sum, &transfer.Meter{Total: received.Bytes, Report: func(done, total, rate int64) {
		w.in.Progress(hypervisor.FormatCopyProgress("reading back the received file", done, total, rate))
	}})
}

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
