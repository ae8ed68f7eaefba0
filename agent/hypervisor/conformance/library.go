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

// sums are the checksums that a backend reported, as the agent stores them.
type sums map[fleet.Volref]hypervisor.VolumeChecksum

// of returns the job whose RecordChecksums function stores the checksums in s.
func (s sums) of(w hypervisor.VolumeWork) hypervisor.VolumeWork {
	w.RecordChecksums = func(all ...hypervisor.VolumeChecksum) error {
		for _, h := range all {
			s[h.Ref] = h
		}
		return nil
	}
	return w
}

// reported returns a volume as a backend with these checksums reports it.
func (h *host) reported(s sums, p fleet.Pool, name string) fleet.Volume {
	h.t.Helper()
	state, err := h.Snapshot(h.ctx, hypervisor.Assigned{Pools: []fleet.Pool{p}, Checksums: s})
	h.must("snapshot", err)
	for _, r := range state.Pools {
		if v, ok := find(r.Status.Volumes, func(v fleet.Volume) bool { return v.Name == name }); ok && r.Name == p.Name {
			return v
		}
	}
	h.t.Fatalf("the pool has no %s", name)
	return fleet.Volume{}
}

// volumeSum returns the checksum of the file. It is empty if the file cannot be read.
func volumeSum(t *testing.T, p fleet.Pool, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.Spec.Path, name))
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func testHash(t *testing.T, h *host) {
	p, known := h.pool(), sums{}
	img := Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20}
	h.h.AddImage(t, p, img)
	if v := h.reported(known, p, img.Name); v.SHA256 != "" || v.Altered {
		t.Errorf("without a computed checksum the volume is %+v", v)
	}
	ref := fleet.Volref{PoolID: p.ID, Volume: img.Name}
	h.must("hash", h.HashVolume(h.ctx, known.of(h.volumeJob(p, img.Name, fleet.VolumeParams{}))))
	sum := known[ref].SHA256
	if want := volumeSum(t, p, img.Name); want != "" && sum != want || len(sum) != 64 {
		t.Errorf("the checksum is %q, want %q", sum, want)
	}
	if v := h.reported(known, p, img.Name); v.SHA256 != sum || v.Altered {
		t.Errorf("reported as %+v, want %s", v, sum)
	}
	bad := h.volumeJob(p, img.Name, fleet.VolumeParams{Checksum: "sha256:" + strings.Repeat("0", 64)})
	h.refused("verify other bytes", h.HashVolume(h.ctx, known.of(bad)), "other bytes than the image")
	if known[ref].SHA256 != sum {
		t.Error("the computed checksum is not reported")
	}

	// The host detects a write even if the modification time was reset. The checksum is then unknown until the file is
	// hashed again.
	h.h.Touch(t, p, img.Name)
	if v := h.reported(known, p, img.Name); v.SHA256 != "" || v.Altered {
		t.Errorf("after a write, the volume is reported as %+v", v)
	}
	h.must("hash once more", h.HashVolume(h.ctx, known.of(h.volumeJob(p, img.Name, fleet.VolumeParams{}))))
	if v := h.reported(known, p, img.Name); v.SHA256 != known[ref].SHA256 || v.SHA256 == "" {
		t.Errorf("after the second hash, the volume is reported as %+v", v)
	}
	h.h.AddImage(t, p, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	h.refused("verify a volume with a backing file", h.HashVolume(h.ctx, known.of(h.volumeJob(p, "layer.qcow2", fleet.VolumeParams{}))), "refers to")
	h.refused("hash a missing volume", h.HashVolume(h.ctx, known.of(h.volumeJob(p, "nothing.qcow2", fleet.VolumeParams{}))), "nothing.qcow2")
	h.refused("hash an invalid name", h.HashVolume(h.ctx, known.of(h.volumeJob(p, "../golden.qcow2", fleet.VolumeParams{}))), "not a valid volume name")

	// A file that replaces the volume's file is another file, and its checksum is unknown.
	h.h.DeleteVolume(t, p, img.Name)
	h.h.AddImage(t, p, Image{Name: img.Name, Kind: Qcow2, SizeBytes: 8 << 20})
	if v := h.reported(known, p, img.Name); v.SHA256 != "" || !v.Altered {
		t.Errorf("after a replacement, the volume is reported as %+v", v)
	}
	vm := h.runningVM(disk(p))
	h.refused("hash a disk of a running guest", h.HashVolume(h.ctx, known.of(h.volumeJob(p, vm.Spec.Disks[0].Volume, fleet.VolumeParams{}))), vm.Name)
}

