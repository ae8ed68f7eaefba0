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
	allAgents     = 9900
	intentSamples = 1000
	intentsBefore = 400 // in which the portal's connections plan what they ask
	lot           = 200 // of agents that park at once
	massSamples   = 3
	manyJobs      = 20_000 // ten for each of 2,000 hosts
)

// BenchmarkAgents measures what passes between an intent and its host: the real portal's process, a PostgreSQL that flushes, agents over
// mutual TLS with all of their connections, and jobs about VMs, which carry their specs and bring their status back.
func BenchmarkAgents(b *testing.B) {
	r := rigOn(b, crowdURL(b))
	p := startPortal(b, r)
	made := newPasses(b, r.control)
	carefully(b, r.pool, false) // sessions are not measured
	few := p.call(b, made, 1, fewAgents)
	ctx, stop := context.WithCancel(b.Context())
	got := make(chan fleet.HostID, manyJobs)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	park := func(callers []*caller, all int) { // lot by lot: a handshake costs both sides on these cores
		for i, c := range callers {
			working.Go(func() { c.work(ctx, b, got) })
			if here := all - len(callers) + i + 1; here%lot == 0 {
				await(b, "some more agents are parked", func() bool { return p.metric("quantix_claims_parked") >= float64(here-lot/2) })
			}
		}
		await(b, "all agents are parked", func() bool { return p.parked(all) })
	}
	park(few, fewAgents)
	carefully(b, r.pool, true)
	for range b.N {
		raw := rawNotify(b, r)
		took, alone := intents(b, r, few, got)
		goals.Intent.Tell(b, took.at(0.99) <= 4*time.Millisecond, took.String()+" ms, one at a time "+alone.String(), "bare INSERT + NOTIFY "+raw.String(), took.to(raw))
		carefully(b, r.pool, false)
		all := slices.Concat(few, p.call(b, made, fewAgents+1, allAgents))
		park(all[fewAgents:], allAgents)
		carefully(b, r.pool, true)
		raw = rawNotify(b, r)
		took, alone = intents(b, r, all, got)
		goals.IntentAll.Tell(b, took.at(0.99) <= 8*time.Millisecond, took.String()+" ms, one at a time "+alone.String(), "bare INSERT + NOTIFY "+raw.String(), took.to(raw))
		mass(b, r, p, got)
		throughput(b, r, p, got)
		break // agents are parked once
	}
}

var crowd10k string

// crowdURL is a database with 10,000 hosts and ten VMs on each, filled once.
func crowdURL(b *testing.B) string {
	b.Helper()
	if crowd10k == "" {
		crowd10k = databaseOf(b, filled(b, crowdHosts, crowdVMs, `INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'admin', 'admin', '')`))
	}
	return durableURL(b, crowd10k)
}

// intents is from an intent's statement, its commit included, to its host's agent having the job, at a portal that has been at work for a
// while: one right after the other, while the results of those before are on their way; in alone each once the one before has ended.
func intents(b *testing.B, r *rig, callers []*caller, got chan fleet.HostID) (took, alone spread) {
	b.Helper()
	one := func() time.Duration {
		c := callers[rand.IntN(len(callers))]
		began := time.Now()
		r.exec(b, order(fleet.VMApply, "id = $1"), c.vm(crowdHosts, rand.IntN(9))) // planned once, as the portal's own
		if host := <-got; host != c.id {
			b.Fatalf("the job of %s came to %s", c.id, host)
		}
		return time.Since(began)
	}
	for range intentsBefore {
		one()
	}
	for range intentSamples {
		took = append(took, one())
	}
	r.allEnded(b)
	for range intentSamples / 4 {
		before := finished.Load()
		alone = append(alone, one())
		for finished.Load() == before {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return took, alone
}

// mass is a job for each parked agent at once. Beside it: what net/http alone takes for the two requests of each.
func mass(b *testing.B, r *rig, p *portal, got chan fleet.HostID) {
	b.Helper()
	var begun, ended spread
	for range massSamples {
		await(b, "all agents are parked", func() bool { return p.parked(allAgents) })
		began := time.Now()
		r.exec(b, order(fleet.VMApply, fmt.Sprintf("id > '%s' AND id <= '%s'", id(1_000_000), id(1_000_000+allAgents-1))+fmt.Sprintf(" OR id = '%s'", id(1_000_000+crowdHosts))))
		for range allAgents {
			<-got
		}
		begun = append(begun, time.Since(began))
		r.allEnded(b)
		ended = append(ended, time.Since(began))
	}
	bare := bareRequests(b, 2*allAgents)
	goals.Mass.Tell(b, fmt.Sprintf("begun %.2f s, ended %.2f s", begun.at(0.5).Seconds(), ended.at(0.5).Seconds()),
		fmt.Sprintf("net/http alone, both requests, no TLS: %.2f s", bare.Seconds()), ended.at(0.5).Seconds()/bare.Seconds())
}

// throughput is how fast jobs go through, ten for each of 2,000 agents, from their order to the last one's end.
func throughput(b *testing.B, r *rig, p *portal, got chan fleet.HostID) {
	b.Helper()
	var rate []float64
	for range massSamples {
		await(b, "all agents are parked", func() bool { return p.parked(allAgents) })
		began := time.Now()
		r.exec(b, order(fleet.VMApply, fmt.Sprintf("host_id <= '%s'", id(manyJobs/10))))
		for range manyJobs {
			<-got
		}
		r.allEnded(b)
		rate = append(rate, manyJobs/time.Since(began).Seconds())
	}
	best := max(rate[0], rate[1], rate[2])
	bare := manyJobs / bareRequests(b, manyJobs).Seconds()
	goals.Throughput.Tell(b, fmt.Sprintf("%.0f jobs/s", best), fmt.Sprintf("net/http alone, a request a job, no TLS: %.0f/s", bare), best/bare)
}

// allEnded waits until no job is open. It asks the queue's own indexes: what it costs would be measured too.
func (r *rig) allEnded(b *testing.B) {
	b.Helper()
	await(b, "all jobs have ended", func() bool {
		var open bool
		if err := r.pool.QueryRow(b.Context(), `SELECT EXISTS (SELECT FROM jobs WHERE state = 'queued' AND run_after <= 'infinity') OR EXISTS (SELECT FROM jobs WHERE state = 'running' AND started_at IS NOT NULL)`).Scan(&open); err != nil {
			b.Fatal(err)
		}
		return !open
	})
}

// bareRequests is how long net/http alone takes for so many requests, on a thousand connections that stand.
func bareRequests(b *testing.B, n int) (took time.Duration) {
	b.Helper()
	const agents = 1000
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer bare.Close()
	client := newClient()
	defer client.CloseIdleConnections()
	for range 2 { // the first round dials
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

func rawNotify(b *testing.B, r *rig) spread {
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
	var took spread
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
