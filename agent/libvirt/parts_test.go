//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"testing"

	"quantix/internal/fleet"
)

// A TPM that is taken away keeps its state, should it come back; with the VM that goes, too.
func TestATPMLeavesNothingBehindItsVM(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	vm := f.vm()
	vm.Spec.Security.TPM = true
	state := filepath.Join("/var/lib/libvirt/swtpm", string(vm.ID))
	f.apply(vm)
	f.ok(f.StartVM(t.Context(), vm.ID))
	vm.Spec.Security.TPM = false
	f.apply(vm)
	f.ok(f.StopVM(t.Context(), vm.ID))
	if _, err := os.Stat(state); err != nil {
		t.Errorf("the TPM's state: %v", err)
	}
	f.ok(f.DeleteVM(t.Context(), vm, []fleet.Pool{f.pool}, true))
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("what is left of the TPM: %v", err)
	}
}
