package control_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Repeated claims on one connection query the database only at intervals and after a wake-up.
func TestJobWaiterQueriesDatabaseOnlyWhenNeeded(t *testing.T) {
	r := newHostFixture(t)
	r.drainHub() // the listener wakes all subscribers when it starts
	out, err := r.NewJobWaiter(t.Context(), r.agent)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	one := wire.ClaimRequest{Max: 1}
	claim := func(wait time.Duration) (jobs []wire.Work, rest time.Duration, asked bool) {
		t.Helper()
		before := r.pool.Stat().AcquireCount()
		claim, rest, err := out.Claim(t.Context(), one, wait)
		if err != nil {
			t.Fatal(err)
		}
		return claim.Jobs, rest, r.pool.Stat().AcquireCount() > before
	}
	if _, rest, asked := claim(time.Hour); !asked || rest != time.Hour {
		t.Errorf("the first claim: queried %v, %s", asked, rest)
	}
	for range 3 {
		if _, rest, asked := claim(time.Hour); asked || rest >= time.Hour || rest < time.Hour-time.Minute {
			t.Errorf("the next claim: queried %v, %s", asked, rest)
		}
	}
	if _, _, asked := claim(time.Second); !asked {
		t.Error("an old query is not repeated")
	}
	hush := make(chan struct{})
	close(hush)
	if claim, err := out.Wait(t.Context(), one, time.Hour, hush); err != nil || len(claim.Jobs) > 0 {
		t.Errorf("hushed: %+v, %v", claim, err)
	}
	r.addVM("web")
	r.addVM("db") // queued between two claims
	until := time.Now().Add(10 * time.Second)
	for n := 0; n < 2 && time.Now().Before(until); {
		jobs, _, _ := claim(time.Hour)
		n += len(jobs)
		if n == 2 {
			until = time.Time{}
		}
	}
	if !until.IsZero() {
		t.Error("a job queued between two claims is not found")
	}
	if got, err := out.Wait(t.Context(), one, time.Millisecond, nil); err != nil || len(got.Jobs) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// After a claim that got fewer jobs than its limit, no job is queued. The next claim need not query the database.
	one.Max = 3
	woken := r.hub.Subscribe("jobs:" + string(r.agent.HostID))
	defer woken.Close()
	r.addVM("mail")
	<-woken.C
	got, err := out.Wait(t.Context(), one, time.Minute, nil)
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if jobs, _, asked := claim(time.Hour); asked || len(jobs) > 0 {
		t.Errorf("after a claim below its limit: queried %v, %d jobs", asked, len(jobs))
	}
	for _, other := range []fleet.Actor{
		{HostID: r.agent.HostID, Session: "another", KeyHash: r.agent.KeyHash},
		{HostID: r.agent.HostID, Session: r.agent.Session, KeyHash: "another"},
		{HostID: "another", Session: r.agent.Session, KeyHash: r.agent.KeyHash},
	} {
		if out.BelongsTo(other) {
			t.Errorf("%+v passes for %+v", other, r.agent)
		}
	}
	if !out.BelongsTo(r.agent) {
		t.Error("the waiter does not belong to its own agent")
	}
}

// An ended agent session gets no jobs, even through a job waiter that it opened while it was current.
func TestJobWaiterOfEndedAgentSessionGetsNoJobs(t *testing.T) {
	r := newHostFixture(t)
	old := r.agent
	out, err := r.NewJobWaiter(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, _, err := out.Claim(t.Context(), wire.ClaimRequest{Max: 1}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Hello(t.Context(), old, wire.Hello{Instance: "next", Fingerprint: "f"}); err != nil {
		t.Fatal(err)
	}
	r.addVM("web")
	claim, err := out.Wait(t.Context(), wire.ClaimRequest{Max: 1}, time.Minute, nil)
	if fleet.CodeOf(err) != fleet.Conflict || len(claim.Jobs) > 0 {
		t.Errorf("%+v, %v", claim, err)
	}
}
