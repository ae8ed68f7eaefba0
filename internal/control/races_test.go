package control_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// beginTx opens a transaction of the test. It stops waiting for a lock after a timeout, and PostgreSQL never aborts it
// because of a deadlock.
func beginTx(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	for _, sql := range []string{"SET LOCAL lock_timeout = '10s'", "SET LOCAL deadlock_timeout = '1min'"} {
		execInTx(t, tx, sql)
	}
	return tx
}

func execInTx(t *testing.T, tx pgx.Tx, sql string, args ...any) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// startBlockedByLock starts do and returns when do waits for a lock. end waits for the result of do.
func startBlockedByLock(t *testing.T, pool *pgxpool.Pool, do func() error) (end func() error) {
	t.Helper()
	waiting := func() (n int) {
		sql := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
		if err := pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := waiting()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		switch {
		case waiting() > before:
			return func() error { return <-done }
		case time.Now().After(deadline):
			t.Fatal("no transaction waits for a lock")
		}
		select {
		case err := <-done:
			t.Fatalf("the call did not wait: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestJobFinishWaitsForConcurrentChangeOfVM(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	w := r.claimJobs()[0]
	order := beginTx(t, r.pool) // force off and delete lock the VM first, then its jobs
	execInTx(t, order, `SELECT 1 FROM vms WHERE id = $1 FOR UPDATE`, id)
	end := startBlockedByLock(t, r.pool, func() error {
		return r.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}})
	})
	execInTx(t, order, "SET LOCAL lock_timeout = '500ms'")
	execInTx(t, order, `UPDATE jobs SET state = 'cancelled' WHERE id = $1`, w.ID)
	if err := order.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, end(), fleet.Conflict)
}

func TestPoolReleaseResultWaitsForConcurrentAssignment(t *testing.T) {
	r := newHostFixture(t)
	pool := fleet.NewID[fleet.PoolID]()
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, 'p', '{}')`, pool)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'release')`, pool, r.agent.HostID)
	testkit.TaskWithJob{Host: r.agent.HostID, Kind: fleet.PoolRelease, Subject: fleet.SubjectPool(pool), Name: "p"}.Add(t, r.pool)
	w := r.claimJobs()[0]
	order := beginTx(t, r.pool) // assign locks the pool first, then its hosts
	execInTx(t, order, `SELECT 1 FROM pools WHERE id = $1 FOR UPDATE`, pool)
	end := startBlockedByLock(t, r.pool, func() error { return r.finishJob(w, wire.Finish{Outcome: wire.Done}) })
	execInTx(t, order, "SET LOCAL lock_timeout = '500ms'")
	execInTx(t, order, `UPDATE assignments SET asked = 'assign' WHERE pool_id = $1`, pool)
	if err := order.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM assignments WHERE asked = 'assign'`); n != 1 {
		t.Fatal("the end of the release removed the new assignment")
	}
}

func TestTransactionRetriedAfterDeadlock(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	other := beginTx(t, s.pool)
	execInTx(t, other, `SELECT 1 FROM jobs WHERE subject = $1 FOR UPDATE`, fleet.SubjectVM(v.ID))
	end := startBlockedByLock(t, s.pool, func() error { _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); return err })
	execInTx(t, other, `UPDATE vms SET description = 'other' WHERE id = $1`, v.ID)
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if now := s.getVM(v.ID); now.DeletedAt == nil || now.Description != "other" || s.countRows("audit WHERE action = 'vm.delete'") != 1 {
		t.Fatalf("%+v", now.Meta)
	}
}

// exhaustAttempts claims the job until it fails because of too many attempts.
func (r *hostFixture) exhaustAttempts() {
	r.t.Helper()
	for range 5 {
		if len(r.claimJobs()) != 1 {
			r.t.Fatal("the job was not given again")
		}
		r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'running'`)
		if err := r.RecoverExpiredJobs(r.t.Context(), fleet.SystemActor); err != nil {
			r.t.Fatal(err)
		}
	}
}

func TestVMFailsWhenCreationExhaustsAttempts(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.queueVMJob(id, fleet.VMStart)
	r.exhaustAttempts()
	r.reportState("1")
	if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryValue[int](r, `SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')`); n != 0 {
		t.Fatal("a creation with too many attempts is queued again")
	}
	if vm, err := r.GetVM(t.Context(), fleet.SystemActor, id); err != nil || vm.Phase != fleet.PhaseFailed || vm.Status.Error == "" {
		t.Fatalf("%+v, %v", vm, err)
	}
}

func TestVMDeletionUndoneAfterLastAttempt(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Stopped}})
	r.execSQL(`DELETE FROM jobs`)
	if _, err := r.DeleteVM(t.Context(), fleet.SystemActor, id, true, "web"); err != nil {
		t.Fatal(err)
	}
	r.exhaustAttempts()
	if err := r.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if w := r.claimJobs(); len(w) != 0 {
		t.Fatalf("the deletion continues without deleting the disks: %+v", w)
	}
	if vm, err := r.GetVM(t.Context(), fleet.SystemActor, id); err != nil || vm.DeletedAt != nil || vm.Status.ErrorOf != fleet.VMDelete {
		t.Fatalf("%+v, %v", vm, err)
	}
	// The portal cannot know whether the host deleted the data.
	if state := queryValue[string](r, `SELECT state FROM jobs`); state != "unknown" {
		t.Fatalf("the job is %s", state)
	}
}

