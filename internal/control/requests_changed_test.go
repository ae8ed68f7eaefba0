package control_test

import (
	"testing"

	"quantix/internal/control/requests"
	"quantix/internal/fleet"
	"quantix/internal/quota"
	"quantix/internal/request"
)

// A decision is about the request that the person saw, not about the one that replaced it meanwhile.
func TestDecisionOfChangedRequestIsRefused(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	seen := s.askForCPUs()
	again, err := s.CreateRequest(ctx, s.member, request.Input{ProjectID: s.red, Kind: request.Quota, Reason: "Load test", Limits: map[string]int64{"cpus": quota.Max}})
	if err != nil {
		t.Fatal(err)
	}
	if again.ID != seen.ID || seen.Generation != 1 || again.Generation != 2 {
		t.Errorf("the generations are %d and %d of %s and %s, want 1 and 2 of the same request", seen.Generation, again.Generation, seen.ID, again.ID)
	}
	of := func(r request.Request) requests.Seen { return requests.Seen{IfGeneration: r.Generation} }
	const changed = "The request was changed meanwhile. Look at it again."
	s.wantRefused("an approval", fleet.Conflict, changed, func() error {
		_, err := s.ApproveRequest(ctx, chief, seen.ID, requests.Approval{Seen: of(seen)})
		return err
	})
	s.wantRefused("a refusal", fleet.Conflict, changed, func() error {
		_, err := s.RefuseRequest(ctx, chief, seen.ID, requests.Refusal{Seen: of(seen), Comment: "no"})
		return err
	})
	if use, err := s.ProjectUsage(ctx, chief, s.red); err != nil || *use.Quota.CPUs.Hard != 8 {
		t.Errorf("after refused decisions, the quota is %+v %v", use.Quota, err)
	}
	if r, err := s.ApproveRequest(ctx, chief, seen.ID, requests.Approval{Seen: of(again)}); err != nil || r.State != request.Approved {
		t.Errorf("the approval of what is requested now: %+v %v", r, err)
	}
}

// A repetition does not change a request that was decided meanwhile.
func TestRepetitionDoesNotChangeDecidedRequest(t *testing.T) {
	s := newProjectFixture(t)
	ctx := t.Context()
	r := s.askForCPUs()
	decision := beginTx(t, s.pool)
	execInTx(t, decision, `UPDATE requests SET state = 'refused', decided_at = now(), notified = true WHERE id = $1`, r.ID)
	end := startBlockedByLock(t, s.pool, func() error {
		_, err := s.CreateRequest(ctx, s.member, request.Input{ProjectID: s.red, Kind: request.Quota, Reason: "Again", Limits: map[string]int64{"cpus": 99}})
		return err
	})
	if err := decision.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("the repetition", fleet.Conflict, "was decided meanwhile", end)
	if got, err := s.GetRequest(ctx, s.member, r.ID); err != nil || got.Reason != r.Reason || got.Generation != 1 {
		t.Errorf("the decided request is %+v %v", got, err)
	}
}
