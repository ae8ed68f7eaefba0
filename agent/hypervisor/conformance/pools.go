package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

func testPoolStopped(t *testing.T, h *host) {
	p := h.pool()
	h.waitPool(p, "active", func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive })
	h.h.StopPool(t, p)
	stopped := func(s fleet.PoolStatus) bool {
		return s.State == fleet.PoolInactive && s.StoppedOutside && s.Error == ""
	}
	h.waitPool(p, "stopped by others", stopped)
	again := open(t, h.h)
	if s := again.poolStatus(p); !stopped(s) {
		t.Errorf("after the agent's restart the pool is %+v", s)
	}
	h.must("apply", h.ApplyPool(h.ctx, p))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || s.StoppedOutside {
		t.Errorf("the pool after another apply is %+v", s)
	}
}

// testPoolFileSystem has two directories on one file system, so that the portal counts the file system's space once.
func testPoolFileSystem(t *testing.T, h *host) {
	first, second := h.pool(), h.pool()
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
		t.Errorf("the pools are on %+v and %+v", on[0], on[1])
	}
}

func testPoolMisplaced(t *testing.T, h *host) {
	for how, words := range map[Misplacement]string{
		Moved: "is gone", Emptied: "its marker .quantix-pool is missing", Covered: "Another file system lies over",
	} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			h := open(t, h.h)
			p := h.pool()
			kept := h.definedVM(disk(p))
			back := h.h.Misplace(t, p, how)
			vm := h.newVM(disk(p))
			h.refused("create a disk", h.ApplyVM(h.ctx, h.applyJob(vm)), words)
			h.refused("apply the pool", h.ApplyPool(h.ctx, p), words)
			h.waitPool(p, "failed with a reason", func(s fleet.PoolStatus) bool {
				return s.State == fleet.PoolFailed && strings.Contains(s.Error, words) && strings.Contains(s.Error, p.Spec.Path) && len(s.Volumes) == 0
			})
			again := open(t, h.h)
			if s := again.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, words) {
				t.Errorf("after the agent's restart the pool is %+v", s)
			}
			back()
			healed := func(s fleet.PoolStatus) bool { return s.State == fleet.PoolActive && len(s.Volumes) == 1 }
			h.waitPool(p, "active without a job", healed)
			if _, ok := h.volume(p, kept.Spec.Disks[0].Volume); !ok {
				t.Error("the disk was not created")
			}
			h.apply(vm)
		})
	}
}

func testPoolMarker(t *testing.T, h *host) {
	p := h.pool()
	other := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: name("other"), Generation: 1, Spec: p.Spec}
	h.cleanup("release", h.releaser(other))
	h.refused("apply another pool on the pool's directory", h.ApplyPool(h.ctx, other), string(p.ID))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || len(s.Volumes) != 0 {
		t.Errorf("the first pool is %+v", s)
	}
	h.must("release the first", h.ReleasePool(h.ctx, p))
	h.must("apply the other", h.ApplyPool(h.ctx, other))
}

func testPoolRoots(t *testing.T, h *host) {
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: name("bad"), Generation: 1}
	p.Spec = fleet.PoolSpec{Kind: fleet.PoolDir, Path: h.h.BadPath + "/" + p.Name}
	h.cleanup("release", h.releaser(p))
	h.refused("apply", h.ApplyPool(h.ctx, p), "poolRoots")
	if s := h.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, "poolRoots") {
		t.Errorf("the refused pool is %+v", s)
	}
}

func (h *host) waitPool(p fleet.Pool, what string, ok func(fleet.PoolStatus) bool) {
	h.t.Helper()
	var s fleet.PoolStatus
	h.eventually("the pool is "+what, func() bool { s = h.poolStatus(p); return ok(s) })
}

// testVolumeUnnamed creates a file in the pool's directory whose name is not text. The file is listed with a fault, and
// other files are still listed.
func testVolumeUnnamed(t *testing.T, h *host) {
	p := h.pool()
	h.h.AddImage(t, p, Image{Name: "bad\xff.img", Kind: Raw, SizeBytes: 1 << 20})
	for _, name := range []string{"first.img", "second.img"} {
		h.h.AddImage(t, p, Image{Name: name, Kind: Raw, SizeBytes: 1 << 20})
		h.must("read again", h.ApplyPool(h.ctx, p))
		h.waitPool(p, "listed with "+name, func(s fleet.PoolStatus) bool {
			return slices.ContainsFunc(s.Volumes, func(v fleet.Volume) bool { return v.Name == name && v.Fault == "" && v.IsImage() })
		})
	}
	v, ok := h.volume(p, `bad\xff.img`)
	if !ok || v.Fault != hypervisor.VolumeUnnamed || v.IsImage() || v.IsPlain() {
		t.Errorf("the volume without a name is %+v", v)
	}
	if s := h.poolStatus(p); s.State != fleet.PoolActive || len(s.Volumes) != 3 || !strings.Contains(s.Error, `bad\xff.img`) {
		t.Errorf("the pool is %s with %d volumes, %q", s.State, len(s.Volumes), s.Error)
	}
}

// testPoolBefore uses a pre-existing pool, which must be unchanged after the release.
func testPoolBefore(t *testing.T, h *host) {
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: name("theirs"), Generation: 1}
	p.Spec = fleet.PoolSpec{Kind: fleet.PoolDir, Path: h.h.PoolPath(t)}
	h.h.ForeignPool(t, p.Name, p.Spec.Path)
	found := func() (fleet.DiscoveredPool, bool) {
		return find(h.snapshot().Host.DiscoveredPools, func(f fleet.DiscoveredPool) bool { return f.Name == p.Name })
	}
	asBefore := func() bool {
		f, ok := found()
		return ok && f.Active && f.Kind == "dir" && f.Place == "at "+p.Spec.Path
	}
	h.eventually("the pool is discovered", asBefore)
	other := p
	other.ID, other.Name = fleet.NewID[fleet.PoolID](), name("other")
	h.cleanup("release", h.releaser(other))
	h.refused("apply a pool with another name and the same path", h.ApplyPool(h.ctx, other), p.Name)
	h.cleanup("release", h.releaser(p))
	h.must("apply", h.ApplyPool(h.ctx, p))
	if s := h.poolStatus(p); s.State != fleet.PoolActive {
		t.Errorf("the pool is %+v", s)
	}
	for range 2 {
		p.DeletedAt = new(time.Now())
		h.must("release", h.ReleasePool(h.ctx, p))
	}
	h.eventually("the pool is unchanged", asBefore)
}
