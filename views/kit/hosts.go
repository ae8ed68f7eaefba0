package kit

import "quantix/internal/fleet"

// HostChoice is a host with a box to tick.
type HostChoice struct {
	ID     fleet.HostID
	Name   string
	Phase  fleet.HostPhase
	Chosen bool
}
