//go:build ordeal

package control_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// PostgreSQL keeps plans of prepared statements as long as the connection. A plan made for an empty job queue must be
// fast for a full one.
func TestQueueQueryPlannedOnEmptyTableStaysFast(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]int{"with plans made for empty tables": 0, "with plans made while no job was queued": 60_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := testkit.DatabaseURL(t)
			pool, err := db.Open(t.Context(), at, 1) // one connection, so that plans made first are used later
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			others, err := pgx.Connect(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { others.Close(context.WithoutCancel(t.Context())) })
			r := &hostFixture{Control: control.New(pool, control.Options{}), t: t, pool: pool}
			r.agent = r.addHost("h1")
			r.sendHello("one", "here")
			for _, table := range []string{"jobs", "tasks", "host_sessions", "vms", "pools", "assignments"} {
				// Switch autovacuum off, because it would invalidate the plans.
				r.execSQL(`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`)
			}
			r.execSQL(`INSERT INTO hosts (id, name) SELECT 'host-' || n, 'host-' || n FROM generate_series(1, 2000) n`)
			r.execSQL(`INSERT INTO host_sessions (host_id) SELECT id FROM hosts ON CONFLICT DO NOTHING`)
			r.addJobs(others, 0, history)
			// End all jobs and vacuum, so that the indexes are large but have no live entries.
			for _, sql := range []string{`UPDATE jobs SET state = 'done', ended_at = now()`, `VACUUM jobs`, `ANALYZE`} {
				if _, err := others.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			testkit.TaskWithJob{Host: r.agent.HostID, Kind: fleet.PoolApply, Subject: "pool:first"}.Add(t, pool)
			w := r.claimJobs()
			if err := r.finishJob(w[0], wire.Finish{Outcome: wire.Done}); err != nil {
				t.Fatal(err)
			}
			r.addJobs(others, history, 40_000)
			if w = r.claimJobs(); len(w) != 8 {
				t.Fatalf("%d jobs were claimed, want 8", len(w))
			}
			session := queryValue[string](r, `SELECT array_agg(session)::text FROM host_sessions WHERE host_id = $1`, r.agent.HostID)
			for name, args := range map[string]string{
				"ClaimJobs":     fmt.Sprintf(`'30s', '{%s}', '%s', '{4}'`, r.agent.HostID, session),
				"LockResults":   fmt.Sprintf(`'{%s}', '{%s}', '%s'`, w[0].ID, r.agent.HostID, session),
				"EndJobs":       fmt.Sprintf(`'{%s}', '{done}', '{""}', '{""}'`, w[0].ID),
				"ReplaceLapsed": "'" + string(r.agent.HostID) + "'", // as each hello runs it
				"WornOut":       "'" + string(r.agent.HostID) + "'",
				"ReturnLapsed":  "'" + string(r.agent.HostID) + "'",
			} {
				read, plan := r.explainPrepared(name, args)
				if read > 500 {
					t.Errorf("%s reads %d blocks:\n%s", name, read, plan)
				}
			}
			if err := r.finishJob(w[0], wire.Finish{Outcome: wire.Done}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// addJobs adds n jobs: a quarter are queued for r's host, a quarter are running on other hosts, and the others have
// ended, some of them console jobs. It uses another connection and sends no notification, so that no plan is
// invalidated.
func (r *hostFixture) addJobs(others *pgx.Conn, after, n int) {
	r.t.Helper()
	_, err := others.Exec(r.t.Context(), `SET session_replication_role = replica`)
	if err == nil {
		_, err = others.Exec(r.t.Context(), `INSERT INTO jobs (id, host_id, kind, subject, generation, state, ended_at)
			SELECT 'console-' || $1 + n, 'host-1', 'console.open', 'vm:' || n, 1, 'done', now() FROM generate_series(1, $2::integer / 4) n`, after, n)
	}
	if err == nil {
		_, err = others.Exec(r.t.Context(), `WITH made AS (
			INSERT INTO tasks (id, kind, subject, subject_name, host_id, created_by, state)
			SELECT '00000000-0000-7000-8000-' || lpad(($2 + n)::text, 12, '0'), 'pool.apply', 'pool:' || $2 + n, 'p', CASE WHEN n <= $3 / 4 THEN $1 ELSE 'host-' || n % 2000 + 1 END, 'somebody',
			       CASE WHEN n <= $3 / 4 THEN 'queued' WHEN n <= $3 / 2 THEN 'running' ELSE 'done' END
			FROM generate_series(1, $3::integer) n RETURNING id, kind, subject, host_id, state)
			INSERT INTO jobs (id, task_id, host_id, kind, subject, generation, state, started_at, lease_until)
			SELECT id, id, host_id, kind, subject, 1, state, now(), CASE WHEN state = 'running' THEN now() + interval '1 hour' END FROM made`, r.agent.HostID, after, n)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}
