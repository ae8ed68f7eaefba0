package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// agentCaller is an agent's side of the protocol with the real portal: a wire.Client over mutual TLS, with all its
// connections.
type agentCaller struct {
	number int // number of the host in testkit.Seed
	id     fleet.HostID
	client *wire.Client
	seq    atomic.Int64
}

const (
	fleet10kHosts = 10_000
	fleet10kVMs   = 100_000
)

// openSessions opens the agents' sessions of the hosts with the numbers from…to in testkit.Seed.
func (p *portal) openSessions(b *testing.B, certs hostCerts, from, to int) []*agentCaller {
	b.Helper()
	began := time.Now()
	out := make([]*agentCaller, to-from+1)
	trusted := certs.authority.Pool()
	atOnce(len(out), 16, func(i int) {
		c := &agentCaller{number: from + i, id: fleet.HostID(seedID(from + i))}
		shown := wire.Credentials{Certificate: certs.certificateOf(b, c.id), CA: trusted}
		var err error
		if c.client, err = wire.NewClient(p.agents, func() wire.Credentials { return shown }); err != nil {
			b.Error(err)
			return
		}
		answer, err := c.client.Hello(b.Context(), wire.Hello{Instance: "bench", Fingerprint: "bench"})
		for tries := 1; err != nil && tries < 20; tries++ { // real agents retry, too, and this call is not measured
			time.Sleep(500 * time.Millisecond)
			answer, err = c.client.Hello(b.Context(), wire.Hello{Instance: "bench", Fingerprint: "bench"})
		}
		if err != nil {
			b.Errorf("hello of %s: %v", c.id, err)
			return
		}
		c.seq.Store(answer.SeqBase)
		out[i] = c
	})
	if b.Failed() {
		b.FailNow()
	}
	b.Cleanup(func() {
		for _, c := range out {
			c.client.Close()
		}
	})
	b.Logf("%d agents have said hello in %s", len(out), time.Since(began).Round(time.Second))
	return out
}

// atOnce calls do for the numbers below n, with at most limit calls at the same time.
func atOnce(n, limit int, do func(int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range limit {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// vmID returns the ID of the n-th VM on the caller's host, in a fleet with the given number of hosts.
func (c *agentCaller) vmID(hosts, n int) fleet.VMID {
	return fleet.VMID(seedID(1_000_000 + c.number - 1 + hosts*(1+n)))
}

// failedCalls counts failed claims and results. finished counts all results that the portal answered.
var failedCalls, finished atomic.Int64

// runJobs claims jobs until ctx ends, as an agent does, and finishes four of them at a time.
func (c *agentCaller) runJobs(ctx context.Context, b *testing.B, got chan<- fleet.HostID) {
	for ctx.Err() == nil {
		claim, err := c.client.Claim(ctx, wire.ClaimRequest{Max: 32})
		if err != nil {
			if ctx.Err() == nil && failedCalls.Add(1) == 1 {
				b.Errorf("claim: %v", err) // report only the first error
			}
			continue
		}
		for range claim.Jobs {
			got <- c.id
		}
		atOnce(len(claim.Jobs), 4, func(i int) { c.finish(ctx, b, claim.Jobs[i]) })
	}
}

// finish reports a job's result with its VM's status.
func (c *agentCaller) finish(ctx context.Context, b *testing.B, w wire.Work) {
	out := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: c.seq.Add(1), Outcome: wire.Done}
	if w.VM == nil {
		b.Errorf("%s job without its VM", w.Kind)
		return
	}
	out.VM = w.VM.Status
	if _, err := c.client.Finish(ctx, w.ID, out); err != nil && ctx.Err() == nil && failedCalls.Add(1) == 1 {
		b.Errorf("finish: %v", err)
	}
	finished.Add(1)
}

// insertJobsSQL returns the SQL statement that inserts tasks and jobs of a kind for all VMs that match the condition.
func insertJobsSQL(kind fleet.JobKind, where string) string {
	return fmt.Sprintf(`WITH job AS (
		INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation)
		SELECT n.id, n.id, n.host_id, '%s', 'vm:' || n.vm, '{}', 1 FROM (SELECT gen_random_uuid()::text AS id, host_id, id AS vm FROM vms WHERE %s) n RETURNING id, host_id, subject
	) INSERT INTO tasks (id, host_id, kind, subject, subject_name, generation, created_by) SELECT id, host_id, '%s', subject, 'bench', 1, 'bench' FROM job`, kind, where, kind)
}
