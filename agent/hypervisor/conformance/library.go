package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// recordedChecksums are the checksums that a backend reported, as the agent stores them.
type recordedChecksums map[fleet.Volref]hypervisor.VolumeChecksum

// recordingJob returns the job whose RecordChecksums function stores the checksums in s.
func (s recordedChecksums) recordingJob(w hypervisor.VolumeWork) hypervisor.VolumeWork {
	w.RecordChecksums = func(all ...hypervisor.VolumeChecksum) error {
		for _, h := range all {
			s[h.Ref] = h
		}
		return nil
	}
	return w
}

// volumeWithChecksums returns a volume as a backend with these checksums reports it.
func (h *testHost) volumeWithChecksums(s recordedChecksums, p fleet.Pool, name string) fleet.Volume {
	h.t.Helper()
	state, err := h.HostState(h.ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{p}}, Checksums: s})
	h.requireNoError("snapshot", err)
	for _, r := range state.Pools {
		if v, ok := find(r.Status.Volumes, func(v fleet.Volume) bool { return v.Name == name }); ok && r.Name == p.Name {
			return v
		}
	}
	h.t.Fatalf("the pool has no %s", name)
	return fleet.Volume{}
}

// volumeChecksum returns the checksum of the file. It is empty if the file cannot be read.
func volumeChecksum(t *testing.T, p fleet.Pool, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Spec.Path, name))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func testHashVolume(t *testing.T, h *testHost) {
	p, known := h.newPool(), recordedChecksums{}
	img := Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20}
	h.harness.AddImage(t, p, img)
	if v := h.volumeWithChecksums(known, p, img.Name); v.SHA256 != "" || v.Altered {
		t.Errorf("before the first hash, the volume is reported as %+v, want no checksum", v)
	}
	ref := fleet.Volref{PoolID: p.ID, Volume: img.Name}
	h.requireNoError("hash", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, img.Name, fleet.VolumeParams{}))))
	sum := known[ref].SHA256
	if want := volumeChecksum(t, p, img.Name); want != "" && sum != want || len(sum) != 64 {
		t.Errorf("the checksum is %q, want %q", sum, want)
	}
	if v := h.volumeWithChecksums(known, p, img.Name); v.SHA256 != sum || v.Altered {
		t.Errorf("after the first hash, the volume is reported as %+v, want the checksum %s", v, sum)
	}
	bad := h.newVolumeJob(p, img.Name, fleet.VolumeParams{Checksum: "sha256:" + strings.Repeat("0", 64)})
	h.requireRefusal("verify other bytes", h.HashVolume(h.ctx, known.recordingJob(bad)), "other bytes than the image")
	if known[ref].SHA256 != sum {
		t.Error("the computed checksum is not reported")
	}

	// The host detects a write even if the modification time was reset. The checksum is then unknown until the file is
	// hashed again.
	h.harness.WriteKeepingTime(t, p, img.Name)
	if v := h.volumeWithChecksums(known, p, img.Name); v.SHA256 != "" || v.Altered {
		t.Errorf("after a write, the volume is reported as %+v, want no checksum", v)
	}
	h.requireNoError("hash once more", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, img.Name, fleet.VolumeParams{}))))
	if v := h.volumeWithChecksums(known, p, img.Name); v.SHA256 != known[ref].SHA256 || v.SHA256 == "" {
		t.Errorf("after the second hash, the volume is reported as %+v, want the new checksum", v)
	}
	h.harness.AddImage(t, p, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	h.requireRefusal("verify a volume with a backing file", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, "layer.qcow2", fleet.VolumeParams{}))), "refers to")
	h.requireRefusal("hash a missing volume", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, "nothing.qcow2", fleet.VolumeParams{}))), "nothing.qcow2")
	h.requireRefusal("hash an invalid name", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, "../golden.qcow2", fleet.VolumeParams{}))), "not a valid volume name")

	// A new file with the volume's name is a different volume, so its checksum is unknown.
	h.harness.DeleteVolume(t, p, img.Name)
	h.harness.AddImage(t, p, Image{Name: img.Name, Kind: Qcow2, SizeBytes: 8 << 20})
	if v := h.volumeWithChecksums(known, p, img.Name); v.SHA256 != "" || !v.Altered {
		t.Errorf("after the file was replaced, the volume is reported as %+v, want it altered, without a checksum", v)
	}
	vm := h.runningVM(newDisk(p))
	h.requireRefusal("hash a disk of a running guest", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, vm.Spec.Disks[0].Volume, fleet.VolumeParams{}))), vm.Name)
}

