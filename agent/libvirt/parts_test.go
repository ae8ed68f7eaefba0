//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"quantix/internal/fleet"
)

// A TPM that is removed from a VM keeps its state, which a new TPM gets. Deleting the VM deletes the state.
func TestVMDeleteRemovesTPMState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.newVM()
	vm.Spec.Security.TPM = true
	state := filepath.Join("/var/lib/libvirt/swtpm", string(vm.ID))
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	vm.Spec.Security.TPM = false
	f.apply(vm)
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
	if _, err := os.Stat(state); err != nil {
		t.Errorf("the TPM's state: %v", err)
	}
	f.requireNoError(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the TPM's state outlives its VM: %v", err)
	}
}

// changingCalls records the libvirt calls that change a VM, a volume or a secret, as seen by the proxy.
type changingCalls struct {
	mu  sync.Mutex
	all []string
}

func (c *changingCalls) recordCall(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
	return true
}

// takeCalls returns the calls since the last take.
func (c *changingCalls) takeCalls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.all
	c.all = nil
	return out
}

// After a restart of the agent, a start is repeated while the guest runs. A host without the CPU controller of cgroups
// refuses every call that sets shares, even to the default.
func TestRepeatedStartChangesNothingInRunningGuest(t *testing.T) {
	t.Parallel()
	through, seen := newProxy(t), &changingCalls{}
	through.changes.Store(&changeObserver{onChange: seen.recordCall})
	b := openBackendAt(t, through.socket)
	t.Cleanup(func() { b.Close() })
	f := newFixtureOn(t, b)
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("disk.qcow2")}
	vm.Spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:7a:29:01"}}
	start := func() []string {
		seen.takeCalls()
		f.apply(vm)
		f.requireNoError(f.StartVM(t.Context(), vm.ID))
		return seen.takeCalls()
	}
	start()
	if again := start(); len(again) > 0 {
		t.Errorf("the repeated start made the calls %q", again)
	}
	vm.Spec.CPU.Shares, vm.Spec.CPU.Limit = 512, 50
	vm.Generation++
	if edited := start(); !slices.Contains(edited, "before schedule vCPUs") {
		t.Errorf("an edit of shares made the calls %q", edited)
	}
	if again := start(); len(again) > 0 {
		t.Errorf("with shares, the repeated start made the calls %q", again)
	}
}
