package mock

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// RunInGuest implements hypervisor.Guests. Each guest has the programs echo, false and sleep; sleep never ends before
// the time limit. Any other program only prints that it ran.
func (h *Host) RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (out fleet.GuestOutput, err error) {
	err = h.withGuestAgent(ctx, id, func(g *guest) error {
		if nameContains(g.name, NoExec) {
			return fleet.Errorf(fleet.Conflict, "The guest agent does not run programs: Command guest-exec has been disabled. Remove guest-exec and guest-exec-status from the list of blocked commands in the agent's configuration in the guest.")
		}
		g.programs = append(slices.Clone(g.programs), program)
		return nil
	})
	if err != nil {
		return out, err
	}
	return runProgram(ctx, program)
}

func runProgram(ctx context.Context, program fleet.GuestProgram) (out fleet.GuestOutput, err error) {
	switch path.Base(program.Program) {
	case "sleep":
		<-ctx.Done()
		return out, fmt.Errorf("%w: %w", hypervisor.ErrOutcomeUnknown, ctx.Err())
	case "false":
		out.ExitCode, out.Stderr = 1, "it is false\n"
	case "echo":
		out.Stdout = strings.Join(program.Args, " ") + "\n"
	default:
		out.Stdout = "ran " + program.Program + "\n"
	}
	out.Stdout, out.StdoutCut = hypervisor.FormatProgramOutput([]byte(out.Stdout), false)
	return out, nil
}

// BackdateStart sets the start time of the running guest one minute earlier.
func (h *Host) BackdateStart(id fleet.VMID) {
	_ = h.changeVM(id, func(g *guest) error {
		g.startedAt = g.startedAt.Add(-time.Minute)
		return nil
	})
}

// GuestPrograms returns the programs that were run in a guest, for tests.
func (h *Host) GuestPrograms(id fleet.VMID) []fleet.GuestProgram {
	g, _, err := h.guestCopy(id)
	if err != nil {
		return nil
	}
	return g.programs
}