func TestCancelRefusedForRunningDeletion(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.reportState("1", wire.VMReport{ID: id, Generation: 1, Status: fleet.VMStatus{Power: fleet.Stopped}})
	r.execSQL(`DELETE FROM jobs`)
	job, err := r.DeleteVM(t.Context(), fleet.SystemActor, id, true, "web")
	if err != nil {
		t.Fatal(err)
	}
	r.claimJobs()
	// The agent is offline, but may still be running the job.
	r.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second'`)
	if err := r.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	_, err = r.CancelTask(t.Context(), fleet.SystemActor, job.ID)
	wantCode(t, err, fleet.Conflict)
}

func TestJobFailsAfterRepeatedAgentCrashes(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	for i := range 5 {
		if len(r.claimJobs()) != 1 {
			t.Fatal("the job was not given again")
		}
		r.sendHello("start "+string(rune('a'+i)), "here")
	}
	if got := r.claimJobs(); len(got) != 0 {
		t.Fatalf("the agent got %+v a sixth time", got)
	}
}

func TestRepeatedHelloDoesNotExhaustJobAttempts(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	for range 7 {
		if len(r.claimJobs()) != 1 {
			t.Fatal("the job was not given again")
		}
		r.sendHello("one", "here")
	}
}

func TestNewVMRefusedOnPoolBeingReleased(t *testing.T) {
	s := newProjectFixture(t)
	release := beginTx(t, s.pool)
	execInTx(t, release, `SELECT 1 FROM pools WHERE id = $1 FOR UPDATE`, s.nfs)
	end := startBlockedByLock(t, s.pool, func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{
			ProjectID: s.red, HostID: s.h1, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30}}},
		})
		return err
	})
	execInTx(t, release, `UPDATE assignments SET asked = 'release' WHERE pool_id = $1`, s.nfs)
	if err := release.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, end(), fleet.Invalid)
}

func TestConcurrentCreateWithUsedMACRefused(t *testing.T) {
	s := newProjectFixture(t)
	spec := smallSpec
	spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:07"}}
	create := func(name string) func() error {
		return startBlockedByLock(t, s.pool, func() error {
			_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
			return err
		})
	}
	host := beginTx(t, s.pool) // blocks the first VM after the choice of its address
	execInTx(t, host, `SELECT 1 FROM hosts WHERE id = $1 FOR UPDATE`, s.h1)
	first, second := create("a"), create("b")
	if err := host.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, second(), fleet.Invalid)
}

func TestNewVMRefusedOnHostBeingDeleted(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`DELETE FROM assignments WHERE noun = 'pool'`)
	removal := beginTx(t, s.pool)
	execInTx(t, removal, `DELETE FROM hosts WHERE id = $1`, s.h1)
	end := startBlockedByLock(t, s.pool, func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "web", Spec: smallSpec})
		return err
	})
	if err := removal.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, end(), fleet.Conflict)
}

func TestTextWithNULByteRefused(t *testing.T) {
	s := newProjectFixture(t)
	nul := "a\x00b"
	for name, do := range map[string]func() error{
		"sign in": func() error { _, err := s.SignIn(t.Context(), anonymous, nul, goodPassword); return err },
		"project": func() error { _, err := s.GetProject(t.Context(), chief, fleet.ProjectID(nul)); return err },
		"list": func() error {
			_, err := s.ListVMs(t.Context(), chief, fleet.Query{Project: fleet.ProjectID(nul)})
			return err
		},
		"join token": func() error { return s.RevokeJoinToken(t.Context(), chief, fleet.JoinTokenID(nul)) },
		"user":       func() error { _, err := s.GetUser(t.Context(), chief, fleet.UserID(nul)); return err },
		"create": func() error {
			_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: fleet.ProjectID(nul), Name: "web", Spec: smallSpec})
			return err
		},
		"filter": func() error {
			_, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: "name:" + nul})
			return err
		},
		"host": func() error {
			_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: fleet.HostID(nul), Name: "web", Spec: smallSpec})
			return err
		},
	} {
		if code := fleet.CodeOf(do()); code != fleet.Malformed && code != fleet.Invalid && code != fleet.NotFound {
			t.Errorf("%s: %q", name, code)
		}
	}
}

// Batches of two portals may have the same hosts in different orders.
func TestHeartbeatBatchesDoNotDeadlock(t *testing.T) {
	r := newHostFixture(t)
	session := []byte("s")
	for _, id := range []string{"b", "a"} { // also the sequence in the batch below; the statement must lock "a" first
		r.execSQL(`INSERT INTO hosts (id, name) VALUES ($1, $1)`, id)
		r.execSQL(`INSERT INTO host_sessions (host_id, session, digest) VALUES ($1, $2, 'd')`, id, session)
	}
	first := beginTx(t, r.pool)
	execInTx(t, first, `SELECT 1 FROM host_sessions WHERE host_id = 'a' FOR UPDATE`)
	var renewed []db.HeartbeatsRow
	end := startBlockedByLock(t, r.pool, func() (err error) {
		renewed, err = db.New(r.pool).Heartbeats(t.Context(), db.HeartbeatsParams{
			HostIds: []string{"b", "a"}, Sessions: [][]byte{session, session}, Loads: []string{"null", "null"},
		})
		return err
	})
	execInTx(t, first, `SELECT 1 FROM host_sessions WHERE host_id = 'b' FOR UPDATE NOWAIT`)
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil || len(renewed) != 2 {
		t.Errorf("online %v, %v", renewed, err)
	}
}
