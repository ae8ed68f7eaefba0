package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

func requestKey(name, request string) control.IdempotencyKey {
	return control.IdempotencyKey{Name: name, Request: []byte(request), Secret: "qx_first"}
}

// resetOnce returns the function that a POST request runs within RunOnce: it resets the VM and returns an answer.
func (s *projectFixture) resetOnce(id fleet.VMID) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		job, err := s.RequestPowerAction(ctx, s.member, id, fleet.ActReset)
		return []byte("secret " + job.ID), err
	}
}

func TestRequestWithRepeatedIdempotencyKeyRunsOnce(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	before := s.countRows("audit")
	const tries = 8
	var got [tries]string
	var wait sync.WaitGroup
	for i := range tries {
		wait.Go(func() {
			answer, err := s.RunOnce(t.Context(), s.member, requestKey("order-1", "reset"), s.resetOnce(v.ID))
			if got[i] = string(answer); err != nil {
				got[i] = err.Error()
			}
		})
	}
	wait.Wait()
	for i := range tries {
		if !strings.HasPrefix(got[i], "secret ") || got[i] != got[0] {
			t.Errorf("try %d: %q, want %q", i, got[i], got[0])
		}
	}
	// A second reset coalesces only with a queued one. Mark the first reset as running, so that a repeated request would
	// queue another job.
	s.execSQL(`UPDATE jobs SET state = 'running', epoch = 1 WHERE kind = 'vm.reset'`)
	if again, err := s.RunOnce(t.Context(), s.member, requestKey("order-1", "reset"), s.resetOnce(v.ID)); err != nil || string(again) != got[0] {
		t.Errorf("later: %q %v", again, err)
	}
	if resets, lines := s.countRows("jobs WHERE kind = 'vm.reset'"), s.countRows("audit")-before; resets != 1 || lines != 1 {
		t.Errorf("%d resets and %d audit lines, not one of each", resets, lines)
	}
	if n := s.countRows("idempotency WHERE position('secret' in encode(answer, 'escape')) > 0"); n != 0 {
		t.Error("the answer lies open in the database")
	}

	again := func(a fleet.Actor, k control.IdempotencyKey) func() error {
		return func() error { _, err := s.RunOnce(t.Context(), a, k, s.resetOnce(v.ID)); return err }
	}
	s.wantRefused("another request", fleet.Conflict, "another request", again(s.member, requestKey("order-1", "start")))
	other := requestKey("order-1", "reset")
	other.Secret = "qx_second"
	s.wantRefused("another token", fleet.Conflict, "done already", again(s.member, other))
	s.wantRefused("too long", fleet.Malformed, "Idempotency-Key", again(s.member, requestKey(strings.Repeat("k", 201), "reset")))
	s.wantRefused("nobody", fleet.Unauthorized, "", again(fleet.Actor{}, requestKey("order-1", "reset")))

	s.execSQL(`UPDATE idempotency SET created_at = now() - interval '25 hours'`)
	if later, err := s.RunOnce(t.Context(), s.member, requestKey("order-1", "start"), s.resetOnce(v.ID)); err != nil || string(later) == got[0] {
		t.Errorf("after 24 hours: %q %v", later, err)
	}
}

// The key is stored in the transaction of the changes. If the portal crashes before the commit, neither the changes nor
// the key remain.
func TestIdempotencyKeyStoredInTransactionOfChanges(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	do := s.resetOnce(v.ID)
	for name, c := range map[string]struct {
		after func([]byte) ([]byte, error)
		says  string
	}{
		"a refusal later on": {func([]byte) ([]byte, error) { return nil, fleet.Errorf(fleet.Conflict, "No.") }, "No."},
		"a fault later on":   {func([]byte) ([]byte, error) { return nil, errors.New("broken") }, "broken"},
		"an endless answer":  {func([]byte) ([]byte, error) { return make([]byte, 1<<20+1), nil }, "too large to be stored"},
	} {
		before := s.stateSummary()
		_, err := s.RunOnce(t.Context(), s.member, requestKey("order-1", "reset"), func(ctx context.Context) ([]byte, error) {
			answer, err := do(ctx)
			if err != nil {
				return nil, err
			}
			// The request's context reads within the transaction and sees its changes. Other connections do not see them.
			if seen, err := s.ListTasks(ctx, s.member, fleet.Query{Filter: "kind:vm.reset"}); err != nil || len(seen.Items) != 1 {
				t.Errorf("%s: the transaction sees %d resets, %v", name, len(seen.Items), err)
			}
			if n := s.countRows("jobs WHERE kind = 'vm.reset'"); n != 0 {
				t.Errorf("%s: %d resets are visible before the commit", name, n)
			}
			return c.after(answer)
		})
		if !strings.Contains(fmt.Sprint(err), c.says) || s.stateSummary() != before {
			t.Errorf("%s: %v; %s before, %s after", name, err, before, s.stateSummary())
		}
	}
	if _, err := s.RunOnce(t.Context(), s.member, requestKey("order-1", "reset"), do); err != nil {
		t.Errorf("the key cannot be used again: %v", err)
	}
}

func TestStoredResponseDecryptedOnlyWithOriginalTokenAndKey(t *testing.T) {
	t.Parallel()
	sealed, err := auth.Seal("qx_a", "order-1", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{"qx_a", "order-1", "text"}, {"qx_b", "order-1"}, {"qx_a", "order-2"}} {
		if text, ok := auth.Unseal(c[0], c[1], sealed); string(text) != c[2] || ok != (c[2] != "") {
			t.Errorf("%q, %q: %q %v", c[0], c[1], text, ok)
		}
	}
	if _, ok := auth.Unseal("qx_a", "order-1", nil); ok {
		t.Error("nothing was opened")
	}
}