func testCopyVolume(t *testing.T, h *testHost) {
	from, to, known := h.newPool(), h.newPool(), recordedChecksums{}
	for _, kind := range []ImageKind{Qcow2, Raw, ISO} {
		name := "golden-" + string(kind)
		if kind == ISO {
			name = "tools.iso"
		}
		h.harness.AddImage(t, from, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		w := known.recordingJob(h.newVolumeJob(to, "copy-"+name, fleet.VolumeParams{Source: name, SourcePool: from.ID}))
		h.requireRefusal("copy without the pool", h.CopyVolume(h.ctx, w), "names no source pool")
		w.SourcePool = &from
		made := ""
		w.RecordFile = func(file string) error { made = file; return nil }
		bad := w
		bad.Params.Checksum = "sha256:" + strings.Repeat("0", 64)
		h.requireRefusal("copy other bytes", h.CopyVolume(h.ctx, bad), "other bytes")
		if _, ok := h.reportedVolume(to, "copy-"+name); ok {
			t.Error("a refused copy left a volume")
		}
		h.requireNoError("copy "+name, h.CopyVolume(h.ctx, w))
		source, own := h.volumeWithChecksums(known, from, name), h.volumeWithChecksums(known, to, "copy-"+name)
		if source.SHA256 == "" || source.SHA256 != own.SHA256 || own.Format != source.Format || own.CapacityBytes != source.CapacityBytes {
			t.Errorf("the copy is %+v, want the checksum, format and size of %+v", own, source)
		}
		if sum := volumeChecksum(t, to, "copy-"+name); sum != "" && sum != own.SHA256 {
			t.Errorf("the file %s has the checksum %s, but the report has %s", name, sum, own.SHA256)
		}
		w.RecordedFile, w.Params.Checksum = made, "sha256:"+own.SHA256
		h.requireNoError("copy again", h.CopyVolume(h.ctx, w))
		w.RecordedFile = ""
		h.requireRefusal("copy to the name of an existing volume", h.CopyVolume(h.ctx, w), "has a volume named")
	}
	h.harness.AddImage(t, from, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	w := known.recordingJob(h.newVolumeJob(to, "layer.qcow2", fleet.VolumeParams{Source: "layer.qcow2", SourcePool: from.ID}))
	w.SourcePool = &from
	h.requireRefusal("copy a volume with a backing file", h.CopyVolume(h.ctx, w), "refers to")
	w.Params.Flatten = true
	h.requireRefusal("flatten a volume backed by a file of the host", h.CopyVolume(h.ctx, w), "not a file of the pool")
	vm := h.runningVM(newDisk(from))
	w = known.recordingJob(h.newVolumeJob(to, "running.qcow2", fleet.VolumeParams{Source: vm.Spec.Disks[0].Volume, SourcePool: from.ID, Flatten: true}))
	w.SourcePool = &from
	h.requireRefusal("create an image from a running guest", h.CopyVolume(h.ctx, w), vm.Name)
}

func testDiskBackedByImage(t *testing.T, h *testHost) {
	p, other, known := h.newPool(), h.newPool(), recordedChecksums{}
	for _, kind := range []ImageKind{Qcow2, Raw} {
		name := "base-" + string(kind)
		h.harness.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		h.requireNoError("hash", h.HashVolume(h.ctx, known.recordingJob(h.newVolumeJob(p, name, fleet.VolumeParams{}))))
		over := func(in fleet.Pool, size int64) fleet.Disk {
			d := newDisk(in)
			d.SizeBytes, d.Image, d.Overlay = size, &fleet.Volref{PoolID: p.ID, Volume: name}, true
			d.ImageID, d.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
			return d
		}
		first := h.runningVM(over(p, 0))
		second := h.definedVM(over(p, 16<<20))
		for _, c := range []struct {
			vm   fleet.VM
			size int64
		}{{first, 4 << 20}, {second, 16 << 20}} {
			v := h.volumeWithChecksums(known, p, c.vm.Spec.Disks[0].Volume)
			if filepath.Base(v.Backing) != name || v.CapacityBytes != c.size || !slices.Equal(v.UsedBy, []fleet.VMID{c.vm.ID}) || len(v.BackingUsers) != 0 {
				t.Errorf("the VM's overlay is %+v, want it backed by the image and used by its VM", v)
			}
		}
		base := h.volumeWithChecksums(known, p, name)
		want := []fleet.VMID{first.ID, second.ID}
		slices.Sort(want)
		if !slices.Equal(base.UsedBy, want) || !slices.Equal(base.BackingUsers, want) || len(base.BaseOf) != 2 || base.SHA256 == "" || base.Altered {
			t.Errorf("the shared backing file is %+v, want two users, two overlays and a checksum", base)
		}
		// While VMs have overlays of the image, a full clone and a copy in another pool can still be made.
		full := over(p, 0)
		full.Overlay = false
		third := h.definedVM(full)
		if v := h.volumeWithChecksums(known, p, third.Spec.Disks[0].Volume); v.Backing != "" || v.CapacityBytes != 4<<20 {
			t.Errorf("the full copy is %+v, want 4 MiB and no backing file", v)
		}
		w := known.recordingJob(h.newVolumeJob(other, name, fleet.VolumeParams{Source: name, SourcePool: p.ID, Checksum: "sha256:" + base.SHA256}))
		w.SourcePool = &p
		h.requireNoError("copy the image", h.CopyVolume(h.ctx, w))
		// A volume outside the image library may be the disk of a VM, so no disk can be copied from it.
		plain := full
		plain.Volume, plain.VersionID = name+"-plain.qcow2", ""
		h.requireRefusal("clone a volume that backs others and is not in the library", h.ApplyVM(h.ctx, h.applyJob(h.newVM(plain))), "disk of a VM")
		h.requireRefusal("an overlay in another pool", h.ApplyVM(h.ctx, h.applyJob(h.newVM(over(other, 0)))), "not in the disk's pool")
		h.requireRefusal("too small an overlay", h.ApplyVM(h.ctx, h.applyJob(h.newVM(over(p, 1<<20)))), "at least")
		h.requireRefusal("delete the base", h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})), "")

		// The image made from the disk of a stopped VM is self-contained.
		h.requireNoError("stop", h.StopVM(h.ctx, first.ID))
		w = known.recordingJob(h.newVolumeJob(other, "flat-"+name+".qcow2", fleet.VolumeParams{Source: first.Spec.Disks[0].Volume, SourcePool: p.ID, Flatten: true}))
		w.SourcePool = &p
		h.requireNoError("make an image of the disk", h.CopyVolume(h.ctx, w))
		if v := h.volumeWithChecksums(known, other, w.Name); v.Backing != "" || v.Format != "qcow2" || v.CapacityBytes != 4<<20 || len(v.SHA256) != 64 {
			t.Errorf("the image made from the disk is %+v, want a self-contained qcow2 image with a checksum", v)
		}
		h.requireNoError("delete one with its disk", h.DeleteVM(h.ctx, first, h.pools, true))
		h.requireNoError("delete the other with its disk", h.DeleteVM(h.ctx, second, h.pools, true))
		if v := h.volumeWithChecksums(known, p, name); v.SHA256 != base.SHA256 || len(v.UsedBy) != 0 || len(v.BaseOf) != 0 {
			t.Errorf("after the deletion of its overlays, the image is %+v, want its checksum and no user", v)
		}
	}
}
