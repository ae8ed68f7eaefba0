package vm

import (
	"testing"

	"quantix/internal/fleet"
)

func TestVMLoadIsAverageOverCurrentVCPUs(t *testing.T) {
	t.Parallel()
	vm := reportedVM(fleet.PhaseRunning)
	if got := CPULoadText(&vm); got != "37 %" {
		t.Errorf("running: %q", got)
	}
	for name, change := range map[string]func(*fleet.VMView){
		"not measured": func(vm *fleet.VMView) { vm.CPUPercent = nil },
		"no CPUs":      func(vm *fleet.VMView) { vm.Spec.CPUs = 0 },
		"offline":      func(vm *fleet.VMView) { vm.Phase = fleet.PhaseUnknown },
	} {
		vm := reportedVM(fleet.PhaseRunning)
		if change(&vm); CPULoadText(&vm) != "–" {
			t.Errorf("%s: %q", name, CPULoadText(&vm))
		}
	}
}
