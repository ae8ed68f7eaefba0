package kit

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// HostChoice is a host with a checkbox.
type HostChoice struct {
	ID                  fleet.HostID
	Name                string
	Phase               fleet.HostPhase // empty: not shown
	MissingCapabilities []MissingCapability
	Chosen              bool
}

// MissingCapability is a capability that a host lacks for the values chosen in the form.
type MissingCapability struct {
	Text string
	When templ.Attributes // of the note: data-show-when; nil: the note always applies
}
