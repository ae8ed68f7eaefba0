package pool

import (
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Form is a new pool as a person typed it.
type Form struct {
	Name, Kind, Path, Server, Export, Description string
	Shared                                        bool
	Hosts                                         []HostChoice
	Errors                                        kit.Errors
}

// HostChoice is a host with a box to tick.
type HostChoice struct {
	ID     fleet.HostID
	Name   string
	Phase  fleet.HostPhase
	Chosen bool
}
