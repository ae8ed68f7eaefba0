package hypervisor

import (
	"context"
	"errors"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Guests reads and controls the operating systems of running VMs: through the guest agent, by health checks and by the
// memory balloon.
type Guests interface {
	// GuestReadings returns the newest changing values (load, memory, file systems) of guests with an answering guest
	// agent. VMStatus.Guest has the constant values. The backend queries guests in the background, so a guest that
	// hangs or sends too much delays nothing.
	GuestReadings(ctx context.Context) ([]GuestReading, error)

	// The following commands go to the guest agent and end with ctx. They refuse a guest that is off or paused, and a
	// guest whose agent does not answer.

	// FreezeGuest stops all writes to the guest's file systems until ThawGuest. It refuses a guest without file systems
	// that can be frozen, and does nothing if the file systems are already frozen.
	FreezeGuest(ctx context.Context, id fleet.VMID) error
	ThawGuest(ctx context.Context, id fleet.VMID) error // no-op if not frozen or off
	// SetGuestPassword sets the password of a user in the guest. No error contains the password.
	SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error
	SyncGuestTime(ctx context.Context, id fleet.VMID) error // sets the guest's clock to the host's
	// returns unused blocks of the guest's file systems to the storage
	TrimGuest(ctx context.Context, id fleet.VMID) error
	// RunInGuest runs a program once through the guest agent and waits within ctx for the end of the program, whatever
	// the exit code. ErrOutcomeUnknown means that the program may have run, with an unknown result.
	RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (fleet.GuestOutput, error)

	// CheckGuest runs one health check of a running guest, within ctx. check has its defaults filled in. Network checks
	// go only to addresses of the VM's own NICs that the host knows from its own DHCP lease or has seen at the NIC;
	// addresses that only the guest reports are not trusted. An error means that the guest fails the check, except
	// CannotCheckGuestError and ErrUnreachable. The program of an exec check starts only after the previous one has ended.
	CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (HealthCheckResult, error)

	// Balloons lists the running guests with a memory minimum, and their current memory. SetBalloon requests that such
	// a guest shrinks or grows to mib MiB. SetBalloon does not wait for the guest and does not change the definition.
	// SetBalloon never requests less than the guest's memory minimum, and ignores guests without a memory minimum.
	Balloons(ctx context.Context) ([]BalloonGuest, error)
	SetBalloon(ctx context.Context, id fleet.VMID, mib int) error
}

// GuestReading is a set of values from a guest agent, and the time of the agent's answer.
type GuestReading struct {
	fleet.GuestReading
	At time.Time
}

// ErrOutcomeUnknown is wrapped by errors of a program that may have run or may still be running in a guest. Such a
// program is never started again.
var ErrOutcomeUnknown = errors.New("it is unknown how the program ended")

// RefuseGuestProgram refuses to run a program in a guest whose VM's policy does not allow programs.
func RefuseGuestProgram() error {
	return fleet.Errorf(fleet.Conflict, "The VM's policy does not allow programs in the guest. Allow programs in the VM's configuration.")
}

// GuestProgramError returns the error of an ended program. It returns nil if the program succeeded.
func GuestProgramError(o fleet.GuestOutput) error {
	switch {
	case o.Signal != 0:
		return fleet.Errorf(fleet.Conflict, "The program was ended by signal %d.", o.Signal)
	case o.ExitCode != 0:
		return fleet.Errorf(fleet.Conflict, "The program ended with exit code %d.", o.ExitCode)
	}
	return nil
}

// FormatProgramOutput formats a program's output for storage and display. cut reports that the output was truncated.
func FormatProgramOutput(text []byte, cut bool) (string, bool) {
	out := wire.SanitizeLines(string(text), fleet.MaxGuestOutput)
	return out, cut || len(text) > fleet.MaxGuestOutput
}

// NoGuestAgentAnswerError refuses a command to a guest agent that does not answer.
func NoGuestAgentAnswerError() error {
	return fleet.Errorf(fleet.Conflict, "The guest agent does not answer. Install and start qemu-guest-agent in the guest, or wait until the guest is up.")
}

// NoGuestAgentChannelError refuses a command to the guest agent of a VM without an agent channel.
func NoGuestAgentChannelError() error {
	return fleet.Errorf(fleet.Conflict, "The VM has no channel for a guest agent. Switch on the guest agent in the VM's configuration, and restart the VM.")
}

// BalloonGuest is a running guest with a memory minimum, which can return memory to the host.
type BalloonGuest struct {
	ID         fleet.VMID
	CurrentMiB int // current balloon size
	MinMiB     int
	MaxMiB     int // maximum memory in the VM's spec
}
