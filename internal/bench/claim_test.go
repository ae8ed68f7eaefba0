package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const (
	idleAgents   = 1000
	claimSamples = 500
)

// BenchmarkIntentToAgent measures from the intent's INSERT, its commit included, to its host's agent having the job, with a thousand agents
// parked over real HTTP. Limit: p99 ≤ 10 ms. Beside it: a bare INSERT and NOTIFY to a LISTEN.
func BenchmarkIntentToAgent(b *testing.B) {
	r := newRig(b)
	r.addHosts(b, idleAgents)
	ctx, stop := context.WithCancel(b.Context())
	client := newClient()
	got := make(chan wire.Work, 1)
	var parked sync.WaitGroup
	for _, h := range r.hosts {
		parked.Go(func() { h.work(ctx, client, r.agents.URL, got) })
	}
	defer parked.Wait()
	defer stop()
	await(b, "all agents are parked", func() bool { n, ok := r.parked(); return ok && n == idleAgents })
	b.ResetTimer()
	for range b.N {
		var took spread
		for i := range claimSamples {
			h := r.hosts[rand.IntN(len(r.hosts))]
			began := insertJob(b, r, h, i)
			<-got
			took = append(took, time.Since(began))
		}
		took.report(b, "intent-to-agent")
		b.ReportMetric(10, "limit-p99-ms")
		rawNotify(b, r).report(b, "raw-insert-notify")
	}
	b.StopTimer()
}

// work claims for ever, as an agent does, and ends each job it gets.
func (h hostSession) work(ctx context.Context, client *http.Client, base string, got chan<- wire.Work) {
	for ctx.Err() == nil {
		var claim wire.Claim
		status, err := h.call(ctx, client, base, wire.PathClaim, wire.ClaimRequest{Max: 4}, &claim)
		if err != nil || status != http.StatusOK {
			continue
		}
		for _, w := range claim.Jobs {
			got <- w
			h.seq++
			h.call(ctx, client, base, wire.PathJobs+string(w.ID)+"/finish", wire.Finish{Epoch: w.Epoch, Generation: 1, Seq: h.seq, Outcome: wire.Done}, nil)
		}
	}
}

// insertJob commits what an intent commits and returns when that began: both figures include the commit.
func insertJob(b *testing.B, r *rig, h hostSession, i int) time.Time {
	b.Helper()
	began := time.Now()
	_, err := db.New(r.pool).QueueJob(b.Context(), db.QueueJobParams{
		ID: fleet.NewID[fleet.JobID](), HostID: h.id, Kind: fleet.PoolApply, Subject: fleet.Subject(fmt.Sprintf("pool:%d", i)), SubjectName: "bench", Generation: 1, CreatedBy: "bench",
	})
	if err != nil {
		b.Fatal(err)
	}
	return began
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
	for range claimSamples {
		began := time.Now()
		if _, err := r.pool.Exec(b.Context(), `WITH i AS (INSERT INTO bench_raw (body) VALUES ('x')) SELECT pg_notify('bench', 'x')`); err != nil {
			b.Fatal(err)
		}
		if _, err := listener.WaitForNotification(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	return took
}
