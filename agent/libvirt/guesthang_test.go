//go:build linux && ordeal

package libvirt_test

import (
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// A hanging guest agent is reported as not responding. It delays neither reports of the host nor the guest's stop.
func TestHangingGuestAgentDoesNotBlockHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	vm := f.newVM()
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	is := func(want fleet.GuestAgentState) func() bool {
		return func() bool {
			// HostState has its own time limit
			_, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
			f.requireNoError(err)
			s, _, err := f.VM(t.Context(), vm.ID)
			f.requireNoError(err)
			return s.Guest != nil && s.Guest.Agent == want
		}
	}
	waitFor(t, "the guest's agent answers", is(fleet.AgentAnswers))
	runInTestGuest(t, vm.ID, "(sleep 3; kill -STOP $(pidof qemu-ga)) >/dev/null 2>&1 &")
	waitFor(t, "the agent is reported as not responding", is(fleet.AgentNotResponding))
	if err := f.FreezeGuest(t.Context(), vm.ID); err == nil || !strings.Contains(err.Error(), "qemu-guest-agent") {
		t.Errorf("freezing a guest whose agent hangs: %v", err)
	}
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
}
