package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

func (r *hostFixture) getTask(id fleet.TaskID) fleet.Task {
	r.t.Helper()
	t, err := r.GetTask(r.t.Context(), chief, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// After every change of a job, its task has the same state.
func TestTaskStateFollowsJob(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	task := func() fleet.Task {
		return r.getTask(queryValue[fleet.TaskID](r, `SELECT id FROM tasks WHERE subject = $1`, fleet.SubjectVM(id)))
	}
	is := func(state fleet.JobState, attempt int, text string) {
		t.Helper()
		got := task()
		if got.State != state || got.Attempt != attempt || got.Error+got.Note != text || (got.EndedAt != nil) != state.IsFinal() || got.HostName != "h1" {
			t.Errorf("want %s %d %q: %+v", state, attempt, text, got)
		}
	}
	is(fleet.JobQueued, 0, "")
	w := r.claimJobs()[0]
	is(fleet.JobRunning, 1, "")
	if _, err := r.Progress(t.Context(), r.agent, w.ID, wire.Progress{Epoch: w.Epoch, Percent: 40, Note: "copying"}); err != nil {
		t.Fatal(err)
	}
	if is(fleet.JobRunning, 1, "copying"); task().Progress != 40 {
		t.Errorf("its progress is %d", task().Progress)
	}
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	is(fleet.JobQueued, 1, "")
	r.finishWithRetry(r.claimJobs()[0])
	if got := task(); got.State != fleet.JobQueued || got.RetryAt == nil || got.Error == "" {
		t.Errorf("the task shows no retry: %+v", got)
	}
	r.skipRetryDelay()
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Failed, Error: "no disk"}); err != nil {
		t.Fatal(err)
	}
	is(fleet.JobFailed, 3, "no disk")
	if task().RetryAt != nil {
		t.Error("an ended task has a retry time")
	}
}

func TestTaskSurvivesHostDeletion(t *testing.T) {
	s := newProjectFixture(t)
	host := s.addHostWithMemory("spare", 1024)
	open := testkit.TaskWithJob{Host: host, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, s.pool)
	done := testkit.TaskWithJob{Host: host, Kind: fleet.PoolApply, Subject: "pool:y", State: fleet.JobDone}.Add(t, s.pool)
	if err := s.DeleteHost(t.Context(), chief, host); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[fleet.TaskID]string{open: "cancelled Its host was removed.", done: "done "} {
		if got, err := s.GetTask(t.Context(), chief, id); err != nil || string(got.State)+" "+got.Error != want || got.HostID != "" {
			t.Errorf("want %q: %+v %v", want, got, err)
		}
	}
}

// A task of two jobs is running while one of the jobs runs, and ends with the worse of both results.
func TestTaskStateCombinesTwoJobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		ends     map[string]fleet.JobState // role -> final state
		lost     string                    // the role of the job whose host is removed
		want     fleet.JobState
		error    string
		progress int
	}{
		{"both are done", map[string]fleet.JobState{"source": fleet.JobDone, "target": fleet.JobDone}, "", fleet.JobDone, "", 100},
		{"one has failed", map[string]fleet.JobState{"source": fleet.JobDone, "target": fleet.JobFailed}, "", fleet.JobFailed, "target failed.", 50},
		{"both have failed", map[string]fleet.JobState{"source": fleet.JobFailed, "target": fleet.JobFailed}, "", fleet.JobFailed, "source failed. target failed.", 0},
		{"one is still running", map[string]fleet.JobState{"source": fleet.JobDone}, "", fleet.JobRunning, "", 50},
		{"the host of one is removed", map[string]fleet.JobState{"source": fleet.JobDone}, "target", fleet.JobDone, "", 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newHostFixture(t)
			id := r.addVM("web")
			w := r.claimJobs()[0]
			other := queryValue[fleet.HostID](r, `INSERT INTO hosts (id, name, spec, key_hash) SELECT gen_random_uuid()::text, 'h2', spec, 'other' FROM hosts LIMIT 1 RETURNING id`)
			r.execSQL(`UPDATE jobs SET role = 'source' WHERE id = $1`, w.ID)
			r.execSQL(`INSERT INTO jobs (id, task_id, role, host_id, kind, subject, generation) SELECT $2, task_id, 'target', $3, kind, subject, generation FROM jobs WHERE id = $1`,
				w.ID, fleet.NewID[fleet.JobID](), other)
			r.execSQL(`UPDATE jobs SET note = role || ' at 1 GiB' WHERE id = $1 OR role = 'target'`, w.ID)
			for role, state := range c.ends {
				r.execSQL(`UPDATE jobs SET state = $2, ended_at = now(), progress = CASE WHEN $2 = 'done' THEN 100 ELSE 0 END,
					error = CASE WHEN $2 = 'failed' THEN role || ' failed.' ELSE '' END WHERE role = $1`, role, state)
			}
			r.execSQL(`DELETE FROM jobs WHERE role = $1`, c.lost)
			got := r.getTask(queryValue[fleet.TaskID](r, `SELECT id FROM tasks WHERE subject = $1`, fleet.SubjectVM(id)))
			if got.State != c.want || got.Error != c.error || got.Progress != c.progress || (got.EndedAt != nil) != c.want.IsFinal() || got.HostName != "h1" {
				t.Errorf("want %s %q %d: %+v", c.want, c.error, c.progress, got)
			}
			if c.lost == "" && got.Note != "source at 1 GiB; target at 1 GiB" {
				t.Errorf("the note is %q", got.Note)
			}
		})
	}
}