func testCopyVolume(t *testing.T, h *host) {
	from, to, known := h.pool(), h.pool(), sums{}
	for _, kind := range []ImageKind{Qcow2, Raw, ISO} {
		name := "golden-" + string(kind)
		if kind == ISO {
			name = "tools.iso"
		}
		h.h.AddImage(t, from, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		w := known.of(h.volumeJob(to, "copy-"+name, fleet.VolumeParams{Source: name, SourcePool: from.ID}))
		h.refused("copy without the pool", h.CopyVolume(h.ctx, w), "names no pool")
		w.Source = &from
		made := ""
		w.RecordFile = func(file string) error { made = file; return nil }
		bad := w
		bad.Order.Checksum = "sha256:" + strings.Repeat("0", 64)
		h.refused("copy other bytes", h.CopyVolume(h.ctx, bad), "other bytes")
		if _, ok := h.volume(to, "copy-"+name); ok {
			t.Error("a refused copy left a volume")
		}
		h.must("copy "+name, h.CopyVolume(h.ctx, w))
		source, own := h.reported(known, from, name), h.reported(known, to, "copy-"+name)
		if source.SHA256 == "" || source.SHA256 != own.SHA256 || own.Format != source.Format || own.CapacityBytes != source.CapacityBytes {
			t.Errorf("the copy is %+v of %+v", own, source)
		}
		if sum := volumeSum(t, to, "copy-"+name); sum != "" && sum != own.SHA256 {
			t.Errorf("%s has the checksum %s, and is reported to have %s", name, sum, own.SHA256)
		}
		w.RecordedFile, w.Order.Checksum = made, "sha256:"+own.SHA256
		h.must("copy again", h.CopyVolume(h.ctx, w))
		w.RecordedFile = ""
		h.refused("copy to the name of an existing volume", h.CopyVolume(h.ctx, w), "has a volume named")
	}
	h.h.AddImage(t, from, Image{Name: "layer.qcow2", Kind: Qcow2Backing, SizeBytes: 4 << 20})
	w := known.of(h.volumeJob(to, "layer.qcow2", fleet.VolumeParams{Source: "layer.qcow2", SourcePool: from.ID}))
	w.Source = &from
	h.refused("copy a volume with a backing file", h.CopyVolume(h.ctx, w), "refers to")
	w.Order.Flatten = true
	h.refused("flatten a volume backed by a file of the host", h.CopyVolume(h.ctx, w), "not a file of the pool")
	vm := h.runningVM(disk(from))
	w = known.of(h.volumeJob(to, "running.qcow2", fleet.VolumeParams{Source: vm.Spec.Disks[0].Volume, SourcePool: from.ID, Flatten: true}))
	w.Source = &from
	h.refused("create an image from a running guest", h.CopyVolume(h.ctx, w), vm.Name)
}

func testOverlay(t *testing.T, h *host) {
	p, other, known := h.pool(), h.pool(), sums{}
	for _, kind := range []ImageKind{Qcow2, Raw} {
		name := "base-" + string(kind)
		h.h.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 4 << 20})
		h.must("hash", h.HashVolume(h.ctx, known.of(h.volumeJob(p, name, fleet.VolumeParams{}))))
		over := func(in fleet.Pool, size int64) fleet.Disk {
			d := disk(in)
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
			v := h.reported(known, p, c.vm.Spec.Disks[0].Volume)
			if filepath.Base(v.Backing) != name || v.CapacityBytes != c.size || !slices.Equal(v.UsedBy, []fleet.VMID{c.vm.ID}) || len(v.BackingUsers) != 0 {
				t.Errorf("the overlay is %+v", v)
			}
		}
		base := h.reported(known, p, name)
		want := []fleet.VMID{first.ID, second.ID}
		slices.Sort(want)
		if !slices.Equal(base.UsedBy, want) || !slices.Equal(base.BackingUsers, want) || len(base.BaseOf) != 2 || base.SHA256 == "" || base.Altered {
			t.Errorf("the shared backing file is %+v", base)
		}
		// The next disks are another overlay, a full copy, and a copy in another pool, while a guest uses the image.
		full := over(p, 0)
		full.Overlay = false
		third := h.definedVM(full)
		if v := h.reported(known, p, third.Spec.Disks[0].Volume); v.Backing != "" || v.CapacityBytes != 4<<20 {
			t.Errorf("the full copy is %+v", v)
		}
		w := known.of(h.volumeJob(other, name, fleet.VolumeParams{Source: name, SourcePool: p.ID, Checksum: "sha256:" + base.SHA256}))
		w.Source = &p
		h.must("copy the image", h.CopyVolume(h.ctx, w))
		// A volume that is not in the library may be the disk of a VM.
		plain := full
		plain.Volume, plain.VersionID = name+"-plain.qcow2", ""
		h.refused("clone a volume that backs others and is not in the library", h.ApplyVM(h.ctx, h.applyJob(h.newVM(plain))), "disk of a VM")
		h.refused("an overlay in another pool", h.ApplyVM(h.ctx, h.applyJob(h.newVM(over(other, 0)))), "not in the disk's pool")
		h.refused("too small an overlay", h.ApplyVM(h.ctx, h.applyJob(h.newVM(over(p, 1<<20)))), "at least")
		h.refused("delete the base", h.DeleteVolume(h.ctx, h.volumeJob(p, name, fleet.VolumeParams{})), "")

		// An image of the disk of a stopped VM is self-contained.
		h.must("stop", h.StopVM(h.ctx, first.ID))
		w = known.of(h.volumeJob(other, "flat-"+name+".qcow2", fleet.VolumeParams{Source: first.Spec.Disks[0].Volume, SourcePool: p.ID, Flatten: true}))
		w.Source = &p
		h.must("make an image of the disk", h.CopyVolume(h.ctx, w))
		if v := h.reported(known, other, w.Name); v.Backing != "" || v.Format != "qcow2" || v.CapacityBytes != 4<<20 || len(v.SHA256) != 64 {
			t.Errorf("the image of the disk is %+v", v)
		}
		h.must("delete one with its disk", h.DeleteVM(h.ctx, first, h.pools, true))
		h.must("delete the other with its disk", h.DeleteVM(h.ctx, second, h.pools, true))
		if v := h.reported(known, p, name); v.SHA256 != base.SHA256 || len(v.UsedBy) != 0 || len(v.BaseOf) != 0 {
			t.Errorf("after the deletion of its overlays, the image is %+v", v)
		}
	}
}
