package vm

import (
	"strconv"

	"quantix/internal/fleet"
)

func firstAddress(vm fleet.VMView) string {
	if all := addresses(vm); len(all) > 0 {
		return all[0]
	}
	return "–"
}

// addresses of all NICs, as the guest's host knows them.
func addresses(vm fleet.VMView) []string {
	var out []string
	if vm.Status == nil {
		return nil
	}
	for _, n := range vm.Status.NICs {
		out = append(out, n.Addresses...)
	}
	return out
}

// load is how much of its vCPUs a VM uses: "37 %". Of a host that is not heard nobody knows.
func load(vm *fleet.VMView) string {
	if vm.CPUPercent == nil || vm.Spec.CPUs == 0 || vm.Phase == fleet.PhaseUnknown {
		return "–"
	}
	return strconv.FormatFloat(*vm.CPUPercent/float64(vm.Spec.CPUs), 'f', 0, 64) + " %"
}

// lastKnown is what an unknown VM was when its host was last heard.
func lastKnown(vm fleet.VMView) string {
	if vm.Phase != fleet.PhaseUnknown || vm.Status == nil {
		return ""
	}
	return "Its host is not heard. Last known: " + string(vm.Status.Power) + "."
}
