package agent

import (
	"time"

	"quantix/internal/fleet"
)

// GuestReading is what a guest said, and when it was asked.
type GuestReading struct {
	fleet.GuestReading
	At time.Time
}

// NoAgent is why an order to a guest's agent is not given.
func NoAgent() error {
	return fleet.Errorf(fleet.Conflict, "The guest's agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up.")
}

// NoChannel is why there is no agent to give an order to.
func NoChannel() error {
	return fleet.Errorf(fleet.Conflict, "The VM has no channel for a guest agent. Switch it on in its configuration, and start the VM anew.")
}
