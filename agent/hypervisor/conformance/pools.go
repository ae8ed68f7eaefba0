package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func testPoolStopped(t *testing.T, h *testHost) {
	p := h.newPool()
	h.waitPool(p, "active", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive })
	h.harness.StopPool(t, p)
	stopped := func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolInactive && s.StoppedOutside && s.Error == ""
	}
	h.waitPool(p, "stopped by others", stopped)
	again := openTestHost(t, h.harness)
	if s := again.poolStatus(p); !stopped(s) {
		t.Errorf("after the agent's restart, the pool's status is %+v, want it stopped outside Quantix", s)
	}
	h.requireNoError("apply", h.ApplyPool(h.ctx, p))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || s.StoppedOutside {
		t.Errorf("after another apply, the pool's status is %+v, want it active", s)
	}
}

func testPoolEdited(t *testing.T, h *testHost) {
	p := h.newPool()
	h.waitPool(p, "active without drift", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Drift) == 0 })
	elsewhere := h.harness.PoolPath(t)
	h.harness.EditPool(t, p.Name, elsewhere)
	h.waitPool(p, "active with drift", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolActive && len(s.Drift) == 1 && s.Drift[0].Field == "path" && s.Drift[0].Applied == p.Spec.Path && s.Drift[0].Actual == elsewhere
	})
	h.requireRefusal("apply", h.ApplyPool(h.ctx, p), elsewhere)
	for range 2 {
		h.requireNoError("reapply", h.ReapplyPool(h.ctx, p))
		h.waitPool(p, "active without drift", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Drift) == 0 })
	}
	h.requireNoError("apply", h.ApplyPool(h.ctx, p))
}

// testPoolFileSystem has two directories on one file system, so that the portal counts the file system's space once.
func testPoolFileSystem(t *testing.T, h *testHost) {
	first, second := h.newPool(), h.newPool()
	var on [2]fleet.FileSystem
	for i, p := range []fleet.Pool{first, second} {
		h.waitPool(p, "reported with its file system", func(s fleet.PoolStatus) bool {
			if s.FileSystem != nil {
				on[i] = *s.FileSystem
			}
			return s.State == fleet.PoolActive && s.FileSystem != nil
		})
	}
	if on[0] != on[1] || on[0].ID == "" || on[0].Shared {
		t.Errorf("the pools' file systems are %+v and %+v, want the same local file system", on[0], on[1])
	}
}

func testPoolMisplaced(t *testing.T, h *testHost) {
	for how, words := range map[PoolDirReplacement]string{
		PoolDirMoved: "is missing. When", PoolDirEmptied: "its marker .quantix-pool is missing", PoolDirCovered: "Another file system hides",
	} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			h := openTestHost(t, h.harness)
			p := h.newPool()
			kept := h.definedVM(newDisk(p))
			back := h.harness.ReplacePoolDir(t, p, how)
			vm := h.newVM(newDisk(p))
			h.requireRefusal("create a disk", h.ApplyVM(h.ctx, h.applyJob(vm)), words)
			h.requireRefusal("apply the pool", h.ApplyPool(h.ctx, p), words)
			h.waitPool(p, "failed with a reason", func(s fleet.PoolStatus) bool {
				return s.State == fleet.PoolFailed && strings.Contains(s.Error, words) && strings.Contains(s.Error, p.Spec.Path) && len(s.Volumes) == 0
			})
			again := openTestHost(t, h.harness)
			if s := again.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, words) {
				t.Errorf("after the agent's restart, the pool's status is %+v, want the same failure", s)
			}
			back()
			healed := func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Volumes) == 1 }
			h.waitPool(p, "active without a job", healed)
			if _, ok := h.reportedVolume(p, kept.Spec.Disks[0].Volume); !ok {
				t.Error("the disk was not created")
			}
			h.apply(vm)
		})
	}
}

func testPoolMarker(t *testing.T, h *testHost) {
	p := h.newPool()
	other := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("other"), Generation: 1, Spec: p.Spec}
	h.cleanup("release", h.releaseFunc(other))
	h.requireRefusal("apply another pool on the pool's directory", h.ApplyPool(h.ctx, other), string(p.ID))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || len(s.Volumes) != 0 {
		t.Errorf("the first pool's status is %+v, want it active and empty", s)
	}
	h.requireNoError("release the first", h.ReleasePool(h.ctx, p))
	h.requireNoError("apply the other", h.ApplyPool(h.ctx, other))
}

