package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/pglocal"
	"quantix/internal/wire"
)

const (
	massAgents  = 2000
	massSamples = 3
)

// BenchmarkMass measures a job for each of many parked agents at once, on a PostgreSQL that flushes to the disk: until all have theirs, and
// until all have ended it. Beside it the same requests answered by net/http alone.
func BenchmarkMass(b *testing.B) {
	r := newDurableRig(b)
	carefully(b, r.pool, false) // what comes before is not measured
	r.addHosts(b, massAgents)
	carefully(b, r.pool, true)
	ctx, stop := context.WithCancel(b.Context())
	client := newClient()
	got := make(chan wire.Work, massAgents)
	var parked sync.WaitGroup
	for _, h := range r.hosts {
		parked.Go(func() { h.work(ctx, client, r.agents.URL, got) })
	}
	defer parked.Wait()
	defer stop()
	all := func() bool { n, ok := r.parked(); return ok && n == massAgents }
	await(b, "all agents are parked", all)
	b.ResetTimer()
	for range b.N {
		var begun, ended spread
		for range massSamples {
			began := time.Now()
			if _, err := r.pool.Exec(b.Context(), `WITH job AS (
				INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation)
				SELECT n.id, n.id, n.host, 'pool.apply', 'pool:' || n.id, '{}', 1 FROM (SELECT gen_random_uuid()::text AS id, id AS host FROM hosts) n RETURNING id, host_id, subject
			) INSERT INTO tasks (id, host_id, kind, subject, subject_name, generation, created_by) SELECT id, host_id, 'pool.apply', subject, 'bench', 1, 'bench' FROM job`); err != nil {
				b.Fatal(err)
			}
			for range massAgents {
				<-got
			}
			begun = append(begun, time.Since(began))
			await(b, "all jobs have ended", func() bool {
				var open int
				if err := r.pool.QueryRow(b.Context(), `SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')`).Scan(&open); err != nil {
					b.Fatal(err)
				}
				return open == 0
			})
			ended = append(ended, time.Since(began))
			await(b, "all agents are parked", all)
		}
		b.ReportMetric(massAgents/begun.at(0.5).Seconds(), "jobs-begun/s")
		b.ReportMetric(massAgents/ended.at(0.5).Seconds(), "jobs-ended/s")
		b.ReportMetric(massAgents/bareRequests(b, r, client).Seconds(), "net-http-alone/s")
	}
	b.StopTimer()
}

// bareRequests is how long net/http alone takes for the two requests of each job.
func bareRequests(b *testing.B, r *rig, client *http.Client) time.Duration {
	b.Helper()
	bare := httptest.NewServer(asHosts(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
	defer bare.Close()
	began := time.Now()
	var all sync.WaitGroup
	for _, h := range r.hosts {
		all.Go(func() {
			for range 2 {
				h.call(b.Context(), client, bare.URL, wire.PathClaim, wire.ClaimRequest{Max: 4}, nil)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// newDurableRig is newRig on a PostgreSQL that flushes to the disk.
func newDurableRig(b *testing.B) *rig {
	b.Helper()
	pg, err := pglocal.Start(b.Context(), pglocal.Options{Dir: reachable(b), DieWithParent: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { pg.Stop(context.Background()) })
	if err := db.Migrate(b.Context(), pg.URL()); err != nil {
		b.Fatal(err)
	}
	return rigOn(b, pg.URL())
}

// reachable is a directory that the database's own user can reach.
func reachable(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "quantix-bench-")
	if err == nil {
		b.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// carefully says whether a commit waits for the disk.
func carefully(b *testing.B, pool *pgxpool.Pool, wait bool) {
	b.Helper()
	sql := "ALTER DATABASE quantix RESET synchronous_commit"
	if !wait {
		sql = "ALTER DATABASE quantix SET synchronous_commit = off"
	}
	if _, err := pool.Exec(b.Context(), sql); err != nil {
		b.Fatal(err)
	}
	pool.Reset() // to connections that heed it
}
