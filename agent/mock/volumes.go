package mock

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"time"

	"quantix/agent/fetch"
	"quantix/agent/hypervisor"
	"quantix/internal/download"
	"quantix/internal/fleet"
)

// FailVolume in a new volume's name makes the storage full before the volume is complete.
const FailVolume = "fail-volume"

// volumeOfJob returns the pool and the file of a volume job. The caller holds h.mu.
func (h *Host) volumeOfJob(in hypervisor.VolumeWork) (*pool, *file, error) {
	if !fleet.IsVolumeName(in.Name) {
		return nil, nil, fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", in.Name)
	}
	if err := h.checkPoolAllowed(in.Pool.Spec); err != nil {
		return nil, nil, err
	}
	if !in.Pool.Spec.Kind.Info().CreatesVolumes {
		return nil, nil, fleet.Errorf(fleet.Conflict, "The storage of the pool %s defines its volumes. Quantix cannot create, change or delete them.", in.Pool.Name)
	}
	p, err := h.activePool(in.Pool.ID, []fleet.Pool{in.Pool})
	if err == nil && p.record.ID != in.Pool.ID {
		err = fleet.Errorf(fleet.Conflict, "The pool %s is not set up on this host. Assign the pool first.", in.Pool.Name)
	}
	if err != nil {
		return nil, nil, err
	}
	return p, p.dir.files[in.Name], nil
}

// withVolumeOfJob runs one step of a job for an existing volume.
func (h *Host) withVolumeOfJob(ctx context.Context, in hypervisor.VolumeWork, do func(*pool, *file) error) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p, f, err := h.volumeOfJob(in)
	if err != nil {
		return err
	}
	defer h.notify()
	return do(p, f)
}

// CreateVolume implements hypervisor.Storage.
func (h *Host) CreateVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	o := in.Params
	if o.Format != "qcow2" && o.Format != "raw" || o.SizeBytes <= 0 {
		return fleet.Errorf(fleet.Invalid, "A volume needs the format qcow2 or raw, and a size above 0.")
	}
	return h.makeVolume(ctx, in, func(p *pool) (fleet.Volume, error) {
		v := fleet.Volume{Format: o.Format, CapacityBytes: o.SizeBytes}
		if v.Format == "qcow2" {
			v.AllocBytes = 196 << 10
		}
		if !p.spec.Kind.Info().FilePool {
			v.Format, v.AllocBytes = blockFormatOf(p.spec), v.CapacityBytes
		}
		if o.Full {
			v.AllocBytes = o.SizeBytes
		}
		if o.Full && v.AllocBytes > p.dir.capacity || nameContains(in.Name, FailVolume) {
			return v, fmt.Errorf("cannot allocate %d bytes in file '%s': No space left on device", o.SizeBytes, path.Join(volumePathPrefix(p.spec), in.Name))
		}
		return v, nil
	})
}

// CloneVolume implements hypervisor.Storage.
func (h *Host) CloneVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.makeVolume(ctx, in, func(p *pool) (fleet.Volume, error) {
		from, ok := p.dir.files[in.Params.Source]
		switch {
		case !ok:
			return fleet.Volume{}, hypervisor.NoVolumeError(in.Params.Source, in.Pool.Name)
		case from.contentFormat != "" && !fleet.IsRawName(in.Name):
			return fleet.Volume{}, hypervisor.RefuseVolumeSuffix(in.Name, from.contentFormat)
		case from.contentFormat == "" && from.checkSelfContained() != nil:
			return fleet.Volume{}, from.checkSelfContained()
		case from.Format != "qcow2" && from.Format != "raw" && p.spec.Kind.Info().FilePool && !from.IsISO():
			return fleet.Volume{}, fleet.Errorf(fleet.Conflict, "The image %s has the format %s; only qcow2 and raw images can be cloned.", from.Name, from.Format)
		}
		if err := h.refuseFileOfRunningGuest(p, from); err != nil {
			return fleet.Volume{}, err
		}
		return fleet.Volume{Format: from.Format, CapacityBytes: from.CapacityBytes, AllocBytes: from.AllocBytes}, nil
	})
}

// Downloads from servers with these host names misbehave.
const (
	FetchRefused         = "refused.example" // no server listens
	FetchUnresolved      = "lost.example"    // the name does not resolve, as without a network
	FetchPage            = "page.example"    // the server sends a web page
	FetchWrongChecksum   = "wrong.example"   // the checksum differs
	FetchSlow            = "slow.example"    // the server stops sending until the job is cancelled
	FetchChecksumMissing = "nosum.example"   // the server's checksum file lacks the file
)

const downloadedBytes = 600 << 20

