package mock

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	digest "hash"
	"path"

	"quantix/agent/fetch"
	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/upload"
	"quantix/internal/download"
	"quantix/internal/fleet"
)

// receivedUpload is the received part of an upload: its size, its checksum and its first bytes.
type receivedUpload struct {
	size        int64
	sum         digest.Hash
	head        []byte
	maxBytes    int  // number of bytes to store
	storageFull bool // the storage is full
}

const (
	maxHeadBytes      = 64 << 10
	maxApplianceBytes = 8 << 20 // bytes stored of an appliance; maxHeadBytes of any other file
)

// Write implements upload.File.
func (s *receivedUpload) Write(b []byte) (int, error) {
	if s.storageFull {
		return 0, fmt.Errorf("pwrite: No space left on device")
	}
	if s.sum != nil {
		s.sum.Write(b)
	}
	s.head = append(s.head, b[:min(len(b), s.maxBytes-len(s.head))]...)
	s.size += int64(len(b))
	return len(b), nil
}

// Size implements upload.File.
func (s *receivedUpload) Size() int64 { return s.size }

// Sync implements upload.File.
func (s *receivedUpload) Sync() error { return nil }

// UploadVolume implements hypervisor.Storage.
func (h *Host) UploadVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	o := in.Params
	algorithm, want, known := download.ParseChecksum(o.Checksum)
	if !known || o.SizeBytes <= 0 || o.Upload == "" {
		return fleet.Errorf(fleet.Invalid, "An upload needs a size, and a checksum of the kind SHA-256 or SHA-512.")
	}
	if err := h.withVolumeOfJob(ctx, in, func(p *pool, f *file) error {
		if room := p.dir.capacity - p.dir.capacity/20; f == nil && o.SizeBytes > room {
			return fetch.NoSpaceError("upload", fleet.FormatBytes(o.SizeBytes), room)
		}
		return nil
	}); err != nil {
		return err
	}
	to := h.receivedUploadOf(in, algorithm)
	forget := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.uploads, o.Upload)
	}
	var v fleet.Volume
	err := h.makeVolume(ctx, in, func(*pool) (fleet.Volume, error) { return v, nil }, func() (err error) {
		v, err = h.finishUpload(ctx, in, to, algorithm, want)
		if err == nil || ctx.Err() == nil {
			forget()
		}
		return err
	})
	if err != nil || v.Appliance == nil {
		return err
	}
	return h.setVolumeData(ctx, in, string(to.head))
}

// receivedUploadOf returns the bytes that the host has received of the upload so far.
func (h *Host) receivedUploadOf(in hypervisor.VolumeWork, algorithm string) *receivedUpload {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := h.uploads[in.Params.Upload]
	if to == nil {
		to = &receivedUpload{sum: fetch.NewHash(algorithm), storageFull: nameContains(in.Name, FailVolume), maxBytes: maxHeadBytes}
		if fleet.ApplianceFormatByName(in.Name) != "" {
			to.maxBytes = maxApplianceBytes
		}
		h.uploads[in.Params.Upload] = to
	}
	return to
}

func (h *Host) finishUpload(ctx context.Context, in hypervisor.VolumeWork, to *receivedUpload, algorithm, want string) (fleet.Volume, error) {
	var v fleet.Volume
	err := upload.Receive(ctx, in.UploadConns, in.Params.SizeBytes, to, func(done, total, rate int64) { in.Progress(hypervisor.FormatDownloadProgress(done, total, rate)) })
	if err != nil {
		return v, err
	}
	if to.sum != nil {
		if got := hex.EncodeToString(to.sum.Sum(nil)); got != want {
			return v, upload.ChecksumMismatch(algorithm, got, want)
		}
	}
	if kind := fleet.ApplianceFormatByName(in.Name); kind != "" {
		a, err := image.ReadAppliance(bytes.NewReader(to.head), to.size, in.Name)
		if err == nil && a.Error != "" {
			err = fleet.Errorf(fleet.Invalid, "The file that was uploaded is refused. %s", a.Error)
		}
		if err == nil && kind == fleet.FormatOVA {
			err = image.VerifyManifest(ctx, bytes.NewReader(to.head), to.size, func(int64) {})
		}
		return fleet.Volume{Format: kind, CapacityBytes: to.size, AllocBytes: to.size, Appliance: a}, err
	}
	f := image.Facts{Format: "raw", Size: to.size}
	if text := string(to.head); len(text) > 32 && text[:4] == "QFI\xfb" {
		f.Format, f.Size = "qcow2", int64(binary.BigEndian.Uint64(to.head[24:]))
	} else if len(text) > 0 && text[0] == '<' {
		f.NonDiskContent = "a web page"
	}
	f.IsDisc = path.Ext(in.Name) == ".iso"
	if err := f.CheckReceived("The file that was uploaded", f.IsDisc); err != nil {
		return v, err
	}
	v = fleet.Volume{Format: f.Format, CapacityBytes: f.Size, AllocBytes: to.size}
	if f.IsDisc {
		v.Format = "iso"
	}
	return v, nil
}
