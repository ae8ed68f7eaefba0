package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// FirstAddress is the first of the VM's IP addresses, or "–".
func FirstAddress(vm fleet.VMView) string {
	if all := IPAddresses(vm); len(all) > 0 {
		return all[0]
	}
	return "–"
}

// IPAddresses are the IP addresses of all NICs, as the guest's host reports them.
func IPAddresses(vm fleet.VMView) []string {
	var out []string
	if vm.Status == nil {
		return nil
	}
	for _, n := range vm.Status.NICs {
		out = append(out, n.Addresses...)
	}
	return out
}

// CPULoadText is the VM's use of its vCPUs: "37 %". The load is unknown while the host is offline.
func CPULoadText(vm *fleet.VMView) string {
	if vm.CPUPercent == nil || vm.Spec.CPUs == 0 || vm.Phase == fleet.PhaseUnknown {
		return "–"
	}
	return strconv.FormatFloat(*vm.CPUPercent/float64(vm.Spec.CPUs), 'f', 0, 64) + " %"
}

// LastReportedStateText describes the last reported state of a VM whose current state is unknown.
func LastReportedStateText(vm fleet.VMView) string {
	if vm.OffWithHost() {
		return "Off in the last report before " + kit.HostNameInText(vm.HostName) + " accepted the command to power off for maintenance."
	}
	if vm.Phase != fleet.PhaseUnknown || vm.Status == nil {
		return ""
	}
	return "Its host is offline. Last known: " + string(vm.Status.Power) + "."
}
