package host

import (
	"cmp"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// noticePhase is the phase that a notice explains. The maintenance explains why a host is offline.
func (p Page) noticePhase() fleet.HostPhase {
	if p.Host.Lifecycle == fleet.LifecycleOffline {
		return ""
	}
	return p.Host.Phase
}

// phaseExplanation explains a host phase other than online.
func phaseExplanation(h fleet.HostView) string {
	if h.Lifecycle == fleet.LifecycleOffline {
		return "In maintenance and offline, as expected."
	}
	switch h.Phase {
	case fleet.HostUnknown:
		return "Offline for more than " + kit.ShortDuration(h.SeenAt.Limit()) + ". The last report may be outdated."
	case fleet.HostDegraded:
		return cmp.Or(h.Status.Error, fleet.StaleInventoryError)
	case fleet.HostConflict:
		return h.Conflict
	case fleet.HostPending:
		return "The host has joined, but the agent has not reported yet."
	}
	return ""
}
