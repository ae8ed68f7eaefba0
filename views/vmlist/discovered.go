package vmlist

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DiscoveredPage shows an unmanaged VM.
type DiscoveredPage struct {
	VM  fleet.DiscoveredVM
	Now time.Time
}

func (p DiscoveredPage) crumbs() []kit.Breadcrumb {
	return []kit.Breadcrumb{{Text: "Discovered", Href: "/vms?tab=found"}, {Text: p.VM.HostName, Href: views.HostPath(p.VM.HostID)}}
}
