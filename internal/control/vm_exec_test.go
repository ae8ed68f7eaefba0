package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// vmAllowingPrograms returns a VM with a guest agent that may run programs. Its host supports guest programs.
func (s *projectFixture) vmAllowingPrograms(name string) fleet.VMView {
	s.t.Helper()
	v := s.vmWithGuestAgent(name)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{policy}', '{"guestExec": true}'), status = jsonb_set(status, '{policy}', '{"guestExec": true}') WHERE id = $1`, v.ID)
	return s.getVM(v.ID)
}

func execRequest(program string, seconds int, args ...string) control.GuestRequest {
	return control.GuestRequest{Action: fleet.ActExec, Program: program, Args: args, Seconds: seconds}
}

// Invalid programs are refused at their field or with a reason, and nothing is written.
func TestInvalidGuestProgramRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, shut := s.vmAllowingPrograms("web"), s.vmWithGuestAgent("db")
	for name, c := range map[string]struct {
		in   control.GuestRequest
		says string
	}{
		"nothing":             {execRequest("", 30), "Enter a program, such as /usr/bin/systemctl."},
		"two lines":           {execRequest("ls\nrm", 30), "one line"},
		"a NUL":               {execRequest("ls\x00", 30), "one line"},
		"an escape":           {execRequest("\x1bls", 30), "one line"},
		"blanks around":       {execRequest(" ls", 30), "spaces"},
		"a path that is long": {execRequest(strings.Repeat("a", 256), 30), "one line"},
		"no text":             {execRequest("\xff", 30), "one line"},
		"too many arguments":  {execRequest("ls", 30, slices.Repeat([]string{"a"}, 65)...), "64 arguments"},
		"arguments too long":  {execRequest("ls", 30, strings.Repeat("a", 8<<10+1)), "8192 bytes"},
		"an argument's NUL":   {execRequest("ls", 30, "hush\x00"), "without NUL"},
		"an argument no text": {execRequest("ls", 30, "hush\xff"), "without NUL"},
		"for less than none":  {execRequest("ls", -1), "1 to 300"},
		"for an hour":         {execRequest("ls", 3600), "1 to 300"},
		"for ever":            {execRequest("ls", 1<<60), "1 to 300"},
	} {
		s.wantRefused(name, fleet.Invalid, c.says, s.guestRequest(chief, v.ID, c.in))
	}
	ls := execRequest("ls", 0)
	s.wantRefused("where no policy allows it", fleet.Conflict, "The VM's policy does not allow programs", s.guestRequest(chief, shut.ID, ls))
	s.wantRefused("a viewer of the VM", fleet.Forbidden, "", s.guestRequest(s.viewer, v.ID, ls))
	s.wantRefused("of another project", fleet.NotFound, "", s.guestRequest(s.blueMember, v.ID, ls))
	s.wantRefused("in a VM that is off", fleet.Conflict, "not running", s.guestRequest(chief, s.createVM("off", fleet.Stopped).ID, ls))
	s.execSQL(`UPDATE vms SET status = status - 'policy' WHERE id = $1`, v.ID)
	s.wantRefused("before the host has applied the policy", fleet.Conflict, "The host has not yet applied the policy", s.guestRequest(chief, v.ID, ls))
	if n := s.countRows("guest_runs") + s.countRows("guest_secrets"); n != 0 {
		t.Errorf("refused requests left %d rows", n)
	}
}

// Only administrators allow programs in a guest. Everyone who may change the VM can disallow them.
func TestGuestProgramsNeedAdministrator(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["policy.guestExec"]') WHERE id = $1`, v.HostID)
	edit := func(a fleet.Actor, on bool) func() error {
		return func() error {
			spec := s.getVM(v.ID).Spec
			spec.Policy.GuestExec = on
			_, _, err := s.UpdateVM(t.Context(), a, v.ID, control.UpdateVM{Spec: &spec})
			return err
		}
	}
	s.wantRefused("a member", fleet.Invalid, "Only those who may change infrastructure", edit(s.member, true))
	if err := edit(chief, true)(); err != nil || !s.getVM(v.ID).Spec.Policy.GuestExec {
		t.Errorf("allowed: %v", err)
	}
	if err := edit(s.member, false)(); err != nil || s.getVM(v.ID).Spec.Policy.GuestExec {
		t.Errorf("cancelled: %v", err)
	}
}

