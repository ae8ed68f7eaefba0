package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// GuestRequest is a request to a guest agent.
type GuestRequest struct {
	Action   fleet.Action `json:"action" enum:"freeze,thaw,clock,trim,guestpassword,exec"`
	Seconds  int          `json:"seconds,omitempty" doc:"For freeze: the seconds after which the host thaws the guest automatically; 1 to 600, 0: 60. For exec: the seconds that the host waits for the program; 1 to 300, 0: 30"`
	User     string       `json:"user,omitempty" doc:"For guestpassword: a user of the guest"`
	Password string       `json:"password,omitempty" doc:"For guestpassword: the new password. No response, task or audit line contains it"`
	Program  string       `json:"program,omitempty" doc:"For exec: a program in the guest, which the guest agent runs without a shell"`
	Args     []string     `json:"args,omitempty" nullable:"false" doc:"For exec: the program's arguments. No response, task or audit line contains them"`
}

// jobParams returns the request as stored in its job.
func (in GuestRequest) jobParams(c *fleet.Checks) *fleet.GuestParams {
	switch in.Action {
	case fleet.ActFreeze:
		if in.Seconds == 0 {
			in.Seconds = fleet.DefaultFreeze
		}
		fleet.CheckFreezeDuration(c, "seconds", in.Seconds)
		return &fleet.GuestParams{Seconds: in.Seconds}
	case fleet.ActGuestPassword:
		fleet.CheckGuestUser(c, "user", in.User)
		fleet.CheckGuestPassword(c, "password", in.Password)
		return &fleet.GuestParams{User: in.User}
	case fleet.ActExec:
		if in.Seconds == 0 {
			in.Seconds = fleet.DefaultExec
		}
		fleet.CheckExecTimeout(c, "seconds", in.Seconds)
		fleet.CheckGuestProgram(c, "program", "args", in.publicProgram())
		return &fleet.GuestParams{Seconds: in.Seconds, Program: in.Program}
	}
	if !slices.Contains(fleet.GuestActions, in.Action) {
		c.Add("action", "The guest agent has no action %q.", string(in.Action))
	}
	return nil
}

// publicProgram returns the part of the program that everybody may see who sees the task.
func (in GuestRequest) publicProgram() fleet.GuestProgram {
	return fleet.GuestProgram{Program: in.Program, Args: in.Args}
}

// auditDetail returns the audit detail, which has no secrets.
func (in GuestRequest) auditDetail(o *fleet.GuestParams) string {
	switch {
	case in.Action == fleet.ActFreeze:
		return fmt.Sprintf("for %d s", o.Seconds)
	case in.Action == fleet.ActExec: // the arguments may be secrets
		return fmt.Sprintf("%s, arguments: %d", in.Program, len(in.Args))
	case o != nil:
		return "of " + o.User
	}
	return ""
}

// SendGuestRequest sends a request to the guest agent and returns its task without waiting for the guest. A password is
// stored encrypted in the database, and sent only to the host that runs the job.
func (c *Control) SendGuestRequest(ctx context.Context, a fleet.Actor, id fleet.VMID, in GuestRequest) (task fleet.Task, err error) {
	permission := policy.VMUse
	if in.Action.JobKind().Info().Permission == fleet.MayChangeVMs {
		permission = policy.VMChange
	}
	if err := policy.Check(a, permission, ""); err != nil {
		return task, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return task, err
	}
	var checks fleet.Checks
	order := in.jobParams(&checks)
	if err := checks.Err(); err != nil {
		return task, err
	}
	kind := in.Action.JobKind()
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, permission)
		if err != nil {
			return err
		}
		if err := checkActionAllowed(vm, in.Action); err != nil {
			return err
		}
		// Jobs of these kinds must not coalesce: the second request would replace the password or program of the first.
		if kind == fleet.VMPassword || kind == fleet.VMExec {
			open, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: fleet.SubjectVM(id), Kind: kind})
			if err != nil {
				return err
			}
			if len(open) > 0 && kind == fleet.VMExec {
				return fleet.Errorf(fleet.Conflict, "Another program is being run in this guest. Wait until it has ended, or cancel it in the VM's tasks while it waits.")
			}
			if len(open) > 0 {
				return fleet.Errorf(fleet.Conflict, "Another password is being set in this guest. Wait until that task has ended, or cancel it in the VM's tasks.")
			}
		}
		if task, err = queueVMJob(ctx, q, a, vm, kind, fleet.JobArgs{Guest: order}); err != nil {
			return err
		}
		if kind == fleet.VMPassword {
			if err := c.storeGuestSecret(ctx, q, fleet.JobID(task.ID), in.Password); err != nil {
				return err
			}
		}
		if kind == fleet.VMExec {
			if err := c.storeGuestProgram(ctx, q, task.ID, id, in, order.Seconds); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, string(kind), fleet.SubjectVM(id), vm.Name, in.auditDetail(order))
	})
	return store.RedactTask(a, task), err
}

