package vm

import "quantix/internal/fleet"

// encryptionText describes how the VM's memory is encrypted; empty: not encrypted.
func encryptionText(vm fleet.VMView) string {
	kind := vm.Spec.Security.Confidential
	if l := launchMeasurement(vm); l != nil {
		kind = l.Kind
	}
	if kind == "" {
		return ""
	}
	return fleet.FormInput{Options: fleet.ConfidentialKinds}.ValueText(kind)
}

// launchMeasurement is the launch measurement of the running guest; nil if it is not known.
func launchMeasurement(vm fleet.VMView) *fleet.LaunchInfo {
	if vm.Status == nil || !vm.HasGuest() || vm.Phase == fleet.PhaseUnknown {
		return nil
	}
	return vm.Status.Launch
}

// whyNoLaunchMeasurement is the reason why there is no launch measurement.
func whyNoLaunchMeasurement(vm fleet.VMView) string {
	switch {
	case vm.Phase == fleet.PhaseUnknown:
		return "Unknown: the host is offline."
	case vm.HasGuest():
		return "The host reports no measurement: the guest was started before this setting, or libvirt did not answer."
	}
	return "The VM is off. The processor measures the guest at its start."
}
