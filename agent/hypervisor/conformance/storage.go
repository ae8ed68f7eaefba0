package conformance

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func testClone(t *testing.T, h *host) {
	p := h.pool()
	for _, kind := range []ImageKind{Qcow2, Raw} {
		img := Image{Name: "golden-" + string(kind), Kind: kind, SizeBytes: 4 << 20}
		h.h.AddImage(t, p, img)
		for _, c := range []struct{ ask, get int64 }{{0, 4 << 20}, {16 << 20, 16 << 20}} {
			d := disk(p)
			d.SizeBytes, d.Image = c.ask, &fleet.Volref{PoolID: p.ID, Volume: img.Name}
			vm := h.newVM(d)
			var told progress
			h.must("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Progress = told.report })))
			told.check(t)
			s := h.status(vm.ID, 1)
			if len(s.Disks) != 1 || s.Disks[0].SizeBytes != c.get {
				t.Errorf("%s, requested %d: the disks are %+v", kind, c.ask, s.Disks)
			}
			if v, ok := h.volume(p, d.Volume); !ok || v.Format != "qcow2" || v.Backing != "" || v.CapacityBytes != c.get {
				t.Errorf("%s, requested %d: the volume is %+v", kind, c.ask, v)
			}
			h.must("delete with disks", h.DeleteVM(h.ctx, vm, h.pools, true))
		}
		if _, ok := h.volume(p, img.Name); !ok {
			t.Error("the image was deleted with its clone")
		}
	}
}

func testImagePoolGone(t *testing.T, h *host) {
	p, library := h.pool(), h.pool()
	h.h.AddImage(t, library, Image{Name: "golden", Kind: Qcow2, SizeBytes: 4 << 20})
	d := disk(p)
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: library.ID, Volume: "golden"}
	vm := h.newVM(d)
	h.apply(vm)
	vm.Generation = 2
	h.must("apply without the image's pool", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Pools = []fleet.Pool{p} })))
	h.status(vm.ID, 2)
	vm = h.newVM(d)
	vm.Spec.Disks[0].Volume = "other-" + d.Volume
	h.refused("clone without the image's pool", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Pools = []fleet.Pool{p} })), "pool")
}

// progress records a backend's progress reports, which may come from several goroutines.
type progress struct {
	mu       sync.Mutex
	percents []int
}

func (p *progress) report(percent int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.percents = append(p.percents, percent)
}

func (p *progress) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.percents) == 0 || !slices.IsSorted(p.percents) || p.percents[0] < 0 || slices.Max(p.percents) > 100 {
		t.Errorf("progress was %v", p.percents)
	}
}

func testUnsafeImages(t *testing.T, h *host) {
	p := h.pool()
	for _, kind := range []ImageKind{Qcow2Backing, Qcow2Data} {
		img := Image{Name: "bad-" + string(kind), Kind: kind, SizeBytes: 4 << 20}
		h.h.AddImage(t, p, img)
		d := disk(p)
		d.Image = &fleet.Volref{PoolID: p.ID, Volume: img.Name}
		vm := h.newVM(d)
		h.refused("clone "+img.Name, h.ApplyVM(h.ctx, h.applyJob(vm)), img.Name)
		h.wantPower(vm.ID, fleet.Absent)
		for _, v := range h.poolStatus(p).Volumes {
			if strings.HasPrefix(v.Name, d.Volume) {
				t.Errorf("the refused clone left the volume %s", v.Name)
			}
		}
	}
	d := disk(p)
	d.Image = &fleet.Volref{PoolID: p.ID, Volume: "no-such-image"}
	h.refused("clone a missing volume", h.ApplyVM(h.ctx, h.applyJob(h.newVM(d))), "no-such-image")
}

func testDiskInUse(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	second := h.newVM(vm.Spec.Disks...)
	for act, err := range map[string]error{
		"give one disk to two VMs": h.ApplyVM(h.ctx, h.applyJob(second)), "delete a disk of another VM": h.DeleteVM(h.ctx, second, h.pools, true),
	} {
		h.refused(act, err, "in use by another VM")
		h.namesNoOther(act, err, vm)
	}
	if _, ok := h.volume(p, vm.Spec.Disks[0].Volume); !ok {
		t.Error("the disk was deleted")
	}
	h.must("delete the owner", h.DeleteVM(h.ctx, vm, h.pools, true))
}

