package bench

import (
	"fmt"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const planClaims = 50

// BenchmarkOldPlan measures claims on a database connection whose query plans were made while the queue was empty. Now
// 10,000 jobs are queued, 10,000 run and 20,000 have ended. The reference is a connection that makes its query plans
// now.
func BenchmarkOldPlan(b *testing.B) {
	at := durableURL(b, "")
	alone := func() *rig { // one connection, so that all later queries use its first plans
		pool, err := db.Open(b.Context(), at, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(pool.Close)
		return &rig{pool: pool, control: control.New(pool, control.Options{AgentURL: "https://portal.test"})}
	}
	old := alone()
	old.addHosts(b, 1)
	for _, table := range []string{"jobs", "tasks", "host_sessions", "vms", "pools", "assignments"} {
		old.exec(b, `ALTER TABLE `+table+` SET (autovacuum_enabled = off)`) // so that nothing invalidates the plans
		old.exec(b, `ANALYZE `+table)
	}
	h := old.hosts[0]
	old.exec(b, `WITH t AS (INSERT INTO tasks (id, kind, subject, subject_name, host_id, created_by) VALUES ('first', 'pool.apply', 'pool:first', 'p', $1, 'bench'))
		INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation) VALUES ('first', 'first', $1, 'pool.apply', 'pool:first', '{}', 1)`, h.id)
	claimTimes(b, old, h, 1)
	old.exec(b, `INSERT INTO hosts (id, name) SELECT 'host-' || n, 'host-' || n FROM generate_series(1, 2000) n`)
	old.exec(b, `INSERT INTO host_sessions (host_id) SELECT id FROM hosts ON CONFLICT DO NOTHING`)
	old.exec(b, `SET session_replication_role = replica`) // without triggers, which would notify and invalidate plans
	old.exec(b, `WITH made AS (
		INSERT INTO tasks (id, kind, subject, subject_name, host_id, created_by, state)
		SELECT '00000000-0000-7000-8000-' || lpad(n::text, 12, '0'), 'pool.apply', 'pool:' || n, 'p', CASE WHEN n <= 10000 THEN $1 ELSE 'host-' || n % 2000 + 1 END, 'somebody',
		       CASE WHEN n <= 10000 THEN 'queued' WHEN n <= 20000 THEN 'running' ELSE 'done' END
		FROM generate_series(1, 40000) n RETURNING id, kind, subject, host_id, state)
		INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation, state, lease_until)
		SELECT id, id, host_id, kind, subject, '{}', 1, state, CASE WHEN state = 'running' THEN now() + interval '1 hour' END FROM made`, h.id)
	old.exec(b, `RESET session_replication_role`)
	for range b.N {
		took := claimTimes(b, old, h, planClaims)
		fresh := claimTimes(b, alone(), h, planClaims)
		goals.OldPlan.Record(b, took.percentile(0.99) <= 5*time.Millisecond, fmt.Sprintf("%s ms (p50/p99)", took), "on a new connection "+fresh.String(), took.ratioTo(fresh))
	}
}

// claimTimes claims four jobs at a time, n times.
func claimTimes(b *testing.B, r *rig, h hostSession, n int) (took durations) {
	b.Helper()
	actor := fleet.Actor{HostID: h.id, Name: "host", Session: h.session, KeyHash: string(auth.KeyHash(tlsStateOf(string(h.id)).PeerCertificates[0]))}
	for range n {
		began := time.Now()
		got, err := r.control.Claim(b.Context(), actor, wire.ClaimRequest{Max: 4}, time.Second)
		if err != nil || len(got.Jobs) == 0 {
			b.Fatalf("%d jobs, %v", len(got.Jobs), err)
		}
		took = append(took, time.Since(began))
	}
	return took
}