func testPoolOutsideRoots(t *testing.T, h *testHost) {
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("bad"), Generation: 1}
	p.Spec = fleet.PoolSpec{Kind: fleet.PoolDir, Path: h.harness.ForbiddenPoolPath + "/" + p.Name}
	h.cleanup("release", h.releaseFunc(p))
	h.requireRefusal("apply", h.ApplyPool(h.ctx, p), "poolRoots")
	if s := h.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, "poolRoots") {
		t.Errorf("the refused pool's status is %+v, want a failure that names poolRoots", s)
	}
}

func (h *testHost) waitPool(p fleet.Pool, what string, ok func(fleet.PoolStatus) bool) {
	h.t.Helper()
	var s fleet.PoolStatus
	h.waitUntil("the pool is "+what, func() bool { s = h.poolStatus(p); return ok(s) })
}

// testVolumeNameInvalidUTF8 creates a file in the pool's directory whose name is not text. The file is listed with a fault,
// and other files are still listed.
func testVolumeNameInvalidUTF8(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "bad\xff.img", Kind: Raw, SizeBytes: 1 << 20})
	for _, name := range []string{"first.img", "second.img"} {
		h.harness.AddImage(t, p, Image{Name: name, Kind: Raw, SizeBytes: 1 << 20})
		h.requireNoError("read again", h.ApplyPool(h.ctx, p))
		h.waitPool(p, "listed with "+name, func(s fleet.PoolStatus) bool {
			return slices.ContainsFunc(s.Volumes, func(v fleet.Volume) bool { return v.Name == name && v.Fault == "" && v.IsImage() })
		})
	}
	v, ok := h.reportedVolume(p, `bad\xff.img`)
	if !ok || v.Fault != hypervisor.InvalidVolumeNameText || v.IsImage() || v.IsPlainFile() {
		t.Errorf("the volume with an invalid name is %+v, want a fault", v)
	}
	if s := h.poolStatus(p); s.State != fleet.PoolActive || len(s.Volumes) != 3 || !strings.Contains(s.Error, `bad\xff.img`) {
		t.Errorf("the pool is %s, with %d volumes and the error %q", s.State, len(s.Volumes), s.Error)
	}
}

// testPreexistingPool uses a pre-existing pool, which must be unchanged after the release.
func testPreexistingPool(t *testing.T, h *testHost) {
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("theirs"), Generation: 1}
	p.Spec = fleet.PoolSpec{Kind: fleet.PoolDir, Path: h.harness.PoolPath(t)}
	h.harness.DefineUnmanagedPool(t, p.Name, p.Spec.Path)
	found := func() (fleet.DiscoveredPool, bool) {
		return find(h.hostState().Host.DiscoveredPools, func(f fleet.DiscoveredPool) bool { return f.Name == p.Name })
	}
	asBefore := func() bool {
		f, ok := found()
		return ok && f.Active && f.Kind == "dir" && f.Place == "at "+p.Spec.Path
	}
	h.waitUntil("the pool is discovered", asBefore)
	if f, _ := found(); f.Spec == nil || f.Spec.Kind != fleet.PoolDir || f.Spec.Path != p.Spec.Path || f.Spec.Shared || f.Refusal != "" {
		t.Errorf("the discovered pool is %+v, want the spec %+v", f, p.Spec)
	}
	definition := h.harness.PoolDefinition(t, p.Name)
	other := p
	other.ID, other.Name = fleet.NewID[fleet.PoolID](), uniqueName("other")
	h.cleanup("release", h.releaseFunc(other))
	h.requireRefusal("apply a pool with another name and the same path", h.ApplyPool(h.ctx, other), p.Name)
	h.cleanup("release", h.releaseFunc(p))
	h.requireNoError("apply", h.ApplyPool(h.ctx, p))
	h.harness.AddImage(t, p, Image{Name: "existing.img", Kind: Raw, SizeBytes: 1 << 20})
	h.requireNoError("read again", h.ApplyPool(h.ctx, p))
	h.waitPool(p, "active, with its volumes", func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolActive && s.Preexisting && slices.ContainsFunc(s.Volumes, func(v fleet.Volume) bool { return v.Name == "existing.img" })
	})
	if now := h.harness.PoolDefinition(t, p.Name); now != definition {
		t.Errorf("the assigned pool has the definition\n%s\nwant\n%s", now, definition)
	}
	for range 2 {
		p.DeletedAt = new(time.Now())
		h.requireNoError("release", h.ReleasePool(h.ctx, p))
	}
	h.waitUntil("the pool is unchanged", asBefore)
	if now := h.harness.PoolDefinition(t, p.Name); now != definition {
		t.Errorf("after the release, the pool has the definition\n%s\nwant\n%s", now, definition)
	}
}
