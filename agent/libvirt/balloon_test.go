//go:build linux && ordeal

package libvirt_test

import (
	"strings"
	"testing"

	"quantix/agent"
	"quantix/internal/fleet"
)

// A host that runs short of memory shrinks a guest's balloon down to the memory minimum, and grows the balloon again
// later. Ballooning continues after an edit of the maximum memory.
func TestBalloonShrinksToMemoryMinimumAndGrowsBack(t *testing.T) {
	t.Parallel()
	s := startDirectKernelGuest(newFixture(t)) // a Linux guest with 256 MiB and a maximum of 192 MiB
	edit := func(m fleet.VMMemory) {
		s.vm.Spec.Memory = m
		s.vm.Generation++
		s.apply(s.vm)
	}
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 192, MinMiB: 160})
	becomes := func(when string, percent int64, actual string, reported int) {
		t.Helper()
		waitFor(t, when, func() bool {
			const total = 4096 << 20
			if _, err := agent.BalanceMemory(t.Context(), s, total/100*percent, total, func(id fleet.VMID) bool { return id != s.vm.ID }); err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(virsh(t, "qemu-monitor-command", string(s.vm.ID), "--hmp", "info balloon")) == "balloon: actual="+actual
		})
		waitFor(t, when+", as the host reports", func() bool {
			status, _, err := s.VM(t.Context(), s.vm.ID)
			s.requireNoError(err)
			if len(status.Drift)+len(status.NextBoot) > 0 {
				t.Fatalf("%s: drift %+v, next boot %q", when, status.Drift, status.NextBoot)
			}
			return status.BalloonMiB == reported
		})
	}
	becomes("the guest has its maximum memory", 50, "192", 0)
	becomes("the guest is at its memory minimum", 5, "160", 160)
	becomes("the guest stays at its minimum between the thresholds", 15, "160", 160)
	becomes("the guest has its maximum memory again", 50, "192", 0)
	becomes("the guest is at its memory minimum again", 5, "160", 160)
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 224, MinMiB: 176})
	becomes("the guest is at its new memory minimum", 5, "176", 176)
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 224})
	becomes("without a memory minimum the guest has its maximum", 5, "224", 0)
}
