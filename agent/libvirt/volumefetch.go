package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"quantix/agent/fetch"
	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// FetchVolume implements hypervisor.Storage. The agent downloads into the file; libvirt lists the file once it is
// complete.
func (b *Backend) FetchVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return b.runVolumeJob(ctx, "download", in, (*volumeJob).refuseBlockPool, func(ctx context.Context, w *volumeJob) error {
		return w.createFilledVolume(ctx, func() error { return w.downloadVolume(ctx) })
	})
}

// downloadVolume downloads into the unfinished file and inspects the file before it becomes a volume. If the storage
// hangs, downloadVolume abandons the file, which keeps its unfinished name.
func (w *volumeJob) downloadVolume(ctx context.Context) error {
	_, err := hostfile.RunWithinContext(ctx, func() (struct{}, error) {
		f, room, err := w.createUnfinishedFile()
		if err != nil {
			return struct{}{}, err
		}
		err = w.downloadIntoFile(ctx, f, room)
		return struct{}{}, errors.Join(err, f.Close())
	})
	return err
}

// createUnfinishedFile creates the unfinished file in the pool's directory. A later replacement of the path does not
// redirect the write. room is the maximum size of the file in bytes; some space stays reserved for guests.
func (w *volumeJob) createUnfinishedFile() (f *os.File, room int64, err error) {
	root, err := os.OpenRoot(w.LocalVolume.Pool.Spec.Path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if f, err = root.OpenFile(w.WithUnfinishedName().Name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, 0, err
	}
	if room, err = usableBytes(f); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, room, nil
}

// usableBytes returns how many bytes a download or copy may use: 95 % of the free space.
func usableBytes(f *os.File) (int64, error) {
	free, err := hostfile.FreeBytes(f)
	return free - free/20, err
}

// downloadIntoFile downloads the file, inspects it and writes its head.
func (w *volumeJob) downloadIntoFile(ctx context.Context, f *os.File, room int64) error {
	o := w.in.Params
	to := &hostfile.WithheldHeadFile{File: f}
	err := w.fetcher.Get(ctx, fetch.Request{URL: o.URL, Checksum: o.Checksum, ChecksumURL: o.ChecksumURL, FreeBytes: room}, to, func(done, total, rate int64) {
		w.in.Progress(hypervisor.FormatDownloadProgress(done, total, rate))
	})
	if err != nil {
		return err
	}
	return w.acceptReceivedFile(ctx, to, "downloaded", to.File.Sync)
}

// acceptReceivedFile inspects the received data, and then writes the withheld head of the file. action is a past participle
// such as "downloaded", for errors. sync syncs the file in its final form.
func (w *volumeJob) acceptReceivedFile(ctx context.Context, to *hostfile.WithheldHeadFile, action string, sync func() error) error {
	w.in.Progress(99, "checking the file that was "+action)
	machine := fleet.ApplianceFormatByName(w.Name)
	inspect := w.inspectImageData
	if machine != "" {
		inspect = func(to *hostfile.WithheldHeadFile, action string) (image.Facts, error) {
			return w.inspectAppliance(ctx, to, action)
		}
	}
	facts, err := inspect(to, action)
	if err != nil {
		return err
	}
	if err := errors.Join(to.WriteHead(), sync()); err != nil {
		return fmt.Errorf("sync the file that was %s: %w", action, err)
	}
	switch machine {
	case "":
		return w.checkWithQemuImg(ctx, to.File, facts)
	case fleet.FormatOVA:
		return nil // the conversion checks each disk
	}
	_, err = image.DiskPart{File: to.File, Size: to.Bytes, Format: facts.Format}.Inspect(ctx, facts)
	if image.IsQemuImgMissing(err) {
		return nil // qemu-img is missing on this host; the conversion checks the disk
	}
	return err
}

// inspectAppliance refuses an appliance that is no valid source of a VM. It compares all files of an archive with the
// archive's manifest.
func (w *volumeJob) inspectAppliance(ctx context.Context, to *hostfile.WithheldHeadFile, action string) (image.Facts, error) {
	a, err := image.ReadAppliance(to, to.Bytes, w.Name)
	if err != nil {
		return image.Facts{}, fmt.Errorf("read the file that was %s: %w", action, err)
	}
	if a.Error != "" {
		return image.Facts{}, fleet.Errorf(fleet.Invalid, "The file that was %s is refused. %s", action, a.Error)
	}
	if fleet.ApplianceFormatByName(w.Name) != fleet.FormatOVA {
		return image.ReadConvertibleFacts(to, to.Bytes)
	}
	return image.Facts{Format: "raw", Size: to.Bytes}, image.VerifyManifest(ctx, to, to.Bytes, func(done int64) {
		w.in.Progress(99, "comparing the archive with its manifest: "+fleet.FormatBytes(done)+" of "+fleet.FormatBytes(to.Bytes))
	})
}

// inspectImageData refuses data that is not a self-contained image. It uses Quantix's own reader.
func (w *volumeJob) inspectImageData(to *hostfile.WithheldHeadFile, action string) (image.Facts, error) {
	what := "The file that was " + action
	facts, err := image.ReadFacts(to, to.Bytes, true)
	switch {
	case errors.Is(err, image.ErrHeaderTruncated):
		return facts, fleet.Errorf(fleet.Invalid, "%s is incomplete: %s.", what, err)
	case err != nil:
		return facts, fmt.Errorf("read the file that was %s: %w", action, err)
	}
	return facts, facts.CheckReceived(what, strings.HasSuffix(w.Name, ".iso"))
}

// checkWithQemuImg checks the file with qemu-img. If qemu-img is missing, it only logs a warning.
func (w *volumeJob) checkWithQemuImg(ctx context.Context, f *os.File, facts image.Facts) error {
	err := image.VerifyWithQemuImg(ctx, f, facts)
	if image.IsQemuImgMissing(err) {
		w.log.Warn(err.Error(), "pool", w.LocalVolume.Pool.Name, "volume", w.Name)
		w.in.Progress(99, err.Error())
		return nil
	}
	return err
}
