package bench

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

const (
	beatHosts   = 2000
	beatClients = 256
	beatFor     = 5 * time.Second
)

// BenchmarkHeartbeats measures reports in which nothing changed, over real HTTP, client and server on the same cores. Limit:
// ≥ 5,000 hosts' reports a second, and not one new row version in vms.
func BenchmarkHeartbeats(b *testing.B) {
	r := newRig(b)
	r.addHosts(b, beatHosts)
	seedVMs(b, r, 2000)
	client := newClient()
	for range b.N {
		before := rowVersions(b, r)
		var sent atomic.Int64
		end := time.Now().Add(beatFor)
		var all sync.WaitGroup
		for i := range beatClients {
			all.Go(func() {
				for n := i; time.Now().Before(end); n += beatClients {
					h := r.hosts[n%len(r.hosts)]
					var answer wire.ReportAnswer
					status, err := h.call(b.Context(), client, r.agents.URL, wire.PathReport, wire.Report{
						Seq: h.seq + 1, Digest: "d", Load: &fleet.HostMeter{CPUPercent: 12, MemoryUsed: 1 << 30, MemoryTotal: 2 << 30},
					}, &answer)
					if err != nil || status != http.StatusOK || answer.Resend {
						b.Errorf("heartbeat: status %d, %+v, %v", status, answer, err)
						return
					}
					sent.Add(1)
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(sent.Load())/beatFor.Seconds(), "heartbeats/s")
		b.ReportMetric(5000, "limit-heartbeats/s")
		written := 0
		for v := range rowVersions(b, r) {
			if !before[v] {
				written++
			}
		}
		b.ReportMetric(float64(written), "new-vm-row-versions")
		if written > 0 {
			b.Error("a heartbeat in which nothing changed wrote VMs")
		}
	}
}

// rowVersions names every row version that vms has.
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
