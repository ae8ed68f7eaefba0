//go:build linux && ordeal

package libvirt_test

import (
	"strings"
	"testing"

	"quantix/agent"
	"quantix/internal/fleet"
)

// A running guest gives memory back while its host is short of it, down to its memory minimum, and gets it back later.
// An edit of its maximum meanwhile changes nothing about that.
func TestBalloonShrinksToMemoryMinimumAndGrowsBack(t *testing.T) {
	t.Parallel()
	s := startDirect(newFixture(t)) // a Linux guest with 256 MiB and a maximum of 192 MiB
	edit := func(m fleet.VMMemory) {
		s.vm.Spec.Memory = m
		s.vm.Generation++
		s.apply(s.vm)
	}
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 192, MinMiB: 160})
	becomes := func(when string, percent int64, actual string, told int) {
		t.Helper()
		waitFor(t, when, func() bool {
			const total = 4096 << 20
			if _, err := agent.ShareMemory(t.Context(), s, total/100*percent, total, func(id fleet.VMID) bool { return id != s.vm.ID }); err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(virsh(t, "qemu-monitor-command", string(s.vm.ID), "--hmp", "info balloon")) == "balloon: actual="+actual
		})
		waitFor(t, when+", and its host reports it", func() bool {
			status, _, err := s.VM(t.Context(), s.vm.ID)
			s.ok(err)
			if len(status.Drift)+len(status.NextBoot) > 0 {
				t.Fatalf("%s: drift %+v, next boot %q", when, status.Drift, status.NextBoot)
			}
			return status.BalloonMiB == told
		})
	}
	becomes("it has what it may use", 50, "192", 0)
	becomes("it is at its floor", 5, "160", 160)
	becomes("it keeps that between", 15, "160", 160)
	becomes("it has all again", 50, "192", 0)
	becomes("it is at its floor again", 5, "160", 160)
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 224, MinMiB: 176})
	becomes("it is at its new floor", 5, "176", 176)
	edit(fleet.VMMemory{Shared: true, BalloonMiB: 224})
	becomes("without a floor it has what it may use", 5, "224", 0)
}
