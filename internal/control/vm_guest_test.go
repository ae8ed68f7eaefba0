package control_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/wire"
)

// vmWithGuestAgent returns a running VM whose guest agent answers.
func (s *projectFixture) vmWithGuestAgent(name string) fleet.VMView {
	s.t.Helper()
	v := s.createVM(name, fleet.Running)
	s.setGuestStatus(v.ID, fleet.GuestStatus{Agent: fleet.AgentAnswers, OS: "Debian"})
	return s.getVM(v.ID)
}

// setGuestStatus writes the guest status that the VM's host reports.
func (s *projectFixture) setGuestStatus(id fleet.VMID, g fleet.GuestStatus) {
	s.t.Helper()
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('guest', $2::jsonb) WHERE id = $1`, id, g)
}

func (s *projectFixture) guestRequest(a fleet.Actor, id fleet.VMID, in control.GuestRequest) func() error {
	return func() error {
		_, err := s.SendGuestRequest(s.t.Context(), a, id, in)
		return err
	}
}

// Invalid guest requests are refused at their field or with a reason, and nothing is written.
func TestInvalidGuestRequestRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, off := s.vmWithGuestAgent("web"), s.createVM("off", fleet.Stopped)
	freeze := func(n int) control.GuestRequest { return control.GuestRequest{Action: fleet.ActFreeze, Seconds: n} }
	password := func(user, word string) control.GuestRequest {
		return control.GuestRequest{Action: fleet.ActGuestPassword, User: user, Password: word}
	}
	for name, c := range map[string]struct {
		in   control.GuestRequest
		says string
	}{
		"no action":                   {control.GuestRequest{}, `The guest agent has no action "".`},
		"an action of the VM":         {control.GuestRequest{Action: fleet.ActStop}, `The guest agent has no action "stop".`},
		"an unknown action":           {control.GuestRequest{Action: "a;id"}, `The guest agent has no action "a;id".`},
		"frozen for less than none":   {freeze(-1), "1 to 600"},
		"frozen for an hour":          {freeze(3600), "1 to 600"},
		"frozen for ever":             {freeze(1 << 60), "1 to 600"},
		"no user":                     {password("", "x"), "user"},
		"a user that is an option":    {password("-rf", "x"), "user"},
		"a user with a colon":         {password("root:x", "y"), "user"},
		"a user in two lines":         {password("root\nadmin", "y"), "user"},
		"a user with a NUL":           {password("root\x00", "y"), "user"},
		"a user with marks":           {password("ro\u202eot", "y"), "user"},
		"a user that is a path":       {password("../root", "y"), "user"},
		"a user that is long":         {password(strings.Repeat("a", 65), "y"), "user"},
		"no password":                 {password("root", ""), "password"},
		"a password in two lines":     {password("root", "a\nroot:b"), "one line"},
		"a password with a NUL":       {password("root", "a\x00b"), "one line"},
		"a password that is no text":  {password("root", "\xff\xfe"), "one line"},
		"a password that is a book":   {password("root", strings.Repeat("a", fleet.MaxGuestPassword+1)), "one line"},
		"a password with a backspace": {password("root", "a\x08"), "one line"},
	} {
		s.wantRefused(name, fleet.Invalid, c.says, s.guestRequest(chief, v.ID, c.in))
	}
	trim := control.GuestRequest{Action: fleet.ActTrim}
	s.wantRefused("a VM that is off", fleet.Conflict, "not running", s.guestRequest(chief, off.ID, trim))
	s.wantRefused("no VM", fleet.NotFound, "", s.guestRequest(chief, fleet.NewID[fleet.VMID](), trim))
	s.wantRefused("a VM of another project", fleet.NotFound, "", s.guestRequest(s.blueMember, v.ID, trim))
	s.wantRefused("a viewer", fleet.Forbidden, "", s.guestRequest(s.viewer, v.ID, trim))
	s.wantRefused("a guest that is not frozen", fleet.Conflict, "not frozen", s.guestRequest(chief, v.ID, control.GuestRequest{Action: fleet.ActThaw}))
	for says, g := range map[string]fleet.GuestStatus{
		"does not answer": {Agent: fleet.AgentNotResponding}, "no channel": {Agent: fleet.AgentNone}, "Thaw the file systems first.": {Agent: fleet.AgentAnswers, Frozen: true},
	} {
		s.setGuestStatus(v.ID, g)
		s.wantRefused(says, fleet.Conflict, says, s.guestRequest(chief, v.ID, trim))
	}
	s.setGuestStatus(v.ID, fleet.GuestStatus{Agent: fleet.AgentAnswers, Frozen: true})
	s.wantRefused("a frozen guest", fleet.Conflict, "already", s.guestRequest(chief, v.ID, freeze(5)))
	s.execSQL(`UPDATE vms SET status = status - 'guest' WHERE id = $1`, v.ID)
	s.wantRefused("an older agent", fleet.Conflict, "too old", s.guestRequest(chief, v.ID, trim))
}

// A password is sent only to the host that runs the password's task, and only until the task ends. No column, response,
// job or audit line contains it in plain text.
func TestGuestPasswordReadableOnlyByTasksHost(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	h1, h2 := s.agentSession(s.h1), s.agentSession(s.h2)
	v := s.vmWithGuestAgent("web")
	const word = "correct horse battery"
	order := control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: word}
	task, err := s.SendGuestRequest(ctx, s.member, v.ID, order)
	if err != nil {
		t.Fatal(err)
	}
	job := fleet.JobID(task.ID)
	has := func(when string, a fleet.Actor, want string) {
		t.Helper()
		got, err := s.GuestSecret(ctx, a, job)
		if want == "" && (fleet.CodeOf(err) != fleet.NotFound || got.Secret != "") || want != "" && (err != nil || got.Secret != want) {
			t.Errorf("%s, %s gets %q, %v", when, a.Name, got.Secret, err)
		}
	}
	has("while it waits", h1, "")
	if at := s.tablesContaining(word); at != "" {
		t.Errorf("the password is in %s", at)
	}
	s.wantRefused("a second request", fleet.Conflict, "Another password", s.guestRequest(chief, v.ID, order))
	w := s.claimUntil(h1, fleet.VMPassword)
	if w.Args.Guest == nil || w.Args.Guest.User != "root" {
		t.Errorf("the host is requested %+v", w.Args)
	}
	has("at work", h1, word)
	has("at work", h2, "")
	if n := s.countRows("audit WHERE action = 'vm.password' AND name = 'web' AND detail = 'of root' AND actor = 'mia'"); n != 1 {
		t.Errorf("the audit has %d lines", n)
	}
	base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, h1.HostID)
	if _, _, err := s.Finish(ctx, h1, w.ID, wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: base + finishSeq.Add(1), Outcome: wire.Failed, Error: "no chpasswd"}); err != nil {
		t.Fatal(err)
	}
	has("at its end", h1, "")
	if n := s.countRows("guest_secrets"); n != 0 {
		t.Errorf("%d secrets outlive their tasks", n)
	}
	if now := s.getVM(v.ID); now.Attention || now.Status.Error != "" || now.Phase != fleet.PhaseRunning {
		t.Errorf("the VM whose guest failed is %s, %+v", now.Phase, now.Status)
	}
	if got, err := s.GetTask(ctx, s.member, task.ID); err != nil || got.State != fleet.JobFailed || got.Error != "no chpasswd" {
		t.Errorf("the task ended %+v, %v", got, err)
	}

	// The password is also deleted if the task is cancelled before the host gets the job.
	if task, err = s.SendGuestRequest(ctx, s.member, v.ID, order); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelTask(ctx, s.member, task.ID); err != nil || s.countRows("guest_secrets") != 0 {
		t.Errorf("cancelled: %v, %d secrets", err, s.countRows("guest_secrets"))
	}
	keyless := control.New(s.pool, control.Options{Hub: notify.NewHub()})
	if _, err := keyless.SendGuestRequest(ctx, chief, v.ID, order); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "secretsKey") {
		t.Errorf("without a key: %v", err)
	}
	if task, err = s.SendGuestRequest(ctx, s.member, v.ID, order); err != nil {
		t.Fatal(err)
	}
	s.claimUntil(h1, fleet.VMPassword)
	other := control.New(s.pool, control.Options{Hub: notify.NewHub(), Vault: auth.NewVault()})
	if _, err := other.GuestSecret(ctx, h1, fleet.JobID(task.ID)); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "another key") {
		t.Errorf("with another key: %v", err)
	}
}

// Force off does not wait for a guest that does not answer.
func TestForceOffAbortsGuestJobs(t *testing.T) {
	s := newProjectFixture(t)
	h1, v := s.agentSession(s.h1), s.vmWithGuestAgent("web")
	task, err := s.SendGuestRequest(t.Context(), s.member, v.ID, control.GuestRequest{Action: fleet.ActTrim})
	if err != nil {
		t.Fatal(err)
	}
	s.claimUntil(h1, fleet.VMTrim)
	if _, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetTask(t.Context(), s.member, task.ID); err != nil || got.State != fleet.JobCancelled || !strings.Contains(got.Error, "Aborted") {
		t.Errorf("the trim is %+v, %v", got, err)
	}
	s.claimUntil(h1, fleet.VMStop)
}

// People who see the VM see the guest agent's report with its age. Reports about VMs of other hosts, and reports from
// before the VM's start, are ignored.
func TestGuestReportShownWithAge(t *testing.T) {
	s := newProjectFixture(t)
	h1, h2 := s.agentSession(s.h1), s.agentSession(s.h2)
	v := s.vmWithGuestAgent("web")
	says := func(a fleet.Actor, in ...fleet.GuestReading) error {
		t.Helper()
		base := queryWithArgs[int64](s, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, a.HostID)
		r := wire.Report{Seq: base + finishSeq.Add(1), Digest: "1", StateAgeMs: 1, Guests: in}
		if err := wire.EnforceBounds(&r); err != nil {
			return err
		}
		_, err := s.Report(t.Context(), a, r)
		return err
	}
	told := func() fleet.GuestView {
		t.Helper()
		g, err := s.VMGuest(t.Context(), s.viewer, v.ID)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if g := told(); g.At != nil || g.FileSystems == nil || g.Users == nil {
		t.Errorf("nothing gets as %+v", g)
	}
	reading := fleet.GuestReading{ID: v.ID, AgoMs: 5000, ClockMs: 1500, ClockBehind: true, Users: []fleet.GuestUser{{Name: "a\u202eb\x00"}}, FileSystems: []fleet.GuestFileSystem{{Path: "/", Type: "ext4", UsedBytes: -5, TotalBytes: 10}}}
	if err := says(h2, reading); err != nil || told().At != nil {
		t.Errorf("another host's word counts: %v", err)
	}
	if err := says(h1, reading); err != nil {
		t.Fatal(err)
	}
	g := told()
	if g.At == nil || time.Since(*g.At) < 4*time.Second || g.ClockMs != 1500 || !g.ClockBehind || len(g.FileSystems) != 1 || g.FileSystems[0].UsedBytes != 0 || strings.ContainsAny(g.Users[0].Name, "\u202e\x00") {
		t.Errorf("told %+v", g)
	}
	bulkOrder := reading
	bulkOrder.FileSystems = make([]fleet.GuestFileSystem, 1000)
	if err := says(h1, bulkOrder); err != nil || len(told().FileSystems) != fleet.MaxGuestFileSystems {
		t.Errorf("of 1000 file systems %d are stored, %v", len(told().FileSystems), err)
	}
	for name, in := range map[string][]fleet.GuestReading{"of nothing": {{}}, "of too many": make([]fleet.GuestReading, wire.MaxGuests+1)} {
		if err := says(h1, in...); fleet.CodeOf(err) != fleet.Invalid {
			t.Errorf("readings %s: %v", name, err)
		}
	}
	s.execSQL(`UPDATE vms SET status = status || '{"startedAt":"2100-01-01T00:00:00Z"}' WHERE id = $1`, v.ID)
	if g := told(); g.At != nil {
		t.Errorf("the reading of an earlier run is shown: %+v", g)
	}
	if _, err := s.VMGuest(t.Context(), s.blueMember, v.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a user of another project hears %v", err)
	}
}
