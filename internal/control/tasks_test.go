package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

func (r *rig) task(id fleet.TaskID) fleet.Task {
	r.t.Helper()
	t, err := r.GetTask(r.t.Context(), chief, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// A task is as its job is, whoever changes it.
func TestATaskIsAsItsJobIs(t *testing.T) {
	r := newRig(t)
	id := r.addVM("web")
	task := func() fleet.Task {
		return r.task(one[fleet.TaskID](r, `SELECT id FROM tasks WHERE subject = $1`, fleet.SubjectVM(id)))
	}
	is := func(state fleet.JobState, attempt int, text string) {
		t.Helper()
		got := task()
		if got.State != state || got.Attempt != attempt || got.Error+got.Note != text || (got.EndedAt != nil) != state.Ended() || got.HostName != "h1" {
			t.Errorf("want %s %d %q: %+v", state, attempt, text, got)
		}
	}
	is(fleet.JobQueued, 0, "")
	w := r.claim()[0]
	is(fleet.JobRunning, 1, "")
	if err := r.Progress(t.Context(), r.agent, w.ID, wire.Progress{Epoch: w.Epoch, Percent: 40, Note: "copying"}); err != nil {
		t.Fatal(err)
	}
	if is(fleet.JobRunning, 1, "copying"); task().Progress != 40 {
		t.Errorf("its progress is %d", task().Progress)
	}
	r.exec(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RescueJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	is(fleet.JobQueued, 1, "")
	r.retry(r.claim()[0])
	if got := task(); got.State != fleet.JobQueued || got.RetryAt == nil || got.Error == "" {
		t.Errorf("it is not told that it is tried again: %+v", got)
	}
	r.due()
	if err := r.finish(r.claim()[0], wire.Finish{Outcome: wire.Failed, Error: "no disk"}); err != nil {
		t.Fatal(err)
	}
	is(fleet.JobFailed, 3, "no disk")
	if task().RetryAt != nil {
		t.Error("what has ended is to be tried again")
	}
}

func TestATaskOutlivesItsHost(t *testing.T) {
	s := newSite(t)
	host := s.host("spare", 1024)
	open := testkit.Order{Host: host, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, s.pool)
	done := testkit.Order{Host: host, Kind: fleet.PoolApply, Subject: "pool:y", State: fleet.JobDone}.Add(t, s.pool)
	if err := s.DeleteHost(t.Context(), chief, host); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[fleet.TaskID]string{open: "cancelled Its host was removed.", done: "done "} {
		if got, err := s.GetTask(t.Context(), chief, id); err != nil || string(got.State)+" "+got.Error != want || got.HostID != "" {
			t.Errorf("want %q: %+v %v", want, got, err)
		}
	}
}
