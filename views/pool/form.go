package pool

import "quantix/views/kit"

// Form is a new pool as a person typed it.
type Form struct {
	Name, Kind, Path, Server, Export, Description string
	Shared                                        bool
	Hosts                                         []kit.HostChoice
	Errors                                        kit.Errors
}
