package control_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// addHosts returns n hosts with a VM each, whose first job is queued.
func (r *hostFixture) addHosts(n int) []*hostFixture {
	r.t.Helper()
	hosts := make([]*hostFixture, n)
	for i := range hosts {
		h := &hostFixture{Control: r.Control, t: r.t, pool: r.pool, hub: r.hub}
		h.agent = h.addHost(fmt.Sprintf("crowd-%d", i))
		h.sendHello("one", fmt.Sprintf("there-%d", i))
		h.addVM(fmt.Sprintf("vm-%d", i))
		hosts[i] = h
	}
	return hosts
}

// waitForLock returns as soon as some transaction waits for a lock.
func (r *hostFixture) waitForLock() {
	r.t.Helper()
	for timeout := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if queryValue[bool](r, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`) {
			return
		}
		if time.Now().After(timeout) {
			r.t.Fatal("no transaction waits for a lock")
		}
	}
}

// runConcurrently calls do for each host concurrently. It locks the row that sql selects, so that the call for the
// first host waits. It checks that the other calls end while the row is locked, and that the first call ends after the
// unlock.
func (r *hostFixture) runConcurrently(n int, do func(i int), sql string, arg any) {
	r.t.Helper()
	tx, err := r.pool.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	rollback := sync.OnceFunc(func() { tx.Rollback(r.t.Context()) })
	defer rollback()
	if _, err := tx.Exec(r.t.Context(), sql, arg); err != nil {
		r.t.Fatal(err)
	}
	first, others := make(chan struct{}), make(chan struct{})
	go func() { defer close(first); do(0) }()
	r.waitForLock()
	go func() {
		defer close(others)
		var all sync.WaitGroup
		for i := 1; i < n; i++ {
			all.Go(func() { do(i) })
		}
		all.Wait()
	}()
	select {
	case <-others:
	case <-time.After(30 * time.Second):
		r.t.Error("the other calls wait for the first call's lock")
	}
	select {
	case <-first:
		r.t.Error("the first call did not wait for the lock")
	default:
	}
	rollback()
	<-first
	<-others
}

func TestConcurrentClaimsSurviveLockedRow(t *testing.T) {
	r := newHostFixture(t)
	hosts := r.addHosts(30)
	const ended = 7 // another hello ended this host's session
	again := &hostFixture{Control: r.Control, t: t, pool: r.pool, agent: hosts[ended].agent}
	again.sendHello("two", fmt.Sprintf("there-%d", ended))
	got, errs := make([]wire.Claim, len(hosts)), make([]error, len(hosts))
	r.runConcurrently(len(hosts), func(i int) {
		got[i], errs[i] = r.Claim(t.Context(), hosts[i].agent, wire.ClaimRequest{Max: 4}, 0)
	}, `SELECT 1 FROM host_sessions WHERE host_id = $1 FOR UPDATE`, hosts[0].agent.HostID)
	for i := range hosts {
		if i == ended {
			wantCode(t, errs[i], fleet.Conflict)
			continue
		}
		if errs[i] != nil || len(got[i].Jobs) != 1 || got[i].Jobs[0].VM == nil || got[i].Jobs[0].VM.Name != fmt.Sprintf("vm-%d", i) {
			t.Errorf("host %d got %+v, %v", i, got[i].Jobs, errs[i])
		}
	}
}

func TestConcurrentJobResultsSurviveLockedRow(t *testing.T) {
	r := newHostFixture(t)
	hosts := r.addHosts(30)
	work := make([]wire.Work, len(hosts))
	for i, h := range hosts {
		work[i] = h.claimJobs()[0]
	}
	off := &fleet.VMStatus{Power: fleet.Stopped}
	wrong := map[int]struct {
		do   func(f *wire.Finish, id *fleet.JobID)
		want fleet.ErrorCode
	}{
		3: {func(f *wire.Finish, _ *fleet.JobID) { f.Epoch-- }, fleet.Conflict},
		4: {func(f *wire.Finish, _ *fleet.JobID) { f.Seq += 1 << 32 }, fleet.Invalid},
		5: {func(f *wire.Finish, _ *fleet.JobID) { f.Outcome, f.Error = wire.Failed, "nul \x00" }, fleet.Malformed},
		6: {func(_ *wire.Finish, id *fleet.JobID) { *id = fleet.NewID[fleet.JobID]() }, fleet.NotFound},
		7: {func(_ *wire.Finish, id *fleet.JobID) { *id = work[8].ID }, fleet.NotFound},
	}
	const changed = 10 // this host's VM was changed after the claim
	r.execSQL(`UPDATE vms SET generation = generation + 1 WHERE id = $1`, work[changed].VM.ID)
	errs, answers := make([]error, len(hosts)), make([]wire.FinishAnswer, len(hosts))
	r.runConcurrently(len(hosts), func(i int) {
		w := work[i]
		f := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: hosts[i].nextSeq(), Outcome: wire.Done, VM: off}
		if bad, ok := wrong[i]; ok {
			bad.do(&f, &w.ID)
		}
		answers[i], _, errs[i] = r.Finish(t.Context(), hosts[i].agent, w.ID, f)
	}, `SELECT 1 FROM vms WHERE id = $1 FOR UPDATE`, work[0].VM.ID)
	for i, w := range work {
		state := queryValue[fleet.JobState](r, `SELECT state FROM tasks WHERE id = $1`, w.ID)
		power := queryValue[string](r, `SELECT COALESCE(status->>'power', 'unseen') FROM vms WHERE id = $1`, w.VM.ID)
		if bad, ok := wrong[i]; ok {
			if fleet.CodeOf(errs[i]) != bad.want || state != fleet.JobRunning || power != "unseen" {
				t.Errorf("host %d got %v, its task is %s and its VM %s; want a refusal of kind %s", i, errs[i], state, power, bad.want)
			}
		} else if errs[i] != nil || state != fleet.JobDone || power != "stopped" || answers[i].Requeued != (i == changed) {
			t.Errorf("host %d got %+v, %v, its task is %s and its VM %s", i, answers[i], errs[i], state, power)
		}
	}
}

func TestConcurrentDuplicateJobResultAcceptedOnce(t *testing.T) {
	r := newHostFixture(t)
	r.addVM("web")
	w := r.claimJobs()[0]
	f := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: r.nextSeq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}
	const times = 20
	errs := make(chan error, times)
	for range times {
		go func() {
			_, _, err := r.Finish(t.Context(), r.agent, w.ID, f)
			errs <- err
		}()
	}
	taken := 0
	for range times {
		if err := <-errs; err == nil {
			taken++
		} else if fleet.CodeOf(err) != fleet.Conflict {
			t.Error(err)
		}
	}
	if taken != 1 {
		t.Errorf("the result was accepted %d times", taken)
	}
}