func testUnmanaged(t *testing.T, h *host) {
	foreign := name("foreign")
	id := h.h.Foreign(t, foreign)
	state := h.snapshot()
	f, ok := find(state.Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == id })
	if !ok || f.Name != foreign || f.Status.Power != fleet.Running || f.Status.CPUs == 0 || f.Status.MemoryMiB == 0 {
		t.Errorf("the discovered domain is %+v", f)
	}
	if _, ok := find(state.VMs, func(r wire.VMReport) bool { return r.ID == id }); ok {
		t.Error("an unmanaged domain is listed as a VM of Quantix")
	}

	sameID := h.newVM()
	sameID.ID = id
	h.refused("apply to the unmanaged domain", h.ApplyVM(h.ctx, h.applyJob(sameID)), "not created by Quantix")
	h.refused("delete the unmanaged domain", h.DeleteVM(h.ctx, sameID, nil, true), "not created by Quantix")
	h.refused("stop the unmanaged domain", h.StopVM(h.ctx, id), "not created by Quantix")
	h.refused("pause the unmanaged domain", h.PauseVM(h.ctx, id), "not created by Quantix")
	h.refused("reset the unmanaged domain", h.ResetVM(h.ctx, id), "not created by Quantix")
	if got := h.h.Power(t, id); got != fleet.Running {
		t.Errorf("the unmanaged domain is %q now", got)
	}
}

func testPool(t *testing.T, h *host) {
	p := h.pool()
	h.must("apply again", h.ApplyPool(h.ctx, p))
	s := h.poolStatus(p)
	if s.State != fleet.PoolActive || s.CapacityBytes <= 0 || s.AvailableBytes <= 0 || s.MountPath != p.Spec.Path || s.Error != "" {
		t.Errorf("the pool is %+v", s)
	}
	h.h.AddImage(t, p, Image{Name: "kept.img", Kind: Raw, SizeBytes: 1 << 20})
	named := func(f fleet.DiscoveredPool) bool { return f.Name == p.Name }
	if s := h.snapshot(); !slices.ContainsFunc(s.Host.DiscoveredPools, named) || len(s.Pools) != 0 {
		t.Errorf("not assigned: other pools are %+v, pools %+v", s.Host.DiscoveredPools, s.Pools)
	}
	if s := h.snapshot(p); slices.ContainsFunc(s.Host.DiscoveredPools, named) {
		t.Errorf("assigned, but among the other pools %+v", s.Host.DiscoveredPools)
	}
	for range 2 {
		h.must("release", h.ReleasePool(h.ctx, p))
	}
	if s := h.poolStatus(p); s.State != fleet.PoolInactive || s.Error == "" || len(s.Volumes) != 0 {
		t.Errorf("an assigned pool that the host does not have is %+v", s)
	}
	h.must("apply once more", h.ApplyPool(h.ctx, p))
	if v, ok := h.volume(p, "kept.img"); !ok || v.Format != "raw" || v.CapacityBytes != 1<<20 || v.Path != p.Spec.Path+"/kept.img" {
		t.Errorf("the data that must stay is %+v", v)
	}
}

func testPoolInUse(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	h.refused("release a pool in use", h.ReleasePool(h.ctx, p), vm.Name)
	if s := h.poolStatus(p); s.State != fleet.PoolActive {
		t.Errorf("the refused pool is %+v", s)
	}
	h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.must("release", h.ReleasePool(h.ctx, p))
}

func testPoolClash(t *testing.T, h *host) {
	p := h.pool()
	other := p
	other.ID, other.Spec.Path = fleet.NewID[fleet.PoolID](), h.h.PoolPath(t)
	h.refused("apply another source", h.ApplyPool(h.ctx, other), p.Spec.Path)
	h.must("release a network that was never created", h.ReleasePool(h.ctx, other))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || s.MountPath != p.Spec.Path {
		t.Errorf("the first pool is %+v", s)
	}
}

func testFailingPool(t *testing.T, h *host) {
	spec, words := h.h.FailingPool(t)
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: name("bad"), Generation: 1, Spec: spec}
	h.cleanup("release", h.releaser(p))
	for range 2 {
		h.refused("apply", h.ApplyPool(h.ctx, p), words)
		if s := h.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, words) {
			t.Errorf("the pool is %+v, want it failed with %q", s, words)
		}
	}
	if s := h.snapshot(p); !s.Host.Connected || s.Host.Error != "" {
		t.Errorf("a pool's fault shows on the host: %+v", s.Host)
	}
}
