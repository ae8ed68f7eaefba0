package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// HostChoice is a host with a checkbox.
type HostChoice struct {
	ID     fleet.HostID
	Name   string
	Phase  fleet.HostPhase
	Lacks  []Lack
	Chosen bool
}

// Lack is a missing capability of a host for the form's choice.
type Lack struct {
	Text string
	When templ.Attributes // of the note: data-show-when; nil: the note always applies
}