// storeGuestSecret encrypts and stores the secret of a job.
func (c *Control) storeGuestSecret(ctx context.Context, q *db.Queries, job fleet.JobID, secret string) error {
	by := c.opts.Vault.KeyID()
	if by == "" {
		return fleet.Errorf(fleet.Conflict, "This portal has no key to encrypt secrets. Set secretsKey in the portal's settings.")
	}
	sealed, err := c.opts.Vault.Seal(guestSecretLabel(job), []byte(secret))
	if err != nil {
		return err
	}
	return q.SetGuestSecret(ctx, db.SetGuestSecretParams{JobID: job, ByKey: by, Sealed: sealed})
}

// guestSecretLabel binds an encrypted secret to one job: it cannot be decrypted for another job's row.
func guestSecretLabel(job fleet.JobID) string { return "secret of job " + string(job) }

// GuestSecret returns a job's secret to the host that runs the job. All other callers are refused.
func (c *Control) GuestSecret(ctx context.Context, a fleet.Actor, id fleet.JobID) (wire.GuestSecret, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return wire.GuestSecret{}, err
	}
	if err := store.CheckID(id, "job"); err != nil {
		return wire.GuestSecret{}, err
	}
	row, err := c.store.GuestSecretFor(ctx, db.GuestSecretForParams{JobID: id, HostID: a.HostID})
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.GuestSecret{}, fleet.Errorf(fleet.NotFound, "This task has no secret for this host. Request the action again.")
	}
	if err != nil {
		return wire.GuestSecret{}, store.UserError(err)
	}
	secret, ok := c.opts.Vault.Unseal(guestSecretLabel(id), row.Sealed)
	if !ok {
		return wire.GuestSecret{}, fleet.Errorf(fleet.Conflict, "The portal cannot decrypt this task's secret: a portal with another key (%s) encrypted it. Give all portals the same secretsKey, and request the action again.", row.ByKey)
	}
	return wire.GuestSecret{Secret: string(secret)}, nil
}

// VMGuest returns the latest values that the VM's guest agent reported, such as addresses and file systems.
func (c *Control) VMGuest(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.GuestView, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.GuestView{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.GuestView{}, err
	}
	vm, err := store.GetVM(ctx, c.store.Queries, a, id)
	if err != nil {
		return fleet.GuestView{}, err
	}
	out := fleet.GuestView{GuestReading: fleet.GuestReading{ID: id, FileSystems: []fleet.GuestFileSystem{}, Users: []fleet.GuestUser{}}}
	row, err := c.store.VMGuest(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return out, nil
	case err != nil:
		return out, store.UserError(err)
	// Ignore the guest agent's report if the guest was started after the report, or if the host has not reported the VM.
	case vm.Status == nil || vm.Status.StartedAt != nil && row.At.Before(*vm.Status.StartedAt):
		return out, nil
	}
	out.At = &row.At
	out.FileSystems, out.Users = append(out.FileSystems, row.Reading.FileSystems...), append(out.Users, row.Reading.Users...)
	out.ClockMs, out.ClockBehind = row.Reading.ClockMs, row.Reading.ClockBehind
	return out, nil
}

// storeGuestProgram stores the part of a guest program that everybody may see with its task. It also stores the
// complete program, encrypted, until the job ends.
func (c *Control) storeGuestProgram(ctx context.Context, q *db.Queries, task fleet.TaskID, vm fleet.VMID, in GuestRequest, seconds int) error {
	text, err := json.Marshal(in.publicProgram())
	if err != nil {
		return err
	}
	if err := c.storeGuestSecret(ctx, q, fleet.JobID(task), string(text)); err != nil {
		return err
	}
	run := fleet.GuestRun{Program: in.Program, Args: len(in.Args), Seconds: seconds}
	if err := q.AddGuestRun(ctx, db.AddGuestRunParams{TaskID: task, VMID: vm, Result: run}); err != nil {
		return err
	}
	return q.DropGuestRuns(ctx, db.DropGuestRunsParams{VMID: vm, Keep: fleet.MaxGuestRuns})
}

// GuestRun returns the program that the task ran in a guest, and its result. Only people who may run programs in the
// guest get the output.
func (c *Control) GuestRun(ctx context.Context, a fleet.Actor, id fleet.TaskID) (fleet.GuestRun, error) {
	none := fleet.GuestRun{}
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return none, err
	}
	if err := store.CheckID(id, "task"); err != nil {
		return none, err
	}
	task, err := store.GetTask(ctx, c.store.Queries, a, id)
	if err != nil {
		return none, err
	}
	if task.Kind != fleet.VMExec {
		return none, fleet.Errorf(fleet.NotFound, "This task runs no program in a guest.")
	}
	if err := policy.Check(a, policy.VMChange, task.ProjectID); err != nil {
		return none, err
	}
	run, err := c.store.GuestRun(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return none, fleet.Errorf(fleet.NotFound, "The output of this program is no longer stored: Quantix stores only the output of the newest %d runs of each VM.", fleet.MaxGuestRuns)
	}
	return run, store.UserError(err)
}
