package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// HostChoice is a host with a box to tick.
type HostChoice struct {
	ID     fleet.HostID
	Name   string
	Phase  fleet.HostPhase
	Lacks  []Lack
	Chosen bool
}

// Lack is what a host lacks for what it may be chosen for.
type Lack struct {
	Text string
	When templ.Attributes // of the note: data-show-when; nil: it always holds
}
