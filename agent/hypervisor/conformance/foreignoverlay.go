package conformance

import (
	"testing"

	"quantix/internal/fleet"
)

// A disk with an overlay made outside Quantix is reported with the overlay. Deleting the VM with its disks removes all
// files; deleting the VM without its disks leaves all files.
func testUnmanagedOverlay(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, disks := range []bool{true, false} {
		vm := h.definedVM(newDisk(p), newDisk(p))
		own, over := vm.Spec.Disks[0], uniqueName("over")
		h.harness.CreateUnmanagedOverlay(t, p, vm, over)
		h.requireNoError("apply the pool again", h.ApplyPool(h.ctx, p))
		h.waitUntil("the overlay shows", func() bool {
			r, _ := h.reportedVM(vm.ID)
			s := r.Status.Snapshots
			return s != nil && len(s.Overlays) == 1 && s.Overlays[0] == fleet.Overlay{Disk: own.Ref(), File: over}
		})
		h.requireRefusal("a snapshot of Quantix", h.TakeSnapshot(h.ctx, h.snapshotJob(vm, fleet.SnapshotParams{ID: fleet.NewID[fleet.SnapshotID](), Name: "none"})), "on the host")
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, disks))
		h.requireNoError("apply the pool again", h.ApplyPool(h.ctx, p))
		for _, file := range []string{own.Volume, vm.Spec.Disks[1].Volume, over} {
			if _, there := h.reportedVolume(p, file); there == disks {
				t.Errorf("VM deleted with its disks: %v; the volume %s exists: %v", disks, file, there)
			}
		}
		if !disks {
			h.harness.DeleteVolume(t, p, over)
		}
	}
}