// FetchVolume implements hypervisor.Storage.
func (h *Host) FetchVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	if _, _, known := download.ParseChecksum(in.Params.Checksum); !known {
		return fleet.Errorf(fleet.Invalid, "%q is not a checksum. Give the digits of a SHA-256 or SHA-512.", in.Params.Checksum)
	}
	at, err := download.ParseURL(in.Params.URL, in.Params.Checksum+in.Params.ChecksumURL != "")
	if err != nil {
		return err
	}
	sums := &url.URL{}
	if in.Params.ChecksumURL != "" {
		if sums, err = download.ParseChecksumFileURL(in.Params.ChecksumURL); err != nil {
			return err
		}
	}
	told := in.Progress
	in.Progress = func(percent int, _ string) {
		told(hypervisor.FormatDownloadProgress(int64(percent)*downloadedBytes/100, downloadedBytes, 45<<20))
	}
	if at.Hostname() == FetchSlow {
		in.Progress(10, "")
		<-ctx.Done()
		return ctx.Err()
	}
	return h.makeVolume(ctx, in, func(*pool) (fleet.Volume, error) {
		var err error
		if sums.Hostname() == FetchChecksumMissing {
			_, err = fetch.FindChecksum("", path.Base(at.Path))
			return fleet.Volume{}, err
		}
		if slices.Contains([]string{FetchRefused, FetchUnresolved}, sums.Hostname()) {
			at = sums // the checksum file is fetched first
		}
		switch at.Hostname() {
		case FetchRefused:
			err = fleet.Errorf(fleet.Conflict, "The host cannot reach %s: connection refused. Check the address, and the host's network connection to this address.", at.Host)
		case FetchUnresolved:
			err = fleet.Errorf(fleet.Conflict, "The host cannot find %s: no such host. Check the address, and the host's network connection and DNS.", at.Host)
		case FetchPage:
			err = fleet.Errorf(fleet.Invalid, "The file that was downloaded is a web page, not an image.")
		case FetchWrongChecksum:
			err = fleet.Errorf(fleet.Conflict, "The download's checksum differs from the expected checksum, %s. The downloaded file was deleted.", in.Params.Checksum)
		}
		v := fleet.Volume{Format: "raw", CapacityBytes: downloadedBytes, AllocBytes: downloadedBytes}
		switch path.Ext(in.Name) {
		case ".iso":
			v.Format = "iso"
		case ".qcow2", ".img":
			v.Format, v.CapacityBytes = "qcow2", 2<<30
		}
		return v, err
	})
}

// makeVolume simulates the creation of a volume, in ten steps of fixed duration or by the given functions, and then
// adds the volume that describe returns.
func (h *Host) makeVolume(ctx context.Context, in hypervisor.VolumeWork, describe func(*pool) (fleet.Volume, error), first ...func() error) error {
	made := false
	look := func(p *pool, f *file) error {
		switch {
		case f != nil && in.RecordedFile != "" && f.identityText() == in.RecordedFile:
			made = true
			return nil
		case f != nil:
			return hypervisor.RefuseTakenVolumeName(in.Name, in.Pool.Name)
		}
		_, err := describe(p)
		return err
	}
	if err := h.withVolumeOfJob(ctx, in, look); err != nil || made {
		return err
	}
	for _, do := range first {
		if err := do(); err != nil {
			return err
		}
	}
	for s := range 10 {
		if len(first) > 0 {
			break // the simulated duration has passed
		}
		in.Progress(10*s, "creating "+in.Name)
		if err := h.waitDelay(ctx, 0.3); err != nil {
			return err
		}
	}
	f := &file{}
	if err := in.RecordFile(f.identityText()); err != nil {
		return err
	}
	return h.withVolumeOfJob(ctx, in, func(p *pool, there *file) error { // the host may have changed during the steps
		if there != nil {
			return hypervisor.RefuseTakenVolumeName(in.Name, in.Pool.Name)
		}
		v, err := describe(p)
		if err == nil && fleet.IsRawName(in.Name) && v.Format == "qcow2" {
			err = hypervisor.RefuseVolumeSuffix(in.Name, v.Format)
		}
		if err != nil {
			return err
		}
		now := time.Now().UTC().Truncate(fleet.ModifiedResolution)
		v.Name, v.ModifiedAt = in.Name, &now
		f.Volume = v
		p.dir.files[in.Name] = f
		return nil
	})
}

// identityText returns a text that identifies a file.
func (f *file) identityText() string { return fmt.Sprintf("%p", f) }

