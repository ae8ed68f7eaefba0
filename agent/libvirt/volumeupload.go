package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"quantix/agent/fetch"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/upload"
	"quantix/internal/download"
	"quantix/internal/fleet"
)

// UploadVolume implements hypervisor.Storage. An interrupted upload leaves its data under the unfinished name. A
// refused upload leaves no file.
func (b *Backend) UploadVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "upload", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		there, err := w.isAlreadyCreated(ctx)
		if err != nil || there {
			return err
		}
		to, err := w.openUpload(ctx)
		if err != nil {
			return err
		}
		err = abandonIfHung(ctx, func() error { return w.receiveUpload(ctx, to) })
		if err == nil {
			err = w.renameToFinalName(ctx)
		}
		if err != nil && ctx.Err() == nil {
			w.removeUnfinishedFile(ctx)
		}
		if err == nil {
			w.pools.Refresh(ctx, w.c, w.pool)
		}
		return err
	})
}

// abandonIfHung runs f and waits for the result, at most a short time beyond the end of ctx. It abandons f if the
// storage hangs.
func abandonIfHung(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(cleanupTimeout):
		return fmt.Errorf("the storage did not answer in time: %w", ctx.Err())
	}
}

// openUpload opens the upload's unfinished file or creates a new one. The pool must have space for the whole upload
// before a new file is created.
func (w *volumeJob) openUpload(ctx context.Context) (*hostfile.ResumableUpload, error) {
	o := w.in.Params
	algorithm, digest, known := download.ParseChecksum(o.Checksum)
	if !known || o.SizeBytes <= 0 || o.Upload == "" {
		return nil, fleet.Errorf(fleet.Invalid, "An upload needs a size, and a checksum of the kind SHA-256 or SHA-512.")
	}
	sum := hostfile.UploadChecksum{Algorithm: algorithm, Want: digest, Hash: fetch.NewHash(algorithm)}
	to, err := hostfile.RunWithinContext(ctx, func() (*hostfile.ResumableUpload, error) { return w.continueUpload(sum) })
	if err != nil || to != nil {
		return to, err
	}
	if err := w.removeVolume(ctx, w.c, w.WithUnfinishedName()); err != nil {
		return nil, err
	}
	return hostfile.RunWithinContext(ctx, func() (*hostfile.ResumableUpload, error) {
		f, room, err := w.createUnfinishedFile()
		if err != nil {
			return nil, err
		}
		to := hostfile.NewResumableUpload(f, w.LocalVolume.Pool.Name, o, sum)
		if o.SizeBytes > room {
			err = fetch.NoSpaceError("upload", fleet.FormatBytes(o.SizeBytes), room)
		} else {
			err = to.Sync()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(w.WithUnfinishedName().Path()))
		}
		return to, nil
	})
}

// continueUpload returns the upload's unfinished file with its progress. It returns nil if there is none.
func (w *volumeJob) continueUpload(sum hostfile.UploadChecksum) (_ *hostfile.ResumableUpload, err error) {
	root, err := os.OpenRoot(w.LocalVolume.Pool.Spec.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	name := w.WithUnfinishedName().Name
	info, err := root.Lstat(name)
	switch {
	case hostfile.IsFileMissingError(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, nil
	}
	f, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	to, err := hostfile.ReadResumableUpload(f, w.LocalVolume.Pool.Name, w.in.Params, sum)
	if err == nil && to == nil && w.in.RecordedFile != "" && info.Size() == w.in.Params.SizeBytes {
		// The earlier attempt was interrupted just before its end. The data was received and inspected; only the final
		// name is missing.
		if word, err := inodeOf(w.WithUnfinishedName().Path()); err == nil && word == w.in.RecordedFile {
			to = hostfile.NewCompletedUpload(f, w.in.Params)
		}
	}
	if err != nil || to == nil {
		return nil, errors.Join(err, f.Close())
	}
	return to, nil
}

// receiveUpload receives the missing data and then inspects the file like a download.
func (w *volumeJob) receiveUpload(ctx context.Context, to *hostfile.ResumableUpload) error {
	defer func() { _ = to.Close() }()
	if !to.Settled {
		err := upload.Receive(ctx, w.in.UploadConns, w.in.Params.SizeBytes, to, func(done, total, rate int64) { w.in.Progress(hypervisor.FormatDownloadProgress(done, total, rate)) })
		if err != nil {
			return err
		}
		if got := to.Sum.Text(); got != to.Sum.Want {
			return upload.ChecksumMismatch(to.Sum.Algorithm, got, to.Sum.Want)
		}
	}
	_, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) {
		return struct{}{}, w.acceptReceivedFile(ctx, &to.WithheldHeadFile, "uploaded", func() error {
			return to.Complete(func() error {
				file, err := inodeOf(w.WithUnfinishedName().Path())
				if err != nil {
					return err
				}
				return w.in.RecordFile(file)
			})
		})
	})
	return err
}
