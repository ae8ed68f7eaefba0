package hvtest

import (
	"testing"

	"quantix/internal/fleet"
)

// A clone is a VM whose disks were copied from another's before it is made: they are taken as they are, and one that never came is not made anew.
func testCopiedDisks(t *testing.T, h *host) {
	p, other, known := h.pool(), h.pool(), sums{}
	h.h.AddImage(t, p, Image{Name: "golden.qcow2", Kind: Qcow2, SizeBytes: 4 << 20})
	h.must("hash", h.HashVolume(h.ctx, known.of(h.work(p, "golden.qcow2", fleet.VolumeOrder{}))))
	linked := disk(p)
	linked.SizeBytes, linked.Image, linked.Overlay = 0, &fleet.Volref{PoolID: p.ID, Volume: "golden.qcow2"}, true
	linked.ImageID, linked.VersionID = fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
	for _, c := range []struct {
		name string
		of   fleet.VM
	}{{"an empty disk", h.made(disk(p))}, {"a linked one", h.made(linked)}} {
		source := h.told(known, p, c.of.Spec.Disks[0].Volume)
		for _, to := range []fleet.Pool{p, other} {
			copied := disk(to)
			copied.SizeBytes = source.CapacityBytes
			clone := h.vm(copied)
			order := h.order(clone)
			order.Made = []fleet.Volref{copied.Ref()}
			h.refused("make "+c.name+" whose copy failed", h.ApplyVM(h.ctx, order), "not on")
			if _, ok := h.volume(to, copied.Volume); ok {
				t.Fatalf("%s: an empty disk was made in the place of a copy", c.name)
			}
			w := known.of(h.work(to, copied.Volume, fleet.VolumeOrder{Source: c.of.Spec.Disks[0].Volume, Flatten: true}))
			if to.ID != p.ID {
				w.Order.SourcePool, w.Source = p.ID, &p
			}
			file := ""
			w.Whole = func(made string) error { file = made; return nil }
			h.must("copy "+c.name, h.CopyVolume(h.ctx, w))
			if w.Made = file; file != "" {
				h.must("copy it once more", h.CopyVolume(h.ctx, w))
			}
			h.must("make the clone", h.ApplyVM(h.ctx, order))
			v := h.told(known, to, copied.Volume)
			if v.Backing != "" || v.CapacityBytes != source.CapacityBytes || len(v.UsedBy) != 1 || v.UsedBy[0] != clone.ID {
				t.Errorf("%s: the clone's disk is %+v", c.name, v)
			}
			h.must("start the clone", h.StartVM(h.ctx, clone.ID))
		}
		if now := h.told(known, p, c.of.Spec.Disks[0].Volume); now.Backing != source.Backing || now.CapacityBytes != source.CapacityBytes || len(now.StoodOn) != 0 {
			t.Errorf("%s: the disk that was copied is %+v, and was %+v", c.name, now, source)
		}
		h.must("start what was cloned", h.StartVM(h.ctx, c.of.ID))
	}
}