// hostsSharingPool returns the hosts that have the pool's files.
func (h *Host) hostsSharingPool(p *pool) []*Host {
	if p.spec.Shared || p.spec.Kind == fleet.PoolNFS {
		return h.options.SharedStorage.hosts
	}
	return []*Host{h}
}

// GrowVolume implements hypervisor.Storage.
func (h *Host) GrowVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		switch {
		case f == nil:
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		case f.CapacityBytes == in.Params.SizeBytes:
			return nil
		case f.CapacityBytes > in.Params.SizeBytes:
			return hypervisor.RefuseShrink(in.Name, f.CapacityBytes, in.Params.SizeBytes)
		case f.Backing != "" || f.hasExternalData:
			return fleet.Errorf(fleet.Conflict, "The volume %s refers to another file, so the volume cannot grow.", in.Name)
		}
		if err := h.refuseUsedVolume(p, f); err != nil {
			return err
		}
		f.CapacityBytes = in.Params.SizeBytes
		return nil
	})
}

// RenameVolume implements hypervisor.Storage.
func (h *Host) RenameVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.withVolumeOfJob(ctx, in, func(p *pool, there *file) error {
		from, ok := p.dir.files[in.Params.Source]
		switch {
		case !p.spec.Kind.Info().FilePool:
			return hypervisor.RefuseVolumeRename(in.Pool.Name)
		case !fleet.IsVolumeName(in.Params.Source) || in.Params.Source == in.Name:
			return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be renamed.", in.Params.Source)
		case there != nil && in.RecordedFile != "" && there.identityText() == in.RecordedFile:
			return nil
		case there != nil:
			return hypervisor.RefuseTakenVolumeName(in.Name, in.Pool.Name)
		case !ok:
			return hypervisor.NoVolumeError(in.Params.Source, in.Pool.Name)
		case fleet.IsRawName(in.Params.Source) != fleet.IsRawName(in.Name) && (from.Format != fleet.Raw || from.contentFormat != ""):
			return hypervisor.RefuseVolumeSuffix(in.Name, cmp.Or(from.contentFormat, from.Format))
		}
		if err := h.refuseUsedVolume(p, from); err != nil {
			return err
		}
		if err := in.RecordFile(from.identityText()); err != nil {
			return err
		}
		delete(p.dir.files, in.Params.Source)
		if from.bytes == "" {
			from.bytes = from.dataText()
		}
		from.Name = in.Name
		p.dir.files[in.Name] = from
		return nil
	})
}

// ReadVolume implements hypervisor.Storage. It sends the text that represents the volume's data.
func (h *Host) ReadVolume(ctx context.Context, in hypervisor.VolumeWork, to func(size int64) (io.Writer, error)) error {
	var data string
	if err := h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		switch {
		case f == nil:
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		case !p.spec.Kind.Info().FilePool:
			return hypervisor.RefuseSendOfBlockVolume(in.Pool.Name)
		case f.Backing != "" || f.hasExternalData:
			return hypervisor.RefuseVolumeWithBackingFile(in.Name, "another file")
		}
		data = f.dataText()
		return h.refuseFileOfRunningGuest(p, f)
	}); err != nil {
		return err
	}
	out, err := to(int64(len(data)))
	if err != nil {
		return err
	}
	held := &hypervisor.BoundedWriter{To: out, Max: int64(len(data))}
	if _, err := io.WriteString(held, data); err != nil {
		return err
	}
	return held.Flush()
}

// WipeVolume implements hypervisor.Storage.
func (h *Host) WipeVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	if err := h.withVolumeOfJob(ctx, in, func(_ *pool, f *file) error { // refuse before any progress
		if f == nil {
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		}
		return nil
	}); err != nil {
		return err
	}
	for s := range 10 {
		in.Progress(10*s, "overwriting with zeros: "+in.Name)
		if err := h.waitDelay(ctx, 0.1); err != nil {
			return err
		}
	}
	return h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		switch {
		case f == nil:
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		case f.Backing != "" || f.hasExternalData:
			return fleet.Errorf(fleet.Conflict, "The volume %s refers to another file, so only a part of its data would be wiped. Delete the volume instead.", in.Name)
		}
		if err := h.refuseUsedVolume(p, f); err != nil {
			return err
		}
		if f.bytes, f.contentFormat = "zeros", ""; f.Format == "qcow2" {
			f.AllocBytes = 196 << 10
		} else {
			f.Format = "raw"
		}
		return nil
	})
}

// DeleteVolume implements hypervisor.Storage.
func (h *Host) DeleteVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	return h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		if f == nil {
			return nil
		}
		if err := h.refuseUsedVolume(p, f); err != nil {
			return err
		}
		delete(p.dir.files, in.Name)
		return nil
	})
}
