package hypervisor

import (
	"errors"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// GuestReading is a reading of a guest and its time.
type GuestReading struct {
	fleet.GuestReading
	At time.Time
}

// ErrGoesOn is wrapped by errors of a program in a guest that may have run or may still run: it is never started again.
var ErrGoesOn = errors.New("nobody can tell how the program ended")

// NotAllowed refuses to run a program in a guest.
func NotAllowed() error {
	return fleet.Errorf(fleet.Conflict, "The VM's policy on this host allows no programs to be run in its guest. Switch that on in its configuration.")
}

// Ended returns the error of an ended program; nil: it succeeded.
func Ended(o fleet.GuestOutput) error {
	switch {
	case o.Signal != 0:
		return fleet.Errorf(fleet.Conflict, "The program was ended by signal %d.", o.Signal)
	case o.ExitCode != 0:
		return fleet.Errorf(fleet.Conflict, "The program ended with exit code %d.", o.ExitCode)
	}
	return nil
}

// GuestWords formats a program's output for storage and display. cut: the output was truncated.
func GuestWords(text []byte, cut bool) (string, bool) {
	out := wire.ShownLines(string(text), fleet.MaxGuestOutput)
	return out, cut || len(text) > fleet.MaxGuestOutput
}

// NoAgent refuses a command to a guest agent that does not answer.
func NoAgent() error {
	return fleet.Errorf(fleet.Conflict, "The guest's agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up.")
}

// NoChannel refuses a command to the guest agent of a VM without an agent channel.
func NoChannel() error {
	return fleet.Errorf(fleet.Conflict, "The VM has no channel for a guest agent. Switch it on in its configuration, and start the VM anew.")
}

// Balloon is a running guest with a memory minimum, which can return memory to its host.
type Balloon struct {
	ID     fleet.VMID
	HasMiB int // current balloon size
	MinMiB int
	MaxMiB int // maximum memory by its spec
}
