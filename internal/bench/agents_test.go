package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const (
	fewAgents     = 1000
	allAgents     = 5000
	intentSamples = 1000
	warmIntents   = 400 // warm-up: the portal's database connections prepare their statements
	parkBatch     = 200 // number of agents that park at the same time
	massSamples   = 3
	manyJobs      = 20_000 // ten jobs for each of 2,000 hosts
)

// BenchmarkAgents measures the delivery of jobs to agents. It uses a real portal process, a PostgreSQL that flushes to
// disk, agents over mutual TLS with all their connections, and VM jobs that carry specs and return status.
func BenchmarkAgents(b *testing.B) {
	r := newRigOn(b, fleet10kURL(b))
	p := startPortal(b, r)
	certs := newHostCerts(b, r.control)
	flushCommits(b, r.pool, false) // opening the sessions is not measured
	few := p.openSessions(b, certs, 1, fewAgents)
	ctx, stop := context.WithCancel(b.Context())
	got := make(chan fleet.HostID, manyJobs)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	park := func(callers []*agentCaller, all int) { // in batches, because both ends of each handshake use this machine's processors
		for i, c := range callers {
			working.Go(func() { c.runJobs(ctx, b, got) })
			if here := all - len(callers) + i + 1; here%parkBatch == 0 {
				pollUntil(b, "some more agents are parked", func() bool { return p.metric("quantix_claims_parked") >= float64(here-parkBatch/2) })
			}
		}
		pollUntil(b, "all agents are parked", func() bool { return p.agentsParked(all) })
	}
	park(few, fewAgents)
	flushCommits(b, r.pool, true)
	for range b.N {
		raw := measureRawNotify(b, r)
		took, alone := measureJobDelivery(b, r, few, got)
		goals.Intent.Record(b, took.percentile(0.99) <= 4*time.Millisecond, took.String()+" ms, one at a time "+alone.String(), "bare INSERT + NOTIFY "+raw.String(), took.ratioTo(raw))
		flushCommits(b, r.pool, false)
		all := slices.Concat(few, p.openSessions(b, certs, fewAgents+1, allAgents))
		park(all[fewAgents:], allAgents)
		flushCommits(b, r.pool, true)
		raw = measureRawNotify(b, r)
		took, alone = measureJobDelivery(b, r, all, got)
		goals.IntentAll.Record(b, took.percentile(0.99) <= 8*time.Millisecond, took.String()+" ms, one at a time "+alone.String(), "bare INSERT + NOTIFY "+raw.String(), took.ratioTo(raw))
		measureMassJobs(b, r, p, got)
		measureThroughput(b, r, p, got)
		break // the agents are parked only once
	}
}

var fleet10kTemplate string

// fleet10kURL returns the URL of a copy of a database with 10,000 hosts and ten VMs on each. The original is filled
// only once.
func fleet10kURL(b *testing.B) string {
	b.Helper()
	if fleet10kTemplate == "" {
		fleet10kTemplate = databaseOf(b, newFilledDatabase(b, fleet10kHosts, fleet10kVMs, `INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'admin', 'admin', '')`))
	}
	return durableURL(b, fleet10kTemplate)
}