// Arguments are sent only to the host that runs the task, only until the task ends, and are stored nowhere in plain
// text. Only people who may run programs see the output.
func TestGuestProgramArgumentsStoredEncrypted(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	h1 := s.agentSession(s.h1)
	v := s.vmAllowingPrograms("web")
	const secret = "correct horse battery"
	order := execRequest("/usr/bin/mysql", 0, "-p", secret)
	task, err := s.SendGuestRequest(ctx, s.member, v.ID, order)
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("a second request", fleet.Conflict, "Another program", s.guestRequest(chief, v.ID, order))
	if at := s.tablesContaining(secret); at != "" {
		t.Errorf("an argument is in %s", at)
	}
	if n := s.countRows("audit WHERE action = 'vm.exec' AND name = 'web' AND detail = '/usr/bin/mysql, arguments: 2' AND actor = 'mia'"); n != 1 {
		t.Errorf("the audit has %d lines", n)
	}
	run, err := s.GuestRun(ctx, s.member, task.ID)
	if err != nil || run.Program != "/usr/bin/mysql" || run.Args != 2 || run.Seconds != fleet.DefaultExec || run.Output != nil {
		t.Errorf("the task's program is %+v, %v", run, err)
	}
	w := s.claimUntil(h1, fleet.VMExec)
	if g := w.Args.Guest; g == nil || g.Program != "/usr/bin/mysql" || g.Seconds != fleet.DefaultExec {
		t.Errorf("the host is requested %+v", w.Args)
	}
	got, err := s.GuestSecret(ctx, h1, w.ID)
	if want := `{"program":"/usr/bin/mysql","args":["-p","` + secret + `"]}`; err != nil || got.Secret != want {
		t.Errorf("the host gets %s, %v", got.Secret, err)
	}
	base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, h1.HostID)
	said := fleet.GuestOutput{ExitCode: 1, Stdout: "a\n\u202eb\x00", Stderr: strings.Repeat("é", fleet.MaxGuestOutput)}
	fin := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: base + finishSeq.Add(1), Outcome: wire.Failed, Error: "The program ended with exit code 1.", Output: &said}
	if err := wire.EnforceBounds(&fin); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Finish(ctx, h1, w.ID, fin); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("guest_secrets"); n != 0 || s.tablesContaining(secret) != "" {
		t.Errorf("%d secrets outlive their tasks", n)
	}
	run, err = s.GuestRun(ctx, s.member, task.ID)
	if err != nil || run.Output == nil || run.Output.ExitCode != 1 || run.Output.Stdout != "a\n\ufffdb\ufffd" || len(run.Output.Stderr) != fleet.MaxGuestOutput {
		t.Errorf("the stored result is %+v, %v", run.Output, err)
	}
	s.wantRefused("a viewer of the VM", fleet.Forbidden, "", func() error { _, err := s.GuestRun(ctx, s.viewer, task.ID); return err })
	s.wantRefused("of another project", fleet.NotFound, "", func() error { _, err := s.GuestRun(ctx, s.blueMember, task.ID); return err })
	if now := s.getVM(v.ID); now.Attention || now.Status.Error != "" {
		t.Errorf("the VM whose program failed is %s, %+v", now.Phase, now.Status)
	}

	// Only the newest runs of each VM are stored. If a run is cancelled while it is queued, its program is deleted.
	for range fleet.MaxGuestRuns {
		next, err := s.SendGuestRequest(ctx, s.member, v.ID, order)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.CancelTask(ctx, s.member, next.ID); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("a run that is too old", fleet.NotFound, "no longer stored", func() error { _, err := s.GuestRun(ctx, chief, task.ID); return err })
	if n, k := s.countRows("guest_runs"), s.countRows("guest_secrets"); n != fleet.MaxGuestRuns || k != 0 {
		t.Errorf("%d runs and %d secrets are kept", n, k)
	}
	if other, err := s.SendGuestRequest(ctx, s.member, v.ID, control.GuestRequest{Action: fleet.ActTrim}); err == nil {
		s.wantRefused("a task without a program", fleet.NotFound, "runs no program", func() error { _, err := s.GuestRun(ctx, chief, other.ID); return err })
	} else {
		t.Error(err)
	}
}

// setStartedAt sets the start time that the VM's host reports.
func (s *projectFixture) setStartedAt(id fleet.VMID, at time.Time) {
	s.t.Helper()
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{startedAt}', to_jsonb($2::text)) WHERE id = $1`, id, at.Format(time.RFC3339))
}

