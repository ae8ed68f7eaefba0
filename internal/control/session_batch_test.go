package control_test

import (
	"sync"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A request of an ended agent session gets no jobs and changes nothing, even in a batch with a request of the host's
// current session.
func TestEndedAgentSessionGetsNoJobsInSharedBatch(t *testing.T) {
	r := newHostFixture(t)
	ended := r.agent
	r.sendHello("two", "here")
	const crowd = 40
	together := func(do func(a fleet.Actor) error) (old []error, live error) {
		old = make([]error, crowd)
		var all sync.WaitGroup
		for i := range old {
			if i == crowd/2 {
				all.Go(func() { live = do(r.agent) })
			}
			all.Go(func() { old[i] = do(ended) })
		}
		all.Wait()
		return old, live
	}
	for range 3 {
		r.addVM("web-" + string(fleet.NewID[fleet.VMID]()))
		var mu sync.Mutex
		var got []wire.Work
		old, live := together(func(a fleet.Actor) error {
			claim, err := r.Claim(t.Context(), a, wire.ClaimRequest{Max: 8}, 0)
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, claim.Jobs...); len(claim.Jobs) > 0 && a.Session == ended.Session {
				t.Error("an ended session got work")
			}
			return err
		})
		if live != nil || len(got) != 1 {
			t.Fatalf("the live session got %v, and %d jobs were given", live, len(got))
		}
		for _, err := range old {
			wantCode(t, err, fleet.Conflict)
		}
		f := wire.Finish{Epoch: got[0].Epoch, Generation: 1, Seq: r.nextSeq(), Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}
		old, live = together(func(a fleet.Actor) error {
			mine := f
			if a.Session == ended.Session {
				mine.Outcome, mine.Error = wire.Failed, "forged"
			}
			_, _, err := r.Finish(t.Context(), a, got[0].ID, mine)
			return err
		})
		if state := queryValue[fleet.JobState](r, `SELECT state FROM jobs WHERE id = $1`, got[0].ID); live != nil || state != fleet.JobDone {
			t.Errorf("the live session's result: %v; the job is %s", live, state)
		}
		for _, err := range old {
			wantCode(t, err, fleet.Conflict)
		}
		old, live = together(func(a fleet.Actor) error {
			_, err := r.Report(t.Context(), a, wire.Report{Seq: f.Seq, Digest: "same"})
			return err
		})
		if live != nil {
			t.Errorf("the live session's heartbeat: %v", live)
		}
		for _, err := range old {
			wantCode(t, err, fleet.Conflict)
		}
	}
}
