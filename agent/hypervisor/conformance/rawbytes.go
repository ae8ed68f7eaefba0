package conformance

import (
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A guest writes a qcow2 header into its raw disk, with another volume as the backing file. That volume can still be
// changed and deleted, and the disk stays raw.
func testRawDiskWithQcow2Header(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, name := range []string{"image.qcow2", "other.qcow2"} {
		h.createVolume(p, name, fleet.VolumeParams{Format: "qcow2", SizeBytes: 4 << 20})
	}
	h.harness.AddImage(t, p, Image{Name: "quorum.img", Kind: Raw, SizeBytes: 4 << 20})
	h.createVolume(p, "loose.raw", fleet.VolumeParams{Format: "raw", SizeBytes: 4 << 20})
	own := newDisk(p)
	own.Format, own.SizeBytes = fleet.Raw, 4<<20
	own.Volume = own.NewVolumeName(own.Volume, fleet.PoolDir)
	quorum := fleet.Disk{PoolID: p.ID, Volume: "quorum.img", Existing: true, Shareable: true}
	vm := h.definedVM(own, quorum)
	raw := []string{own.Volume, quorum.Volume, "loose.raw"}
	for _, name := range raw {
		h.harness.WriteQcow2Header(t, p, name, "image.qcow2")
	}
	h.requireNoError("apply the pool again", h.ApplyPool(h.ctx, p))
	for _, name := range raw {
		if v, ok := h.reportedVolume(p, name); !ok || v.Format != fleet.Raw || v.Backing != "" || v.CapacityBytes != 4<<20 {
			t.Errorf("the raw volume %s is reported as %+v, want the format raw and 4 MiB", name, v)
		}
	}
	if v, _ := h.reportedVolume(p, "image.qcow2"); len(v.BaseOf)+len(v.UsedBy)+len(v.BackingUsers) > 0 {
		t.Errorf("the volume named in the raw disks' headers is reported as %+v, want no users", v)
	}
	for i, s := range h.wantStatus(vm.ID, 1).Disks {
		if s.SizeBytes != 4<<20 {
			t.Errorf("disk %d has %d bytes, want 4 MiB", i+1, s.SizeBytes)
		}
	}

	// The following jobs change the volume that the header names as its backing file.
	order := func(name string, o fleet.VolumeParams) hypervisor.VolumeWork { return h.newVolumeJob(p, name, o) }
	h.requireNoError("grow", h.GrowVolume(h.ctx, order("image.qcow2", fleet.VolumeParams{SizeBytes: 8 << 20})))
	h.requireNoError("wipe", h.WipeVolume(h.ctx, order("image.qcow2", fleet.VolumeParams{})))
	h.requireNoError("rename", h.RenameVolume(h.ctx, order("renamed.qcow2", fleet.VolumeParams{Source: "image.qcow2"})))
	h.requireNoError("rename back", h.RenameVolume(h.ctx, order("image.qcow2", fleet.VolumeParams{Source: "renamed.qcow2"})))
	h.requireNoError("delete", h.DeleteVolume(h.ctx, order("image.qcow2", fleet.VolumeParams{})))

	// The following jobs change the raw disks.
	second := h.newVM(quorum)
	h.requireNoError("share the disk", h.ApplyVM(h.ctx, h.applyJob(second)))
	h.requireNoError("grow a raw volume", h.GrowVolume(h.ctx, order("loose.raw", fleet.VolumeParams{SizeBytes: 8 << 20})))
	h.wantVolume(p, "loose.raw", fleet.Raw, 8<<20)
	h.requireNoError("clone the raw volume", h.CloneVolume(h.ctx, order("copy.raw", fleet.VolumeParams{Source: "loose.raw"})))
	h.wantVolume(p, "copy.raw", fleet.Raw, 8<<20)
	for act, err := range map[string]error{
		"clone":  h.CloneVolume(h.ctx, order("copy.qcow2", fleet.VolumeParams{Source: "loose.raw"})),
		"rename": h.RenameVolume(h.ctx, order("copy.img", fleet.VolumeParams{Source: "loose.raw"})),
	} {
		h.requireRefusal(act+" the raw volume under a name without .raw", err, "ends in .raw")
	}
	h.requireRefusal("rename a qcow2 volume to a raw name", h.RenameVolume(h.ctx, order("other.raw", fleet.VolumeParams{Source: "other.qcow2"})), "has the format qcow2")
	h.requireRefusal("create a qcow2 volume with a raw name", h.CreateVolume(h.ctx, order("made.raw", fleet.VolumeParams{Format: "qcow2", SizeBytes: 1 << 20})), "has the format qcow2")
	clone := newDisk(p)
	clone.Image, clone.SizeBytes = &fleet.Volref{PoolID: p.ID, Volume: "loose.raw"}, 0
	if err := h.ApplyVM(h.ctx, h.applyJob(h.newVM(clone))); err == nil || !strings.Contains(err.Error(), "raw disk") || strings.Contains(err.Error(), "qemu-img") {
		t.Errorf("clone a disk from a raw volume with a qcow2 header: the error is %v, want a refusal", err)
	}
	h.requireNoError("wipe the raw volume", h.WipeVolume(h.ctx, order("loose.raw", fleet.VolumeParams{})))
	h.requireNoError("rename the raw volume", h.RenameVolume(h.ctx, order("wiped.img", fleet.VolumeParams{Source: "loose.raw"})))

	// The last jobs apply and start the VM after somebody removed its definition.
	h.harness.UndefineVM(t, vm.ID)
	h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.CreatedDisks = []fleet.Volref{own.Ref()} })))
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantNoPendingChanges(vm, "started")
}