// A restart is one job. It contains the VM's start time, so that the host shuts down only that run of the VM. The VM's
// phase is Starting meanwhile.
func TestRestartJobContainsStartTimeOfCurrentRun(t *testing.T) {
	s := newTaskFixture(t)
	h1 := s.agentSession(s.h1)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a, b, off := s.createVM("a", fleet.Running), s.createVM("b", fleet.Running), s.createVM("off", fleet.Stopped)
	act := func(id fleet.VMID) func() error {
		return func() error { _, err := s.RequestPowerAction(t.Context(), s.member, id, fleet.ActRestart); return err }
	}
	s.execSQL(`UPDATE vms SET status = status - 'startedAt' WHERE id = $1`, a.ID)
	s.wantRefused("a VM without a reported start time", fleet.Conflict, "does not report since when the VM runs", act(a.ID))
	s.wantRefused("of a VM that is off", fleet.Conflict, "Only a running VM", act(off.ID))
	s.setStartedAt(a.ID, at)
	s.setStartedAt(b.ID, at)
	if err := act(a.ID)(); err != nil {
		t.Fatal(err)
	}
	if now := s.getVM(a.ID); now.RequestedPower != fleet.Running || now.Spec.Power != fleet.Running || now.Phase != fleet.PhaseStarting {
		t.Errorf("the VM is %s, with the requested power state %q", now.Phase, now.RequestedPower)
	}
	if w := s.claimUntil(h1, fleet.VMRestart); w.Args.Run == nil || !w.Args.Run.Equal(at) || w.VM.Spec.Power != fleet.Running {
		t.Errorf("the host is requested %+v", w.Args)
	}
	// Force off aborts the restart.
	if _, err := s.RequestPowerAction(t.Context(), s.member, a.ID, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(fleet.SubjectVM(a.ID)); !strings.HasSuffix(got, "vm.restart cancelled, vm.stop queued") {
		t.Errorf("its tasks are %s", got)
	}

	task, err := s.RequestPowerActions(t.Context(), s.member, fleet.ActRestart, []fleet.VMID{b.ID, off.ID})
	if err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if got := s.childStates(task.ID); got != "b queued, off failed" {
		t.Errorf("the children of the bulk restart are %s", got)
	}
	if w := s.claimUntil(h1, fleet.VMRestart); w.Subject != fleet.SubjectVM(b.ID) || w.Args.Run == nil {
		t.Errorf("the host is requested %+v", w)
	}
}

// A bulk power action follows the start order: a VM waits until the actions of the VMs before it have ended and their
// start delays have passed.
func TestBulkPowerFollowsStartOrder(t *testing.T) {
	s := newTaskFixture(t)
	policy := func(name string, power fleet.Power, p string) fleet.VMView {
		v := s.createVM(name, power)
		s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{policy}', $2::text::jsonb) WHERE id = $1`, v.ID, p)
		return v
	}
	db := policy("db", fleet.Running, `{"startOrder": 1}`)
	app := policy("app", fleet.Running, `{"startOrder": 2, "stopDelay": 600}`)
	web := policy("web", fleet.Running, `{}`)
	task, err := s.RequestPowerActions(t.Context(), s.member, fleet.ActShutdown, []fleet.VMID{db.ID, app.ID, web.ID})
	if err != nil {
		t.Fatal(err)
	}
	asked := func(when string, want ...fleet.VMView) {
		t.Helper()
		s.beginTasks()
		var names []string
		for _, v := range []fleet.VMView{db, app, web} {
			if s.countRows(fmt.Sprintf("jobs WHERE subject = '%s' AND kind IN ('vm.shutdown', 'vm.start') AND state IN ('queued', 'running')", fleet.SubjectVM(v.ID))) > 0 {
				names = append(names, v.Name)
			}
		}
		var wanted []string
		for _, v := range want {
			wanted = append(wanted, v.Name)
		}
		if !slices.Equal(names, wanted) {
			t.Errorf("%s, %v are requested, want %v", when, names, wanted)
		}
	}
	asked("at first", web)
	asked("while that goes on", web)
	s.endJob(web.ID, "failed") // whatever the result
	asked("after the first", app)
	s.endJob(app.ID, "done")
	asked("within the wait")
	s.wantTask(task.ID, fleet.JobRunning, 66, fleet.Steps{Queued: 1, Done: 1, Failed: 1})
	s.execSQL(`UPDATE tasks SET ended_at = ended_at - interval '11 minutes' WHERE parent_id = $1 AND ended_at IS NOT NULL`, task.ID)
	asked("after it", db)
	s.endJob(db.ID, "done")
	s.wantTask(task.ID, fleet.JobFailed, 100, fleet.Steps{Done: 2, Failed: 1})

	for _, v := range []fleet.VMView{db, app, web} {
		s.reportPower(v.ID, fleet.Stopped)
	}
	s.execSQL(`UPDATE vms SET generation = observed_generation WHERE id = ANY ($1)`, []string{string(db.ID), string(app.ID), string(web.ID)})
	task, err = s.RequestPowerActions(t.Context(), s.member, fleet.ActStart, []fleet.VMID{web.ID, app.ID, db.ID})
	if err != nil {
		t.Fatal(err)
	}
	asked("to start", db)
	if _, err := s.CancelTask(t.Context(), s.member, task.ID); err != nil {
		t.Fatal(err)
	}
	asked("what waits is taken back")
	if n := s.countRows("tasks WHERE held"); n != 0 {
		t.Errorf("%d children never start", n)
	}
	if got := s.childStates(task.ID); got != "web cancelled, app cancelled, db cancelled" {
		t.Errorf("its parts are %s", got)
	}
}
