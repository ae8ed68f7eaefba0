package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// runGuestProgram runs a program in the guest if the VM's policy on this host allows it. The program's arguments may be
// secrets: jobs and the journal do not contain them, and the agent fetches them just before the run.
func runGuestProgram(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Guest == nil {
		return errors.New("the portal sent this job without its program")
	}
	got, err := a.client.GuestSecret(ctx, j.ID)
	if err != nil {
		if e, ok := errors.AsType[*wire.Error](err); ok {
			return fmt.Errorf("the program's arguments cannot be fetched: %s", e.Detail)
		}
		return fmt.Errorf("the program was not run, because its arguments cannot be fetched: %w", err)
	}
	var program fleet.GuestProgram
	if json.Unmarshal([]byte(got.Secret), &program) != nil || program.Program != j.Args.Guest.Program {
		return errors.New("the program was not run, because the portal sent the arguments of another program")
	}
	a.secrets.add(program.Args...)
	var checks fleet.Checks
	seconds := j.Args.Guest.Seconds
	fleet.CheckExecTimeout(&checks, "seconds", seconds)
	if fleet.CheckGuestProgram(&checks, "program", "args", program); checks.Err() != nil {
		return checks.Err()
	}
	status, err := a.vmStatus(ctx, j.VM.ID)
	if err != nil {
		return err
	}
	if !status.Policy.GuestExec {
		return hypervisor.RefuseGuestProgram()
	}
	j.notifier.notify(0, "The guest runs "+wire.SanitizeLine(program.Program, fleet.MaxGuestText))
	within, cancel := context.WithTimeout(ctx, time.Duration(seconds)*a.timing.healthCheckSecond)
	defer cancel()
	out, err := a.hypervisor.RunInGuest(within, j.VM.ID, program)
	if err != nil {
		if errors.Is(err, hypervisor.ErrOutcomeUnknown) && within.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("%w: the program had not ended after %d seconds. The guest agent cannot end it, so the program may still run", hypervisor.ErrOutcomeUnknown, seconds)
		}
		return err
	}
	j.output = &out
	return hypervisor.GuestProgramError(out)
}

// addProgramOutput adds the program's output to the job's result. It adds no status, because a program in a guest does
// not change its VM.
func addProgramOutput(_ context.Context, _ *Agent, j *job, out *wire.Finish) { out.Output = j.output }
