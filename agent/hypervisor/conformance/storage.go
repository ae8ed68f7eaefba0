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

func testCloneImage(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, kind := range []ImageKind{Qcow2, Raw} {
		img := Image{Name: "golden-" + string(kind), Kind: kind, SizeBytes: 4 << 20}
		h.harness.AddImage(t, p, img)
		for _, c := range []struct{ ask, get int64 }{{0, 4 << 20}, {16 << 20, 16 << 20}} {
			d := newDisk(p)
			d.SizeBytes, d.Image = c.ask, &fleet.Volref{PoolID: p.ID, Volume: img.Name}
			vm := h.newVM(d)
			var told progressRecorder
			h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Progress = told.report })))
			told.check(t)
			s := h.wantStatus(vm.ID, 1)
			if len(s.Disks) != 1 || s.Disks[0].SizeBytes != c.get {
				t.Errorf("image format %s, requested size %d: the VM's disks are %+v", kind, c.ask, s.Disks)
			}
			if v, ok := h.reportedVolume(p, d.Volume); !ok || v.Format != "qcow2" || v.Backing != "" || v.CapacityBytes != c.get {
				t.Errorf("image format %s, requested size %d: the disk's volume is %+v", kind, c.ask, v)
			}
			h.requireNoError("delete with disks", h.DeleteVM(h.ctx, vm, h.pools, true))
		}
		if _, ok := h.reportedVolume(p, img.Name); !ok {
			t.Error("the image was deleted with its clone")
		}
	}
}

func testImagePoolMissing(t *testing.T, h *testHost) {
	p, library := h.newPool(), h.newPool()
	h.harness.AddImage(t, library, Image{Name: "golden", Kind: Qcow2, SizeBytes: 4 << 20})
	d := newDisk(p)
	d.SizeBytes, d.Image = 0, &fleet.Volref{PoolID: library.ID, Volume: "golden"}
	vm := h.newVM(d)
	h.apply(vm)
	vm.Generation = 2
	h.requireNoError("apply without the image's pool", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Pools = []fleet.Pool{p} })))
	h.wantStatus(vm.ID, 2)
	vm = h.newVM(d)
	vm.Spec.Disks[0].Volume = "other-" + d.Volume
	h.requireRefusal("clone without the image's pool", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Pools = []fleet.Pool{p} })), "pool")
}

// progressRecorder records a backend's progress reports, which may come from several goroutines.
type progressRecorder struct {
	mu       sync.Mutex
	percents []int
}

func (p *progressRecorder) report(percent int, note string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.percents = append(p.percents, percent)
}

func (p *progressRecorder) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.percents) == 0 || !slices.IsSorted(p.percents) || p.percents[0] < 0 || slices.Max(p.percents) > 100 {
		t.Errorf("the progress reports are %v, want ascending percentages up to 100", p.percents)
	}
}

func testUnsafeImages(t *testing.T, h *testHost) {
	p := h.newPool()
	for _, kind := range []ImageKind{Qcow2Backing, Qcow2Data} {
		img := Image{Name: "bad-" + string(kind), Kind: kind, SizeBytes: 4 << 20}
		h.harness.AddImage(t, p, img)
		d := newDisk(p)
		d.Image = &fleet.Volref{PoolID: p.ID, Volume: img.Name}
		vm := h.newVM(d)
		h.requireRefusal("clone "+img.Name, h.ApplyVM(h.ctx, h.applyJob(vm)), img.Name)
		h.wantPower(vm.ID, fleet.Absent)
		for _, v := range h.poolStatus(p).Volumes {
			if strings.HasPrefix(v.Name, d.Volume) {
				t.Errorf("the refused clone left the volume %s", v.Name)
			}
		}
	}
	d := newDisk(p)
	d.Image = &fleet.Volref{PoolID: p.ID, Volume: "no-such-image"}
	h.requireRefusal("clone a missing volume", h.ApplyVM(h.ctx, h.applyJob(h.newVM(d))), "no-such-image")
}

func testDiskInUse(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	second := h.newVM(vm.Spec.Disks...)
	for act, err := range map[string]error{
		"give one disk to two VMs": h.ApplyVM(h.ctx, h.applyJob(second)), "delete a disk of another VM": h.DeleteVM(h.ctx, second, h.pools, true),
	} {
		h.requireRefusal(act, err, "in use by another VM")
		h.requireNoNameOf(act, err, vm)
	}
	if _, ok := h.reportedVolume(p, vm.Spec.Disks[0].Volume); !ok {
		t.Error("the disk was deleted")
	}
	h.requireNoError("delete the owner", h.DeleteVM(h.ctx, vm, h.pools, true))
}

