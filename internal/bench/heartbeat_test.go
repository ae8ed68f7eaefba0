package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/load"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const (
	beatHosts = 500
	beatFor   = 5 * time.Second
	barePosts = 20_000
)

// BenchmarkHeartbeats measures reports without changes, each with a meter for each of a host's 40 VMs, as fast as they
// can be sent: first without, then with metric values. It uses a real portal process, mutual TLS and a PostgreSQL that
// flushes to disk. Limits: 5,000 and 2,000 reports per second, and no new row version in the table vms.
func BenchmarkHeartbeats(b *testing.B) {
	r := newRigOn(b, fleetURL(b))
	p := startPortal(b, r)
	callers := p.openSessions(b, newHostCerts(b, r.control), 1, beatHosts)
	for _, c := range callers {
		_, err := c.client.Report(b.Context(), wire.Report{Seq: c.seq.Add(1), Digest: "d", State: &wire.State{}})
		if err != nil {
			b.Fatal(err)
		}
	}
	for range b.N {
		measureHeartbeats(b, r, callers, goals.Heartbeats, 5000, false)
		measureHeartbeats(b, r, callers, goals.MetricBeats, 2000, true)
	}
}

func measureHeartbeats(b *testing.B, r *rig, callers []*agentCaller, goal goals.Goal, least float64, withMetrics bool) {
	b.Helper()
	before := rowVersions(b, r)
	var sent atomic.Int64
	end := time.Now().Add(beatFor)
	var all sync.WaitGroup
	for _, c := range callers {
		report := wire.Report{
			Digest: "d", StateAgeMs: 1, Meters: make([]wire.Meter, fleetVMs/fleetHosts-1),
			Load: &fleet.HostMeter{CPUPercent: 12, MemoryUsed: 1 << 30, MemoryTotal: 2 << 30},
		}
		for i := range report.Meters {
			report.Meters[i] = wire.Meter{ID: c.vmID(fleetHosts, i), CPUNanos: 1 << 40, MemoryBytes: 1 << 31, ReadBytes: 1 << 34, WriteBytes: 1 << 34, ReceiveBytes: 1 << 33, SendBytes: 1 << 33}
		}
		if withMetrics {
			samples := load.NewSampler(string(c.id)).Samples(time.Now(), wireInterval.Seconds(), sampledVMsOf(c), []string{seedID(2001), seedID(2002), seedID(2003)})
			report.Samples = &samples
		}
		all.Go(func() {
			for time.Now().Before(end) {
				report.Seq = c.seq.Add(1)
				answer, err := c.client.Report(b.Context(), report)
				if err != nil || answer.Resend {
					b.Errorf("heartbeat: %+v, %v", answer, err)
					return
				}
				sent.Add(1)
			}
		})
	}
	all.Wait()
	rate, written := float64(sent.Load())/beatFor.Seconds(), 0
	for v := range rowVersions(b, r) {
		if !before[v] {
			written++
		}
	}
	if written > 0 {
		b.Errorf("heartbeats without changes wrote %d rows of vms", written)
	}
	bare := float64(barePosts) / bareRequests(b, barePosts).Seconds()
	goal.Record(b, rate >= least && written == 0, fmt.Sprintf("%.0f a second, %d rows", rate, written),
		fmt.Sprintf("net/http alone, no TLS: %.0f a second", bare), rate/bare)
}

// sampledVMsOf returns the VMs of the host's samples.
func sampledVMsOf(c *agentCaller) (vms []load.SampledVM) {
	for i := range fleetVMs/fleetHosts - 1 {
		vms = append(vms, load.SampledVM{ID: string(c.vmID(fleetHosts, i)), MemoryBytes: 2 << 30})
	}
	return vms
}

// rowVersions returns the set of all row versions in the table vms.
func rowVersions(b *testing.B, r *rig) map[string]bool {
	b.Helper()
	rows, err := r.pool.Query(b.Context(), `SELECT ctid::text || ' ' || xmin::text FROM vms`)
	if err != nil {
		b.Fatal(err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	out := make(map[string]bool, len(versions))
	for _, v := range versions {
		out[v] = true
	}
	return out
}

func seedVMs(b *testing.B, r *rig, n int) {
	b.Helper()
	_, err := r.pool.Exec(b.Context(), `
		WITH p AS (INSERT INTO projects (id, name) VALUES (gen_random_uuid()::text, 'bench') RETURNING id),
		     h AS (SELECT id, row_number() OVER () AS n, count(*) OVER () AS all_of_them FROM hosts)
		INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
		SELECT gen_random_uuid()::text, p.id, h.id, 'vm-' || i, '{"power":"running","cpus":2,"memoryMiB":2048,"firmware":"bios","disks":[],"nics":[]}',
		       '{"power":"running","cpus":2,"memoryMiB":2048}', 1
		FROM generate_series(1, $1) i CROSS JOIN p JOIN h ON h.n = 1 + i % h.all_of_them`, n)
	if err != nil {
		b.Fatal(err)
	}
}
