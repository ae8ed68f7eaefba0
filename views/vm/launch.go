package vm

import "quantix/internal/fleet"

// encryption is how the VM's memory is encrypted, in words; empty: it is not.
func encryption(vm fleet.VMView) string {
	kind := vm.Spec.Security.Confidential
	if l := launchOf(vm); l != nil {
		kind = l.Kind
	}
	if kind == "" {
		return ""
	}
	return fleet.Input{Options: fleet.ConfidentialKinds}.Says(kind)
}

// launchOf is what was measured of the guest that is on; nil: nothing is known.
func launchOf(vm fleet.VMView) *fleet.LaunchInfo {
	if vm.Status == nil || !vm.On() || vm.Phase == fleet.PhaseUnknown {
		return nil
	}
	return vm.Status.Launch
}

// unmeasured says why there is no measurement.
func unmeasured(vm fleet.VMView) string {
	switch {
	case vm.Phase == fleet.PhaseUnknown:
		return "Not known: its host is not heard."
	case vm.On():
		return "Its host tells none: the guest runs as it was started before this was chosen, or libvirt could not be asked."
	}
	return "The VM is off. Its start is measured."
}
