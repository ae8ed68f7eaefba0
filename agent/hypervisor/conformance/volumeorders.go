package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

func testRenameVolume(t *testing.T, h *testHost) {
	p := h.newPool()
	rename := func(from, to string) hypervisor.VolumeWork {
		return h.newVolumeJob(p, to, fleet.VolumeParams{Source: from})
	}
	for _, format := range []string{"raw", "qcow2"} {
		h.createVolume(p, "old."+format, fleet.VolumeParams{Format: format, SizeBytes: 4 << 20})
		order, made := rename("old."+format, "new."+format), ""
		order.RecordFile = func(file string) error { made = file; return nil }
		h.requireNoError("rename", h.RenameVolume(h.ctx, order))
		h.wantVolume(p, "new."+format, format, 4<<20)
		h.wantNoVolume(p, "old."+format)
		h.requireRefusal("rename a missing volume", h.RenameVolume(h.ctx, rename("old."+format, "other")), "old."+format)
		order.RecordedFile = made
		h.requireNoError("repeat the job", h.RenameVolume(h.ctx, order))
		h.wantVolume(p, "new."+format, format, 4<<20)
	}
	h.requireRefusal("rename over an existing volume", h.RenameVolume(h.ctx, rename("new.raw", "new.qcow2")), "new.qcow2")
	h.wantVolume(p, "new.qcow2", "qcow2", 4<<20)
	h.wantVolume(p, "new.raw", "raw", 4<<20)
	for _, bad := range []string{"", "..", "../up", "a/b", ".hidden", pooldir.MarkerFile, "new.raw"} {
		for _, in := range []hypervisor.VolumeWork{rename(bad, "new.raw"), rename("new.raw", bad)} {
			if err := h.RenameVolume(h.ctx, in); err == nil {
				t.Errorf("the rename of the volume %q to %q succeeded, want an error", in.Params.Source, in.Name)
			}
		}
	}
	forgetful := rename("new.raw", "lost.raw")
	forgetful.RecordFile = func(string) error { return errors.New("state file not written") }
	h.requireRefusal("rename without a record", h.RenameVolume(h.ctx, forgetful), "state file not written")
	h.wantVolume(p, "new.raw", "raw", 4<<20)

	vm := h.newVM(newDisk(p))
	h.harness.AddImage(t, p, Image{Name: "tools.iso", Kind: ISO, SizeBytes: 1 << 20})
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "tools.iso"}
	h.apply(vm)
	for _, name := range []string{vm.Spec.Disks[0].Volume, "tools.iso"} {
		h.requireRefusal("rename the disk of a stopped VM", h.RenameVolume(h.ctx, rename(name, "taken-away")), vm.Name)
	}
	h.harness.AddOverlay(t, p, "top.qcow2", "new.qcow2")
	h.requireRefusal("rename a volume that backs another", h.RenameVolume(h.ctx, rename("new.qcow2", "base.qcow2")), "top.qcow2")
	h.requireNoError("rename a volume with a backing file", h.RenameVolume(h.ctx, rename("top.qcow2", "upper.qcow2")))
	if v, ok := h.reportedVolume(p, "upper.qcow2"); !ok || v.Backing == "" {
		t.Errorf("the renamed volume is %+v, want a backing file", v)
	}
	for _, name := range []string{"upper.qcow2", "new.qcow2", "new.raw"} {
		h.requireNoError("delete "+name, h.DeleteVolume(h.ctx, h.newVolumeJob(p, name, fleet.VolumeParams{})))
	}
}

// cancelLimit is how long a cancelled job may take to end.
const cancelLimit = time.Second

// testVolumeJobsCancelled cancels jobs at their second progress report.
func testVolumeJobsCancelled(t *testing.T, h *testHost) {
	p := h.newPool()
	const size = 512 << 20
	h.createVolume(p, "full.raw", fleet.VolumeParams{Format: "raw", SizeBytes: size, Full: true})
	for act, do := range map[string]func(context.Context, hypervisor.VolumeWork) error{"copy.raw": h.CloneVolume, "full.raw": h.WipeVolume} {
		ctx, cancel := context.WithCancelCause(h.ctx)
		in := h.newVolumeJob(p, act, fleet.VolumeParams{Source: "full.raw"})
		back := errors.New("cancelled")
		told, at := 0, time.Time{}
		in.Progress = func(int, string) {
			if told++; told == 1 {
				at = time.Now()
				cancel(back)
			}
		}
		err := do(ctx, in)
		if took := time.Since(at); err == nil || !errors.Is(err, back) && !errors.Is(err, context.Canceled) || took > cancelLimit {
			t.Errorf("the job for %s ended %v after its cancellation: %v", act, took, err)
		}
		cancel(nil)
	}
	h.wantNoVolume(p, "copy.raw")
	h.wantVolume(p, "full.raw", "raw", size)
	h.requireNoError("run another job", h.WipeVolume(h.ctx, h.newVolumeJob(p, "full.raw", fleet.VolumeParams{})))
	h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(p, "full.raw", fleet.VolumeParams{})))
}
