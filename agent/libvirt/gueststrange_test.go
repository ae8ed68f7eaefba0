//go:build linux && ordeal

package libvirt_test

import (
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// An agent in a guest that hangs is silent, and holds up neither looks at the host nor the guest's own end.
func TestAnAgentThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.ok(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	vm := f.vm()
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
	f.apply(vm)
	f.ok(f.StartVM(t.Context(), vm.ID))
	is := func(want fleet.GuestAgent) func() bool {
		return func() bool {
			_, err := f.Snapshot(t.Context(), agent.Assigned{Pools: []fleet.Pool{f.pool}}) // which has a limit of its own
			f.ok(err)
			s, _, err := f.VM(t.Context(), vm.ID)
			f.ok(err)
			return s.Guest != nil && s.Guest.Agent == want
		}
	}
	waitFor(t, "the guest's agent answers", is(fleet.AgentAnswers))
	inGuest(t, vm.ID, "(sleep 3; kill -STOP $(pidof qemu-ga)) >/dev/null 2>&1 &")
	waitFor(t, "it is told as silent", is(fleet.AgentNotResponding))
	if err := f.FreezeGuest(t.Context(), vm.ID); err == nil || !strings.Contains(err.Error(), "qemu-guest-agent") {
		t.Errorf("freezing a guest whose agent hangs: %v", err)
	}
	f.ok(f.StopVM(t.Context(), vm.ID))
}
