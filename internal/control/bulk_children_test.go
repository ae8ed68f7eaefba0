package control_test

import (
	"fmt"
	"testing"

	"quantix/internal/fleet"
)

func TestBulkTaskStateFollowsChildren(t *testing.T) {
	s := newTaskFixture(t)
	for want, ends := range map[fleet.JobState][]string{
		fleet.JobDone: {"done", "done"}, fleet.JobCancelled: {"done", "cancelled"}, fleet.JobUnknown: {"cancelled", "unknown"}, fleet.JobFailed: {"unknown", "failed"},
	} {
		task, vms := s.addBulkShutdown(string(want)+"-a", string(want)+"-b")
		s.beginTasks()
		for i, end := range ends {
			s.endJob(vms[i].ID, end)
		}
		if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != want {
			t.Errorf("%v: the task is %s %v", ends, got.State, err)
		}
	}
	task, vms := s.addBulkShutdown("gone")
	s.beginTasks()
	s.execSQL(`DELETE FROM tasks WHERE parent_id = $1`, task.ID)
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobCancelled {
		t.Errorf("without any part, of %s: %s %v", vms[0].ID, got.State, err)
	}
}

func TestBulkChildTaskChecksVMStateAtStart(t *testing.T) {
	s := newTaskFixture(t)
	task, vms := s.addBulkShutdown("web", "db")
	s.reportPower(vms[0].ID, fleet.Stopped)
	s.beginTasks()
	if got := s.childStates(task.ID); got != "web failed, db queued" {
		t.Error(got)
	}
	s.wantTask(task.ID, fleet.JobRunning, 50, fleet.Steps{Queued: 1, Refused: 1})
}

func TestCancelBulkTaskCancelsPendingChildren(t *testing.T) {
	s := newTaskFixture(t)
	task, vms := s.addBulkShutdown("asked", "runs", "waits")
	s.beginTasks()
	s.execSQL(`UPDATE jobs SET state = 'running', attempt = 1 WHERE subject = $1 AND state = 'queued'`, fleet.SubjectVM(vms[1].ID))
	s.execSQL(`DELETE FROM jobs WHERE subject = $1 AND kind = 'vm.shutdown'`, fleet.SubjectVM(vms[2].ID))
	s.execSQL(`UPDATE tasks SET pending = true, state = 'queued', error = '', ended_at = NULL WHERE subject = $1 AND kind = 'vm.shutdown'`, fleet.SubjectVM(vms[2].ID))
	s.wantRefused("viewer", fleet.Forbidden, "do not have permission", func() error { _, err := s.CancelTask(t.Context(), s.viewer, task.ID); return err })
	got, err := s.CancelTask(t.Context(), s.member, task.ID)
	if err != nil || got.State != fleet.JobRunning || *got.Steps != (fleet.Steps{Running: 1, Cancelled: 2}) {
		t.Errorf("%+v %+v %v", got, got.Steps, err)
	}
	if children := s.childStates(task.ID); children != "asked cancelled, runs running, waits cancelled" {
		t.Error(children)
	}
	s.beginTasks()
	if n := s.countRows("jobs WHERE state = 'queued'"); n != 0 {
		t.Error("a cancelled child started")
	}
	s.wantRefused("twice", fleet.Conflict, "No job of this task is waiting", func() error { _, err := s.CancelTask(t.Context(), s.member, task.ID); return err })
	s.endJob(vms[1].ID, "done")
	s.wantTask(task.ID, fleet.JobCancelled, 100, fleet.Steps{Done: 1, Cancelled: 2})

	// One child is cancelled while it is pending.
	task, _ = s.addBulkShutdown("one", "two")
	page, err := s.ListTasks(t.Context(), s.member, fleet.Query{Filter: "target:one parent:" + string(task.ID)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelTask(t.Context(), s.member, page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	s.beginTasks()
	if children := s.childStates(task.ID); children != "one cancelled, two queued" {
		t.Error(children)
	}
}

func TestConcurrentPassesStartBulkChildTasksOnce(t *testing.T) {
	s := newTaskFixture(t)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,cpu}', '{"threads": 64}')`)
	var names []string
	for i := range 45 { // more than one batch
		names = append(names, fmt.Sprintf("vm-%02d", i))
	}
	task, _ := s.addBulkShutdown(names...)
	s.execSQL(`DELETE FROM jobs`)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- s.BeginTasks(t.Context(), fleet.SystemActor) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n, audits := s.countRows("jobs"), s.countRows("audit WHERE action = 'vm.shutdown'"); n != len(names) || audits != n {
		t.Errorf("%d jobs and %d lines in the audit, want %d", n, audits, len(names))
	}
	s.wantTask(task.ID, fleet.JobQueued, 0, fleet.Steps{Queued: len(names)})
	s.execSQL(`UPDATE jobs SET state = 'done', ended_at = now()`)
	s.wantTask(task.ID, fleet.JobDone, 100, fleet.Steps{Done: len(names)})
	s.execSQL(`DO $$ BEGIN -- as if it had been asked for in 2017
		PERFORM set_config('session_replication_role', 'replica', true);
		UPDATE jobs SET task_id = '015' || substr(task_id, 4);
		UPDATE tasks SET id = '015' || substr(id, 4), parent_id = '015' || substr(parent_id, 4), ended_at = now() - interval '31 days';
	END $$`)
	if err := s.DeleteExpiredRows(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("tasks") + s.countRows("jobs"); n != 0 {
		t.Errorf("%d expired rows remain", n)
	}
}
