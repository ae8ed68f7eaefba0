package fleet

import "fmt"

// bmcRefusal returns why the host's power cannot be switched through a BMC; empty: it can.
func bmcRefusal(h HostView) string {
	if h.HasBMC {
		return ""
	}
	return fmt.Sprintf("%s has no BMC. Add it on the host's page.", h.Name)
}

func powerOnRefusal(h HostView) string {
	if why := bmcRefusal(h); why != "" {
		return why
	}
	if h.Phase != HostUnknown && h.Phase != HostPending {
		return fmt.Sprintf("%s is on: its agent reports.", h.Name)
	}
	return ""
}

// forcedPowerRefusal returns why the host can neither be powered off nor reset without a shutdown; empty: it can.
func forcedPowerRefusal(h HostView) string {
	switch {
	case bmcRefusal(h) != "":
		return bmcRefusal(h)
	case h.Lifecycle == LifecycleMaintenance || h.NeedsFencing():
		return ""
	case h.Lifecycle == LifecycleDraining:
		return h.Lifecycle.Refusal(HostPowerCommand, h.Name)
	}
	return fmt.Sprintf(onlyInMaintenance, h.Name)
}

// NeedsFencing reports whether a forced power-off or reset would end VMs about which the portal knows nothing: the host is
// offline.
func (h HostView) NeedsFencing() bool { return h.Phase == HostUnknown || h.Phase == HostPending }

// terminateRefusal returns why the host cannot be drained, powered off and removed; empty: it can.
func terminateRefusal(h HostView) string {
	switch h.Lifecycle {
	case LifecyclePending, LifecycleNotReady:
		return h.Lifecycle.Refusal(HostEnterMaintenance, h.Name)
	case LifecycleOffline:
		return ""
	}
	if !h.AgentSettings().HostPower && !h.HasBMC {
		return fmt.Sprintf("Quantix cannot power %s off: it has no BMC, and its agent.yaml lacks hostPower: true.", h.Name)
	}
	return ""
}

// BMCJobKind returns the kind of task that the action through a host's BMC is; empty: none.
func (a Action) BMCJobKind() JobKind {
	return map[Action]JobKind{ActPowerOn: HostPowerOn, ActForcePowerOff: HostPowerOff, ActReset: HostReset}[a]
}
