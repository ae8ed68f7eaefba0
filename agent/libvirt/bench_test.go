//go:build linux

package libvirt_test

import (
	"fmt"
	"testing"
	"time"

	"quantix/agent"

	"quantix/internal/fleet"
)

// BenchmarkSnapshot reads a host of 200 VMs, none of which changed.
func BenchmarkSnapshot(b *testing.B) {
	hv := openBench(b)
	for i := range 200 {
		id := fleet.NewID[fleet.VMID]()
		vm := fleet.VM{
			Meta: fleet.Meta{ID: id, Name: fmt.Sprintf("bench-%d-%s", i, id), Generation: 1},
			Spec: fleet.VMSpec{Power: fleet.Stopped, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
		}
		if err := hv.ApplyVM(b.Context(), order(vm)); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			ctx, cancel := cleanupContext()
			defer cancel()
			hv.DeleteVM(ctx, vm, nil, false)
		})
	}
	begun := time.Now()
	if _, err := hv.Snapshot(b.Context(), agent.Assigned{}); err != nil {
		b.Fatal(err)
	}
	first := time.Since(begun)
	for b.Loop() {
		if _, err := hv.Snapshot(b.Context(), agent.Assigned{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(first.Microseconds())/1000, "ms/first")
}

// BenchmarkCreateAndStart makes and starts a diskless guest; about all of it is QEMU's start.
func BenchmarkCreateAndStart(b *testing.B) {
	hv := openBench(b)
	for b.Loop() {
		id := fleet.NewID[fleet.VMID]()
		vm := fleet.VM{
			Meta: fleet.Meta{ID: id, Name: "bench-" + string(id), Generation: 1},
			Spec: fleet.VMSpec{Power: fleet.Running, CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS},
		}
		if err := hv.ApplyVM(b.Context(), order(vm)); err != nil {
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
