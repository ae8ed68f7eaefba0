package mock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/internal/fleet"
	"quantix/internal/ovf"
)

// vmdkHeadBytes is the length in bytes of the header and descriptor of a simulated VMDK.
const vmdkHeadBytes = 21 * 512

// simulatedVMDK returns a disk for an archive: a valid VMDK header, and the text that represents the disk's data.
func simulatedVMDK(size int64, data string) []byte {
	b := make([]byte, vmdkHeadBytes, vmdkHeadBytes+len(data))
	copy(b, "KDMV")
	binary.LittleEndian.PutUint32(b[4:], 3)
	binary.LittleEndian.PutUint64(b[12:], uint64(size/512))
	binary.LittleEndian.PutUint64(b[28:], 1)
	binary.LittleEndian.PutUint64(b[36:], 20)
	copy(b[512:], "# Disk DescriptorFile\nversion=1\nparentCID=ffffffff\ncreateType=\"streamOptimized\"\n")
	return append(b, data...)
}

// chainText returns the text that represents the data of a disk with its backing chain. The caller holds h.mu.
func (f *file) chainText(p *pool) string {
	for at := f; at != nil; at = p.dir.files[path.Base(at.Backing)] {
		if at.bytes != "" || at.Backing == "" {
			return at.dataText()
		}
	}
	return f.dataText()
}

// ConvertVolume implements hypervisor.Storage.
func (h *Host) ConvertVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	of := in.Pool
	if in.SourcePool != nil {
		of = *in.SourcePool
	}
	switch {
	case in.Params.SourcePool != "" && (in.SourcePool == nil || in.SourcePool.ID != in.Params.SourcePool):
		return hypervisor.NoSourcePoolError()
	case !fleet.IsVolumeName(in.Params.Source) || of.ID == in.Pool.ID && in.Params.Source == in.Name:
		return fleet.Errorf(fleet.Invalid, "%q is not a volume that can be converted.", in.Params.Source)
	}
	if err := h.options.Roots.CheckDir(of.Spec.Path); err != nil {
		return err
	}
	told := in.Progress
	in.Progress = func(percent int, _ string) { told(percent, "converting "+in.Params.Source) }
	var data string
	err := h.makeVolume(ctx, in, func(*pool) (fleet.Volume, error) {
		p, err := h.activePool(of.ID, []fleet.Pool{of})
		if err != nil {
			return fleet.Volume{}, err
		}
		from, ok := p.dir.files[in.Params.Source]
		if !ok {
			return fleet.Volume{}, hypervisor.NoVolumeError(in.Params.Source, of.Name)
		}
		if err := h.refuseFileOfRunningGuest(p, from); err != nil {
			return fleet.Volume{}, err
		}
		if nameContains(in.Name, FailVolume) {
			return fleet.Volume{}, fleet.Errorf(fleet.Conflict, "The pool has not enough space for the disk, and the unfinished volume was removed (No space left on device).")
		}
		text := []byte(from.dataText())
		at, size, facts, err := image.FindMember(bytes.NewReader(text), int64(len(text)), from.Name, in.Params.Member)
		if err == nil && in.Params.Member != "" {
			err = image.VerifyMemberChecksum(ctx, bytes.NewReader(text), int64(len(text)), in.Params.Member, func(int64) {})
		}
		if err != nil {
			return fleet.Volume{}, err
		}
		if data = string(text[at : at+size]); facts.Format == "vmdk" && size > vmdkHeadBytes {
			data = data[vmdkHeadBytes:]
		}
		return fleet.Volume{Format: "qcow2", CapacityBytes: facts.Size, AllocBytes: min(facts.Size, size+196<<10)}, nil
	})
	if err != nil || data == "" {
		return err
	}
	return h.setVolumeData(ctx, in, data)
}

// setVolumeData sets the text that represents the data of a new volume.
func (h *Host) setVolumeData(ctx context.Context, in hypervisor.VolumeWork, data string) error {
	return h.withVolumeOfJob(ctx, in, func(_ *pool, f *file) error {
		if f == nil {
			return hypervisor.NoVolumeError(in.Name, in.Pool.Name)
		}
		f.bytes = data
		return nil
	})
}

// ExportVolume implements hypervisor.Storage. It writes a complete archive.
func (h *Host) ExportVolume(ctx context.Context, in hypervisor.VolumeWork) error {
	e := in.Params.Export
	if e == nil || len(e.Disks) == 0 || len(e.Disks) != len(e.Appliance.Disks) {
		return fleet.Errorf(fleet.Invalid, "The export job does not describe a valid appliance.")
	}
	told := in.Progress
	in.Progress = func(percent int, _ string) {
		told(percent, fmt.Sprintf("packing disk %d of %d", 1+percent*len(e.Disks)/101, len(e.Disks)))
	}
	var text []byte
	err := h.makeVolume(ctx, in, func(*pool) (v fleet.Volume, err error) {
		text, err = h.buildArchive(in, *e)
		if err != nil {
			return v, err
		}
		a, err := image.ReadAppliance(bytes.NewReader(text), int64(len(text)), in.Name)
		return fleet.Volume{Format: fleet.FormatOVA, CapacityBytes: int64(len(text)), AllocBytes: int64(len(text)), Appliance: a}, err
	})
	if err != nil || text == nil {
		return err
	}
	return h.setVolumeData(ctx, in, string(text))
}

func (h *Host) buildArchive(in hypervisor.VolumeWork, e fleet.ExportParams) ([]byte, error) {
	a := e.Appliance
	a.Disks = slices.Clone(a.Disks)
	var disks [][]byte
	var names, sums []string
	for i, ref := range e.Disks {
		p, err := h.activePool(ref.PoolID, append(slices.Clone(in.Pools), in.Pool))
		if err != nil {
			return nil, err
		}
		f := p.dir.files[ref.Volume]
		if f == nil {
			return nil, hypervisor.NoVolumeError(ref.Volume, p.spec.Path)
		}
		if err := h.refuseFileOfRunningGuest(p, f); err != nil {
			return nil, err
		}
		text := simulatedVMDK(f.CapacityBytes, f.chainText(p))
		a.Disks[i].FileBytes, a.Disks[i].SizeBytes = int64(len(text)), f.CapacityBytes
		disks, names = append(disks, text), append(names, a.Disks[i].Member)
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(text)))
	}
	to, plan := &memoryFile{}, ovf.NewArchivePlan(a)
	for i, text := range disks {
		at, data := plan.NextOffsets()
		header, err := ovf.TarHeader(names[i], int64(len(text)))
		if err != nil {
			return nil, err
		}
		to.writeText(header, at)
		to.writeText(text, data)
		plan.AddFile(int64(len(text)))
	}
	to.writeText([]byte{0}, plan.Size()-1)
	return to.text, plan.WriteHead(to, a, sums)
}

// memoryFile is a file in memory.
type memoryFile struct{ text []byte }

func (w *memoryFile) writeText(b []byte, at int64) {
	if more := at + int64(len(b)) - int64(len(w.text)); more > 0 {
		w.text = append(w.text, make([]byte, more)...)
	}
	copy(w.text[at:], b)
}

// WriteAt implements io.WriterAt.
func (w *memoryFile) WriteAt(b []byte, at int64) (int, error) {
	w.writeText(b, at)
	return len(b), nil
}