func testUnmanagedVM(t *testing.T, h *testHost) {
	foreign := uniqueName("foreign")
	id := h.harness.DefineUnmanagedVM(t, foreign)
	state := h.hostState()
	f, ok := find(state.Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == id })
	if !ok || f.Name != foreign || f.Status.Power != fleet.Running || f.Status.CPUs == 0 || f.Status.MemoryMiB == 0 {
		t.Errorf("the discovered domain is %+v, want it running, with its name, vCPUs and memory", f)
	}
	if _, ok := find(state.VMs, func(r wire.VMReport) bool { return r.ID == id }); ok {
		t.Error("an unmanaged domain is listed as a VM of Quantix")
	}

	sameID := h.newVM()
	sameID.ID = id
	h.requireRefusal("apply to the unmanaged domain", h.ApplyVM(h.ctx, h.applyJob(sameID)), "not created by Quantix")
	h.requireRefusal("delete the unmanaged domain", h.DeleteVM(h.ctx, sameID, nil, true), "not created by Quantix")
	h.requireRefusal("stop the unmanaged domain", h.StopVM(h.ctx, id), "not created by Quantix")
	h.requireRefusal("pause the unmanaged domain", h.PauseVM(h.ctx, id), "not created by Quantix")
	h.requireRefusal("reset the unmanaged domain", h.ResetVM(h.ctx, id), "not created by Quantix")
	if got := h.harness.PowerOf(t, id); got != fleet.Running {
		t.Errorf("the unmanaged domain has the power state %q, want it running", got)
	}
}

func testPool(t *testing.T, h *testHost) {
	p := h.newPool()
	h.requireNoError("apply again", h.ApplyPool(h.ctx, p))
	s := h.poolStatus(p)
	if s.State != fleet.PoolActive || s.CapacityBytes <= 0 || s.AvailableBytes <= 0 || s.MountPath != p.Spec.Path || s.Error != "" {
		t.Errorf("the pool's status is %+v, want it active, with its size and no error", s)
	}
	h.harness.AddImage(t, p, Image{Name: "kept.img", Kind: Raw, SizeBytes: 1 << 20})
	named := func(f fleet.DiscoveredPool) bool { return f.Name == p.Name }
	if s := h.hostState(); !slices.ContainsFunc(s.Host.DiscoveredPools, named) || len(s.Pools) != 0 {
		t.Errorf("unassigned pool: discovered pools are %+v, assigned pools %+v", s.Host.DiscoveredPools, s.Pools)
	}
	if s := h.hostState(p); slices.ContainsFunc(s.Host.DiscoveredPools, named) {
		t.Errorf("the assigned pool is among the discovered pools %+v", s.Host.DiscoveredPools)
	}
	for range 2 {
		h.requireNoError("release", h.ReleasePool(h.ctx, p))
	}
	if s := h.poolStatus(p); s.State != fleet.PoolInactive || s.Error == "" || len(s.Volumes) != 0 {
		t.Errorf("the status of an assigned pool that the host does not have is %+v, want an error", s)
	}
	h.requireNoError("apply once more", h.ApplyPool(h.ctx, p))
	if v, ok := h.reportedVolume(p, "kept.img"); !ok || v.Format != "raw" || v.CapacityBytes != 1<<20 || v.Path != p.Spec.Path+"/kept.img" {
		t.Errorf("after the release and another apply, the volume is %+v, want it unchanged", v)
	}
}

func testPoolInUse(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	h.requireRefusal("release a pool in use", h.ReleasePool(h.ctx, p), vm.Name)
	if s := h.poolStatus(p); s.State != fleet.PoolActive {
		t.Errorf("after the refused release, the pool's status is %+v, want it active", s)
	}
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	h.requireNoError("release", h.ReleasePool(h.ctx, p))
}

func testPoolNameTaken(t *testing.T, h *testHost) {
	p := h.newPool()
	other := p
	other.ID, other.Spec.Path = fleet.NewID[fleet.PoolID](), h.harness.PoolPath(t)
	h.requireRefusal("apply another source", h.ApplyPool(h.ctx, other), p.Spec.Path)
	h.requireNoError("release a pool that was never created", h.ReleasePool(h.ctx, other))
	if s := h.poolStatus(p); s.State != fleet.PoolActive || s.MountPath != p.Spec.Path {
		t.Errorf("the first pool's status is %+v, want it active at its path", s)
	}
}

func testFailingPool(t *testing.T, h *testHost) {
	spec, words := h.harness.FailingPool(t)
	p := fleet.Pool{ID: fleet.NewID[fleet.PoolID](), Name: uniqueName("bad"), Generation: 1, Spec: spec}
	h.cleanup("release", h.releaseFunc(p))
	for range 2 {
		h.requireRefusal("apply", h.ApplyPool(h.ctx, p), words)
		if s := h.poolStatus(p); s.State != fleet.PoolFailed || !strings.Contains(s.Error, words) {
			t.Errorf("the pool's status is %+v, want a failure with %q", s, words)
		}
	}
	if s := h.hostState(p); !s.Host.Connected || s.Host.Error != "" {
		t.Errorf("a pool's failure changed the host's status to %+v, want it connected without an error", s.Host)
	}
}
