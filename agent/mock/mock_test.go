package mock

import (
	"fmt"
	"path"
	"testing"

	"quantix/agent"
	"quantix/agent/hvtest"
	"quantix/internal/fleet"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	h := New(Options{Name: "mock-1"})
	hvtest.Run(t, hvtest.Harness{
		Open:     func(*testing.T) agent.Hypervisor { return h },
		PoolPath: func(*testing.T) string { return "/srv/" + string(fleet.NewID[fleet.PoolID]()) },
		FailingPool: func(*testing.T) (fleet.PoolSpec, string) {
			return fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/mnt/bad", Server: "refused.example", Export: "/vm", Shared: true}, "Connection refused"
		},
		BadPath:  "/var/lib/quantix",
		StopPool: func(_ *testing.T, p fleet.Pool) { h.stopPool(p) },
		Misplace: func(_ *testing.T, p fleet.Pool, how hvtest.Misplacement) func() { return h.misplace(p, how) },
		AddImage: func(_ *testing.T, p fleet.Pool, img hvtest.Image) { h.addImage(p, img) },
		Foreign:  func(_ *testing.T, name string) fleet.VMID { return h.addFound(name) },
		Power: func(_ *testing.T, id fleet.VMID) fleet.Power {
			h.mu.Lock()
			defer h.mu.Unlock()
			if g, ok := h.guests[id]; ok {
				return g.power
			}
			return fleet.Absent
		},
		PowerOff: func(t *testing.T, id fleet.VMID) {
			h.mu.Lock()
			run := h.guests[id].live
			h.mu.Unlock()
			h.powerOff(id, run)
		},
		Network: "default",
		Unplug:  func(*testing.T) func() { return h.Unplug() },
		Freeze:  func(*testing.T) func() { return h.Freeze() },
	})
}

func (h *Host) stopPool(p fleet.Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[p.Name].stopped = true
}

func (h *Host) misplace(p fleet.Pool, how hvtest.Misplacement) (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dir := h.pools[p.Name].dir
	dir.misplaced = map[hvtest.Misplacement]*agent.Sighting{
		hvtest.Moved: {}, hvtest.Emptied: {There: true, Mount: ownMount},
		hvtest.Covered: {There: true, Mount: agent.Mount{Point: p.Spec.Path, Type: "tmpfs", Source: "tmpfs"}},
	}[how]
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		dir.misplaced = nil
	}
}

func (h *Host) addImage(p fleet.Pool, img hvtest.Image) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &file{Volume: fleet.Volume{Name: img.Name, Format: "qcow2", CapacityBytes: img.SizeBytes, AllocBytes: img.SizeBytes}}
	switch img.Kind {
	case hvtest.Raw:
		f.Format = "raw"
	case hvtest.Qcow2Backing:
		f.Backing = path.Join(p.Spec.Path, "base.img")
	case hvtest.Qcow2Data:
		f.refers = true
	}
	h.pools[p.Name].dir.files[img.Name] = f
}

func ExampleHost_Inventory() {
	a, b := inventoryOf("alpha"), inventoryOf("alpha")
	fmt.Println(a.HostUUID == b.HostUUID, a.CPU.Threads >= a.CPU.Cores)
	// Output: true true
}
