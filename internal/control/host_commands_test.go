package control_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/wire"
)

// testArchive returns an archive with one item of this text.
func testArchive(t *testing.T, text string) []byte {
	t.Helper()
	archive, err := hostcommand.WriteArchive([]hostcommand.Item{{Name: hostcommand.LogItem, Title: "Agent log", Status: hostcommand.ItemOK, Seconds: 0.5, Bytes: len(text)}}, []string{text}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

func newCommandFixture(t *testing.T) *libraryFixture {
	t.Helper()
	s := newMaintenanceFixture(t)
	s.execSQL(`UPDATE hosts SET status = status || $1`, commandSettings)
	return s.libraryFixture
}

func TestHostCommandsNeedOnlineHostAndNewEnoughAgent(t *testing.T) {
	s := newCommandFixture(t)
	commands := map[string]func() error{
		"diagnostics": func() error { _, err := s.RunDiagnostics(t.Context(), chief, s.h1, nil); return err },
		"agent log":   func() error { _, err := s.RequestAgentLog(t.Context(), chief, s.h1); return err },
		"restart":     func() error { _, err := s.RestartAgent(t.Context(), chief, s.h1, true); return err },
	}
	s.execSQL(`UPDATE hosts SET status = status - 'settings' || '{"agentVersion":"0.9"}' WHERE id = $1`, s.h1)
	for name, do := range commands {
		s.wantRefused(name+" of an old agent", fleet.Conflict, "The agent of h1 (version 0.9) does not support this. Upgrade the agent.", do)
	}
	s.execSQL(`UPDATE hosts SET status = status || $1`, commandSettings)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, s.h1)
	for name, do := range commands {
		s.wantRefused(name+" of an offline host", fleet.Conflict, "h1 is offline.", do)
	}
}

func TestDiagnosticsAreStoredAndNewestKept(t *testing.T) {
	s := newCommandFixture(t)
	for _, site := range [][]string{{"smart"}, {"../raid"}, {"raid", "sh -c"}, slices.Repeat([]string{"raid"}, hostcommand.MaxRequested+1)} {
		s.wantRefused(fmt.Sprint(site), fleet.Invalid, "diagnostic", func() error {
			_, err := s.RunDiagnostics(t.Context(), chief, s.h1, site)
			return err
		})
	}
	for i := range hostcommand.Kept + 2 {
		task, err := s.RunDiagnostics(t.Context(), chief, s.h1, []string{"raid"})
		if err != nil || task.Kind != fleet.HostDiagnose {
			t.Fatalf("%+v, %v", task, err)
		}
		w := s.claimOnlyJob(s.h1, fleet.HostDiagnose)
		if !slices.Equal(w.Args.Diagnose, []string{"raid"}) {
			t.Errorf("the job's arguments are %+v", w.Args)
		}
		open, err := s.OpenHostCommand(t.Context(), chief, s.h1, fleet.HostDiagnose)
		if err != nil || open == nil || open.ID != task.ID {
			t.Errorf("the open command is %+v, %v", open, err)
		}
		for _, text := range []string{"first attempt", fmt.Sprint("text ", i)} { // the second archive of the job replaces the first
			if err := s.StoreArtifact(t.Context(), s.agents[s.h1], w.ID, w.Epoch, testArchive(t, text)); err != nil {
				t.Fatal(err)
			}
		}
		s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done})
		s.execSQL(`UPDATE host_artifacts SET created_at = created_at - interval '1 minute'`)
	}
	all, err := s.ListArtifacts(t.Context(), chief, s.h1, hostcommand.Diagnostics)
	if err != nil || len(all) != hostcommand.Kept || all[0].By != chief.Name || len(all[0].Items) != 1 || all[0].Items[0].Seconds != 0.5 {
		t.Fatalf("%d archives: %+v, %v", len(all), all, err)
	}
	for i, a := range all {
		_, archive, err := s.GetArtifact(t.Context(), chief, s.h1, a.ID)
		if text, _ := hostcommand.ItemText(archive, hostcommand.LogItem); err != nil || text != fmt.Sprint("text ", hostcommand.Kept+1-i) {
			t.Errorf("archive %d has %q, %v", i, text, err)
		}
	}
	s.wantRefused("another host's archive", fleet.NotFound, "archive", func() error {
		_, _, err := s.GetArtifact(t.Context(), chief, s.h2, all[0].ID)
		return err
	})
	s.execSQL(`DELETE FROM vms`)
	s.execSQL(`DELETE FROM hosts WHERE id = $1`, s.h1)
	if n := s.countRows("host_artifacts"); n != 0 {
		t.Errorf("%d archives outlive their host", n)
	}
}

