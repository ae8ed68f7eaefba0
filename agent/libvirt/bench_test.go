//go:build linux

package libvirt_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

// BenchmarkHostState reads a host with 200 unchanged VMs.
func BenchmarkHostState(b *testing.B) {
	hv := openBench(b)
	for i := range 200 {
		id := fleet.NewID[fleet.VMID]()
		vm := fleet.VM{
			Meta: fleet.Meta{ID: id, Name: fmt.Sprintf("bench-%d-%s", i, id), Generation: 1},
			Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
		}
		if err := hv.ApplyVM(b.Context(), applyJob(vm)); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := cleanupContext()
			defer cancel()
			hv.DeleteVM(ctx, vm, nil, false)
		})
	}
	begun := time.Now()
	if _, err := hv.HostState(b.Context(), hypervisor.Assignment{}); err != nil {
		b.Fatal(err)
	}
	first := time.Since(begun)
	for b.Loop() {
		if _, err := hv.HostState(b.Context(), hypervisor.Assignment{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(first.Microseconds())/1000, "ms/first")
}

// BenchmarkCreateAndStart creates and starts a diskless guest. Almost all of the time is QEMU's start.
func BenchmarkCreateAndStart(b *testing.B) {
	hv := openBench(b)
	for b.Loop() {
		id := fleet.NewID[fleet.VMID]()
		vm := fleet.VM{
			Meta: fleet.Meta{ID: id, Name: "bench-" + string(id), Generation: 1},
			Spec: fleet.VMSpec{Power: fleet.Running, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
		}
		if err := hv.ApplyVM(b.Context(), applyJob(vm)); err != nil {
			b.Fatal(err)
		}
		if err := hv.StartVM(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := hv.DeleteVM(b.Context(), vm, nil, false); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkOverlay creates a VM with a disk backed by an image. The time includes the checks and the definition.
func BenchmarkOverlay(b *testing.B) {
	hv := openBench(b)
	id := fleet.NewID[fleet.PoolID]()
	pool := fleet.Pool{ID: id, Name: "overlay-" + string(id[24:]), Generation: 1, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: filepath.Join(b.TempDir(), "pool")}}
	if err := hv.ApplyPool(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := hv.ReleasePool(ctx, pool); err != nil {
			b.Error(err)
		}
	})
	image := filepath.Join(pool.Spec.Path, "golden.qcow2")
	if text, err := exec.CommandContext(b.Context(), "qemu-img", "create", "-f", "qcow2", image, "4G").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	var took, bare []time.Duration
	for b.Loop() {
		id := fleet.NewID[fleet.VMID]()
		disk := fleet.Disk{
			PoolID: pool.ID, Volume: "bench-" + string(id) + ".qcow2", Image: &fleet.Volref{PoolID: pool.ID, Volume: "golden.qcow2"},
			ImageID: fleet.NewID[fleet.ImageID](), VersionID: fleet.NewID[fleet.ImageVersionID](), Overlay: true,
		}
		vm := fleet.VM{
			Meta: fleet.Meta{ID: id, Name: "bench-" + string(id), Generation: 1},
			Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS, Disks: []fleet.Disk{disk}},
		}
		in := applyJob(vm)
		in.Pools = []fleet.Pool{pool}
		begun := time.Now()
		if err := hv.ApplyVM(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begun))
		b.StopTimer()
		begun = time.Now()
		if text, err := exec.CommandContext(b.Context(), "qemu-img", "create", "-f", "qcow2", "-b", image, "-F", "qcow2", filepath.Join(b.TempDir(), "bare")).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, text)
		}
		bare = append(bare, time.Since(begun))
		if err := hv.DeleteVM(b.Context(), vm, in.Pools, true); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	p50 := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000) }
	goals.Overlay.Record(b, p50(took) <= 100*time.Millisecond, ms(p50(took)), "qemu-img alone: "+ms(p50(bare)), p50(took).Seconds()/p50(bare).Seconds())
}
