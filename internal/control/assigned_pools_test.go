package control_test

import (
	"testing"
	"time"

	"quantix/internal/wire"
)

// The list of a host's pools changes soon after an assignment changes. Reports do not change it.
func TestHostListsAssignedPools(t *testing.T) {
	r := newHostFixture(t)
	r.drainHub()
	changes := r.hub.Subscribe("assigned")
	t.Cleanup(changes.Close)
	wantNotified := func(what string, want bool, sql string, args ...any) {
		t.Helper()
		r.execSQL(sql, args...)
		r.drainHub()
		if got := len(changes.TakeKeys()) > 0; got != want {
			t.Errorf("%s is notified of: %t", what, got)
		}
	}
	lists := func(want string) {
		t.Helper()
		got := ""
		for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			answer, err := r.Report(t.Context(), r.agent, wire.Report{Seq: r.seq, Digest: "d"})
			if err != nil {
				t.Fatal(err)
			}
			if got = ""; len(answer.Pools) > 0 {
				got = answer.Pools[0].Name + " " + answer.Pools[0].Spec.Path
			}
			if got == want {
				return
			}
		}
		t.Errorf("the host lists %q, want %q", got, want)
	}
	lists("")
	wantNotified("a pool that nobody has", false, `INSERT INTO pools (id, name, spec) VALUES ('p', 'fast', '{"kind":"dir","path":"/a"}')`)
	wantNotified("an assignment", true, `INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', 'p', $1, 'assign')`, r.agent.HostID)
	lists("fast /a")
	wantNotified("what the host reports", false, `UPDATE assignments SET status = '{"state":"active"}', observed_generation = 1, report_seq = 1, reported_at = now() WHERE object_id = 'p'`)
	wantNotified("another path", true, `UPDATE pools SET spec = '{"kind":"dir","path":"/b"}' WHERE id = 'p'`)
	lists("fast /b")
	wantNotified("a release", true, `UPDATE assignments SET asked = 'release' WHERE object_id = 'p'`)
	lists("")
	wantNotified("the end of it", true, `DELETE FROM assignments WHERE object_id = 'p'`)
	wantNotified("a network that a host has", false, `WITH n AS (INSERT INTO networks (id, name, kind) VALUES ('n', 'n', 'bridge') RETURNING id) SELECT 1 FROM n`)
	wantNotified("a network that a host has", false, `INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', 'n', $1, '{}')`, r.agent.HostID)
}

// Heartbeats of many hosts read the pool assignments once, not every second.
func TestPoolAssignmentsReadOnceForManyHeartbeats(t *testing.T) {
	r := newHostFixture(t)
	c, statements := recordedControl(t, r.pool.Config().ConnString())
	first := len(statements.statementsOnTable(t, "name: AssignedPools", func() error {
		// Send heartbeats for longer than assignmentCacheMinAge, within which changes are batched.
		for until := time.Now().Add(1200 * time.Millisecond); time.Now().Before(until); {
			if _, err := c.Report(t.Context(), r.agent, wire.Report{Seq: r.seq, Digest: "d"}); err != nil {
				return err
			}
		}
		return nil
	}))
	if first != 1 {
		t.Errorf("they are read %d times", first)
	}
}
