package guest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// maxExecAnswer limits the answer with a program's output in base64, in bytes. libvirt has the same limit for a
// string. The agent stores up to 16 MiB of each output.
const maxExecAnswer = 4 << 20

// Intervals between status queries of a program. The first ones are short, because most programs end at once.
const (
	minExecPoll = 50 * time.Millisecond
	maxExecPoll = 2 * time.Second
)

// execStatus is the agent's answer to guest-exec-status.
type execStatus struct {
	Exited  bool   `json:"exited"`
	Code    int    `json:"exitcode"`
	Signal  int    `json:"signal"`
	Out     string `json:"out-data"`
	Err     string `json:"err-data"`
	OutMore bool   `json:"out-truncated"`
	ErrMore bool   `json:"err-truncated"`
}

// RunInGuest implements hypervisor.Guests.
func (as *Agents) RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (out fleet.GuestOutput, err error) {
	err = as.withGuestAgent(ctx, id, "run a program in", func(ask agentCaller, _ Domain) error {
		pid, err := startGuestProgram(ask, program)
		if err != nil {
			return err
		}
		end, err := waitGuestProgram(ctx, ask, pid)
		if err != nil {
			return err
		}
		out = end.output()
		return nil
	})
	return out, err
}

// startGuestProgram starts a program in the guest and returns its process ID. If the agent does not answer, the program
// may have started.
func startGuestProgram(ask agentCaller, program fleet.GuestProgram) (int64, error) {
	args := program.Args
	if args == nil {
		args = []string{}
	}
	begun, err := callAgent[struct {
		PID int64 `json:"pid"`
	}](ask, guestCommandLimit, "guest-exec", map[string]any{"path": program.Program, "arg": args, "capture-output": true})
	switch {
	case isCommandUnavailable(err):
		return 0, fleet.Errorf(fleet.Conflict, "The guest agent does not run programs: %s. Remove guest-exec and guest-exec-status from the list of blocked commands in the agent's configuration in the guest.", err)
	case errors.Is(err, errNoAnswer), errors.Is(err, hypervisor.ErrUnreachable):
		return 0, fmt.Errorf("%w: the guest's agent did not answer: %w", hypervisor.ErrOutcomeUnknown, err)
	}
	return begun.PID, err
}

// waitGuestProgram polls until the program has ended. If ctx or the agent ends first, the error wraps
// hypervisor.ErrOutcomeUnknown.
func waitGuestProgram(ctx context.Context, ask agentCaller, pid int64) (execStatus, error) {
	wait := minExecPoll
	for {
		end, err := callAgentLimited[execStatus](ask, guestCommandLimit, maxExecAnswer, "guest-exec-status", map[string]any{"pid": pid})
		if err != nil {
			return end, fmt.Errorf("%w: %w", hypervisor.ErrOutcomeUnknown, err)
		}
		if end.Exited {
			return end, nil
		}
		select {
		case <-ctx.Done():
			return end, fmt.Errorf("%w: %w", hypervisor.ErrOutcomeUnknown, ctx.Err())
		case <-time.After(wait):
			wait = min(2*wait, maxExecPoll)
		}
	}
}

// output returns the program's result with its outputs decoded and shortened.
func (e execStatus) output() fleet.GuestOutput {
	out := fleet.GuestOutput{ExitCode: e.Code, Signal: e.Signal}
	// output that is not valid base64 is decoded up to the first invalid byte
	text, _ := base64.StdEncoding.DecodeString(e.Out)
	out.Stdout, out.StdoutCut = hypervisor.FormatProgramOutput(text, e.OutMore)
	text, _ = base64.StdEncoding.DecodeString(e.Err)
	out.Stderr, out.StderrCut = hypervisor.FormatProgramOutput(text, e.ErrMore)
	return out
}

// checkPrograms records the running programs of health checks, so that no check starts a second program beside a
// hanging one.
type checkPrograms struct {
	mu       sync.Mutex
	programs map[checkProgramKey]checkProgram
}

type checkProgramKey struct {
	id    fleet.VMID
	check fleet.HealthCheck
}

// checkProgram is a program in one run of a guest.
type checkProgram struct {
	run int32
	pid int64
}

// KeepProgramsOf removes the programs of all other VMs, and of earlier runs.
func (as *Agents) KeepProgramsOf(all []Domain) { as.programs.keepOnly(all) }

// keepOnly removes the programs of VMs that are not in all, and of earlier runs.
func (e *checkPrograms) keepOnly(all []Domain) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.programs) == 0 {
		return
	}
	runs := make(map[fleet.VMID]int32, len(all))
	for _, s := range all {
		if s.Live != nil {
			runs[s.ID] = s.Ref.ID
		}
	}
	for key, was := range e.programs {
		if runs[key.id] != was.run {
			delete(e.programs, key)
		}
	}
}

func (e *checkPrograms) get(key checkProgramKey) (checkProgram, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, ok := e.programs[key]
	return was, ok
}

func (e *checkPrograms) set(key checkProgramKey, run checkProgram) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.programs == nil {
		e.programs = map[checkProgramKey]checkProgram{}
	}
	e.programs[key] = run
}

func (e *checkPrograms) drop(key checkProgramKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.programs, key)
}

// runCheck runs the program of a health check. It fails if the previous run of the program has not ended.
func (e *checkPrograms) runCheck(ctx context.Context, ask agentCaller, s Domain, check fleet.HealthCheck) (hypervisor.HealthCheckResult, error) {
	key := checkProgramKey{s.ID, check}
	if was, ok := e.get(key); ok && was.run == s.Ref.ID {
		end, err := callAgentLimited[execStatus](ask, agentAnswerTimeout, maxExecAnswer, "guest-exec-status", map[string]any{"pid": was.pid})
		switch {
		case errors.Is(err, errNoAnswer):
			return hypervisor.HealthCheckResult{}, errNoAnswer
		case err == nil && !end.Exited:
			return hypervisor.HealthCheckResult{}, errors.New("the program of the previous check still runs")
		}
		e.drop(key) // the program has ended, or the agent lost it in a restart
	}
	pid, err := startGuestProgram(ask, check.GuestProgram())
	if err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	e.set(key, checkProgram{s.Ref.ID, pid})
	end, err := waitGuestProgram(ctx, ask, pid)
	if err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	e.drop(key)
	if err := hypervisor.GuestProgramError(end.output()); err != nil {
		return hypervisor.HealthCheckResult{}, err
	}
	return hypervisor.HealthCheckResult{Answer: "The program ended with exit code 0."}, nil
}