func TestArchiveAcceptedOnlyFromHostThatRunsJob(t *testing.T) {
	s := newCommandFixture(t)
	if _, err := s.RequestAgentLog(t.Context(), chief, s.h1); err != nil {
		t.Fatal(err)
	}
	w := s.claimOnlyJob(s.h1, fleet.HostAgentLog)
	good := testArchive(t, "level=INFO")
	send := func(host fleet.HostID, epoch int64, archive []byte) func() error {
		return func() error { return s.StoreArtifact(t.Context(), s.agents[host], w.ID, epoch, archive) }
	}
	s.wantRefused("of another host", fleet.Conflict, "no longer assigned", send(s.h2, w.Epoch, good))
	s.wantRefused("of an old epoch", fleet.Conflict, "no longer assigned", send(s.h1, w.Epoch-1, good))
	s.wantRefused("that is too large", fleet.TooLarge, "8 MiB", send(s.h1, w.Epoch, bytes.Repeat([]byte{0}, hostcommand.MaxArchive+1)))
	bomb, err := hostcommand.WriteArchive([]hostcommand.Item{{Name: "agent", Title: "x", Status: hostcommand.ItemOK}}, []string{strings.Repeat("0", 64<<20)}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	odd, _ := hostcommand.WriteArchive([]hostcommand.Item{{Name: "../agent", Title: "x", Status: hostcommand.ItemOK}}, []string{"x"}, time.Now())
	state, _ := hostcommand.WriteArchive([]hostcommand.Item{{Name: "agent", Title: "x", Status: "<b>"}}, []string{"x"}, time.Now())
	twice, _ := hostcommand.WriteArchive([]hostcommand.Item{{Name: "a", Status: hostcommand.ItemOK}, {Name: "a", Status: hostcommand.ItemOK}}, []string{"x", "y"}, time.Now())
	for name, archive := range map[string][]byte{"nothing": nil, "no zip": []byte("PK"), "cut off": good[:len(good)/2], "bomb": bomb, "odd name": odd, "unknown status": state, "name twice": twice} {
		s.wantRefused(name, fleet.Malformed, "The archive is refused", send(s.h1, w.Epoch, archive))
	}
	if err := send(s.h1, w.Epoch, good)(); err != nil {
		t.Fatal(err)
	}
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done})
	s.wantRefused("after the job's end", fleet.Conflict, "no longer assigned", send(s.h1, w.Epoch, good))
	log, err := s.AgentLog(t.Context(), chief, s.h1)
	if err != nil || log.Artifact == nil || log.Text != "level=INFO" {
		t.Errorf("the log is %+v, %v", log, err)
	}
	if _, err := s.RestartAgent(t.Context(), chief, s.h1, false); err != nil {
		t.Fatal(err)
	}
	w = s.claimOnlyJob(s.h1, fleet.HostAgentRestart)
	s.wantRefused("of a job without archive", fleet.Malformed, "has no archive", send(s.h1, w.Epoch, good))
}

func TestRestartRefusedWhileItInterruptsJobs(t *testing.T) {
	s := newCommandFixture(t)
	restart := func(force bool) func() error {
		return func() error { _, err := s.RestartAgent(t.Context(), chief, s.h1, force); return err }
	}
	s.execSQL(`INSERT INTO tasks (id, host_id, kind, subject, subject_name, created_by) VALUES ('t-copy', $1, 'volume.copy', 'volume:p/disk.qcow2', 'disk.qcow2', 'chief'), ('t-stop', $1, 'vm.shutdown', 'vm:v', 'web', 'chief')`, s.h1)
	s.execSQL(`INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation, state, epoch, lease_until, started_at)
		SELECT id, id, host_id, kind, subject, '{}', 0, 'running', 7, now() + interval '1 hour', now() FROM tasks WHERE id IN ('t-copy', 't-stop')`)
	s.wantRefused("while a copy runs", fleet.Conflict, "The restart would interrupt 1 running job on h1: Copy volume disk.qcow2.", restart(false))
	jobs, err := s.JobsInterruptedByRestart(t.Context(), chief, s.h1)
	if err != nil || !slices.Equal(jobs, []string{"Copy volume disk.qcow2"}) {
		t.Errorf("the jobs are %q, %v", jobs, err)
	}
	if err := restart(true)(); err != nil {
		t.Fatal(err)
	}
	if w := s.claimOnlyJob(s.h1, fleet.HostAgentRestart); !w.Args.Force {
		t.Error("the job is not forced")
	}
}

func TestRestartThatDoesNotComeBackFails(t *testing.T) {
	s := newCommandFixture(t)
	task, err := s.RestartAgent(t.Context(), chief, s.h1, false)
	if err != nil {
		t.Fatal(err)
	}
	endStale := func() {
		t.Helper()
		if err := s.EndStaleHostCommands(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	s.claimOnlyJob(s.h1, fleet.HostAgentRestart)
	endStale()
	state := func(want fleet.JobState, text string) {
		t.Helper()
		if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != want || !strings.Contains(got.Error, text) {
			t.Errorf("the task is %s %q, %v; want %s %q", got.State, got.Error, err, want, text)
		}
	}
	state(fleet.JobRunning, "")
	s.execSQL(`UPDATE jobs SET started_at = now() - interval '3 minutes' WHERE id = $1`, task.ID)
	endStale()
	state(fleet.JobFailed, "The agent did not come back within 2 minutes.")

	if task, err = s.RestartAgent(t.Context(), chief, s.h1, false); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET created_at = now() - interval '3 minutes' WHERE id = $1`, task.ID)
	endStale()
	state(fleet.JobCancelled, "the host did not get this task in time")
}
