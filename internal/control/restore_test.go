package control_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/pglocal"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// restoreDump restores the dump into a new database and returns a hostFixture on it. The host's agent has the session
// of the time of the dump.
func (r *hostFixture) restoreDump(dump string) *hostFixture {
	r.t.Helper()
	url := testkit.EmptyDatabaseURL(r.t)
	runPostgresProgram(r.t, "pg_restore", "--exit-on-error", "--dbname="+url, dump)
	pool, err := db.Open(r.t.Context(), url, 4)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(pool.Close)
	next := *r
	next.pool, next.Control = pool, control.New(pool, control.Options{})
	return &next
}

// runPostgresProgram runs a program from PostgreSQL's installation, such as pg_dump.
func runPostgresProgram(t *testing.T, program string, args ...string) {
	t.Helper()
	bin, err := pglocal.FindBinaries()
	if err == nil { // PATH may have only links to two of the programs; the others are beside the links' targets
		bin, err = filepath.EvalSymlinks(filepath.Join(bin, "postgres"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(bin), program), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
}

// The host runs further jobs after the dump. The restored database has the same agent session but lower epochs and
// generations. The next job gets an epoch above those that the host has seen. The next report shows the edit that the
// database lost as drift.
func TestRestoredDatabaseUsesHigherEpochs(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	stopped := fleet.VMStatus{Power: fleet.Stopped}
	done := func(r *hostFixture) (w wire.Work) {
		t.Helper()
		all := r.claimJobs()
		if len(all) != 1 {
			t.Fatalf("%d jobs", len(all))
		}
		if err := r.finishJob(all[0], wire.Finish{Outcome: wire.Done, VM: &stopped}); err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	done(r)
	dump := filepath.Join(t.TempDir(), "dump")
	runPostgresProgram(t, "pg_dump", "--format=custom", "--file="+dump, r.pool.Config().ConnString())
	for range 3 {
		r.queueVMJob(id, fleet.VMStop)
		done(r)
	}
	r.execSQL(`UPDATE vms SET generation = 2, spec = spec || '{"cpus": 2}'`)
	r.queueVMJob(id, fleet.VMApply)
	newest := done(r)

	after := r.restoreDump(dump)
	after.reportState("again", wire.VMReport{ID: id, Name: "web", Generation: 2, Stamped: newest.Generation, SpecHash: newest.SpecHash, Status: stopped})
	outdatedJob := after.claimJobs()
	if len(outdatedJob) != 1 || outdatedJob[0].Kind != fleet.VMApply || outdatedJob[0].Generation != 1 || outdatedJob[0].Epoch >= newest.Epoch {
		t.Fatalf("after the restore, the host gets %+v", outdatedJob)
	}
	if err := after.finishJob(outdatedJob[0], outdatedFinish(newest.Epoch)); err != nil {
		t.Fatal(err)
	}
	after.skipRetryDelay()
	if w := done(after); w.ID != outdatedJob[0].ID || w.Epoch <= newest.Epoch || w.SpecHash == newest.SpecHash {
		t.Errorf("the job is claimed again as %+v after epoch %d", w, newest.Epoch)
	}
	after.queueVMJob(id, fleet.VMStop)
	if w := done(after); w.Epoch <= newest.Epoch {
		t.Errorf("the next job has epoch %d after %d", w.Epoch, newest.Epoch)
	}
}