// measureJobDelivery measures how long it takes from the SQL statement that queues a job, including the commit, until
// the host's agent has the job. The portal is warm. The times took are of jobs that follow one another while earlier
// results are still being sent. The times alone are of jobs that are each queued after the end of the job before.
func measureJobDelivery(b *testing.B, r *rig, callers []*agentCaller, got chan fleet.HostID) (took, alone durations) {
	b.Helper()
	one := func() time.Duration {
		c := callers[rand.IntN(len(callers))]
		began := time.Now()
		// Use a prepared statement, as the portal does.
		r.exec(b, insertJobsSQL(fleet.VMApply, "id = $1"), c.vmID(fleet10kHosts, rand.IntN(9)))
		if host := <-got; host != c.id {
			b.Fatalf("the job of %s came to %s", c.id, host)
		}
		return time.Since(began)
	}
	for range warmIntents {
		one()
	}
	for range intentSamples {
		took = append(took, one())
	}
	r.waitJobsEnded(b)
	for range intentSamples / 4 {
		before := finished.Load()
		alone = append(alone, one())
		for finished.Load() == before {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return took, alone
}

// measureMassJobs measures one job for each waiting agent, all queued at once. The reference is the time that plain
// net/http takes to handle two requests of each agent.
func measureMassJobs(b *testing.B, r *rig, p *portal, got chan fleet.HostID) {
	b.Helper()
	var begun, ended durations
	for range massSamples {
		pollUntil(b, "all agents are parked", func() bool { return p.agentsParked(allAgents) })
		began := time.Now()
		r.exec(b, insertJobsSQL(fleet.VMApply, fmt.Sprintf("id > '%s' AND id <= '%s'", seedID(1_000_000), seedID(1_000_000+allAgents-1))+fmt.Sprintf(" OR id = '%s'", seedID(1_000_000+fleet10kHosts))))
		for range allAgents {
			<-got
		}
		begun = append(begun, time.Since(began))
		r.waitJobsEnded(b)
		ended = append(ended, time.Since(began))
	}
	bare := bareRequests(b, 2*allAgents)
	goals.Mass.Record(b, fmt.Sprintf("begun %.2f s, ended %.2f s", begun.percentile(0.5).Seconds(), ended.percentile(0.5).Seconds()),
		fmt.Sprintf("net/http alone, two requests per job, no TLS: %.2f s", bare.Seconds()), ended.percentile(0.5).Seconds()/bare.Seconds())
}

// measureThroughput measures how many jobs per second 2,000 agents complete with ten jobs each, from the creation of
// the jobs to the end of the last one.
func measureThroughput(b *testing.B, r *rig, p *portal, got chan fleet.HostID) {
	b.Helper()
	var rate []float64
	for range massSamples {
		pollUntil(b, "all agents are parked", func() bool { return p.agentsParked(allAgents) })
		began := time.Now()
		r.exec(b, insertJobsSQL(fleet.VMApply, fmt.Sprintf("host_id <= '%s'", seedID(manyJobs/10))))
		for range manyJobs {
			<-got
		}
		r.waitJobsEnded(b)
		rate = append(rate, manyJobs/time.Since(began).Seconds())
	}
	best := max(rate[0], rate[1], rate[2])
	bare := manyJobs / bareRequests(b, manyJobs).Seconds()
	goals.Throughput.Record(b, fmt.Sprintf("%.0f jobs/s", best), fmt.Sprintf("net/http alone, one request per job, no TLS: %.0f/s", bare), best/bare)
}

// waitJobsEnded waits until no job is unfinished. Its query uses the queue's indexes, because the query's cost is part
// of the measurement.
func (r *rig) waitJobsEnded(b *testing.B) {
	b.Helper()
	pollUntil(b, "all jobs have ended", func() bool {
		var open bool
		if err := r.pool.QueryRow(b.Context(), `SELECT EXISTS (SELECT FROM jobs WHERE state = 'queued' AND run_after <= 'infinity') OR EXISTS (SELECT FROM jobs WHERE state = 'running' AND started_at IS NOT NULL)`).Scan(&open); err != nil {
			b.Fatal(err)
		}
		return !open
	})
}

// bareRequests returns the time that plain net/http takes to handle n requests on a thousand open connections.
func bareRequests(b *testing.B, n int) (took time.Duration) {
	b.Helper()
	const agents = 1000
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer bare.Close()
	client := newClient()
	defer client.CloseIdleConnections()
	for range 2 { // the first round opens the connections
		began := time.Now()
		var all sync.WaitGroup
		for range agents {
			all.Go(func() {
				h := hostSession{}
				for range n / agents {
					h.call(b.Context(), client, bare.URL, wire.PathClaim, wire.ClaimRequest{Max: 4}, nil)
				}
			})
		}
		all.Wait()
		took = time.Since(began)
	}
	return took
}

func measureRawNotify(b *testing.B, r *rig) durations {
	b.Helper()
	listener, err := pgx.ConnectConfig(b.Context(), r.pool.Config().ConnConfig)
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close(context.Background())
	for _, sql := range []string{"LISTEN bench", "CREATE TABLE IF NOT EXISTS bench_raw (id bigint GENERATED ALWAYS AS IDENTITY, body text)"} {
		if _, err := listener.Exec(b.Context(), sql); err != nil {
			b.Fatal(err)
		}
	}
	var took durations
	for range intentSamples {
		began := time.Now()
		r.exec(b, `WITH i AS (INSERT INTO bench_raw (body) VALUES ('x')) SELECT pg_notify('bench', 'x')`)
		if _, err := listener.WaitForNotification(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}
