package agent

import (
	"errors"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// GuestReading is what a guest said, and when it was asked.
type GuestReading struct {
	fleet.GuestReading
	At time.Time
}

// ErrGoesOn is in every error of a program in a guest that may have run, or may still run: it is never begun again.
var ErrGoesOn = errors.New("nobody can tell how the program ended")

// NotAllowed is why no program is run in a guest.
func NotAllowed() error {
	return fleet.Errorf(fleet.Conflict, "The VM's policy on this host allows no programs to be run in its guest. Switch that on in its configuration.")
}

// Ended is what is wrong with how a program ended; nil: nothing.
func Ended(o fleet.GuestOutput) error {
	switch {
	case o.Signal != 0:
		return fleet.Errorf(fleet.Conflict, "The program was ended by signal %d.", o.Signal)
	case o.ExitCode != 0:
		return fleet.Errorf(fleet.Conflict, "The program ended with exit code %d.", o.ExitCode)
	}
	return nil
}

// GuestWords are what a program wrote, as it is kept and shown. cut: it wrote more than came.
func GuestWords(text []byte, cut bool) (string, bool) {
	out := wire.ShownLines(string(text), fleet.MaxGuestOutput)
	return out, cut || len(text) > fleet.MaxGuestOutput
}

// NoAgent is why an order to a guest's agent is not given.
func NoAgent() error {
	return fleet.Errorf(fleet.Conflict, "The guest's agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up.")
}

// NoChannel is why there is no agent to give an order to.
func NoChannel() error {
	return fleet.Errorf(fleet.Conflict, "The VM has no channel for a guest agent. Switch it on in its configuration, and start the VM anew.")
}
