package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/load"
	"quantix/internal/timeseries"
)

// scrapes is the number of measured scrapes.
const scrapes = 20

// BenchmarkScrapeOfFleet measures one scrape of the portal's /metrics by Prometheus: 10,000 running VMs on 250 hosts, each
// with all metrics.
func BenchmarkScrapeOfFleet(b *testing.B) {
	for range b.N {
		r := newRigOn(b, newFilledDatabase(b, sampledHosts, sampledVMs, `INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'admin', 'admin', '')`))
		r.exec(b, `UPDATE vms SET spec = spec || '{"power": "running"}', status = status || '{"power": "running"}'`)
		r.exec(b, `VACUUM ANALYZE vms`)
		p := startPortal(b, r)
		q := db.New(r.pool)
		for host := range sampledHosts {
			id := fleet.HostID(seedID(host + 1))
			var vms []load.SampledVM
			rows, err := r.pool.Query(b.Context(), `SELECT id FROM vms WHERE host_id = $1`, id)
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
				var vm string
				if err := rows.Scan(&vm); err != nil {
					b.Fatal(err)
				}
				vms = append(vms, load.SampledVM{ID: vm, MemoryBytes: 4 << 30})
			}
			if rows.Err() != nil {
				b.Fatal(rows.Err())
			}
			addNewestSample(b, r, q, id, load.NewSampler(string(id)), vms)
		}
		measureScrapes(b, r, p)
	}
}

func addNewestSample(b *testing.B, r *rig, q *db.Queries, host fleet.HostID, sampler *load.Sampler, vms []load.SampledVM) {
	b.Helper()
	layout, row := timeseries.NewRow(host, sampler.Samples(time.Now(), 10, vms, []string{seedID(2001), seedID(2002)}), func(timeseries.Object) bool { return true })
	text, hash, err := layout.Text()
	if err != nil {
		b.Fatal(err)
	}

	id, err := q.UseMetricLayout(b.Context(), db.UseMetricLayoutParams{HostID: host, Hash: hash[:], Layout: string(text)})
	if err != nil {
		b.Fatal(err)
	}
	r.exec(b, fmt.Sprintf(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) VALUES ('%s', now(), 10, %d, '\x%x')`, host, id, row))
}

// measureScrapes reports the time of a scrape, the processor time of the portal and PostgreSQL, the bytes, and the growth of
// the portal's memory.
func measureScrapes(b *testing.B, r *rig, p *portal) {
	portal, postgres := load.SingleProcess(p.pid), postgresProcesses()
	token := p.token()
	scrape := func() []byte {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, p.url+"/metrics?collect[]=fleet", nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Accept-Encoding", "gzip")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		packed, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer.StatusCode, err)
		}
		return packed
	}
	before := p.metric("process_resident_memory_bytes")
	r.exec(b, `UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL`)
	packed := scrape()
	cpu := portal.CPU() + postgres.CPU()
	began := time.Now()
	for range scrapes {
		packed = scrape()
	}
	took, used := time.Since(began)/scrapes, (portal.CPU()+postgres.CPU()-cpu)/scrapes
	after := p.metric("process_resident_memory_bytes")
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		b.Fatal(err)
	}
	plain := string(text)
	if n := strings.Count(plain, "\nquantix_vm_cpu_usage_ratio{"); n != sampledVMs {
		b.Fatalf("%d VMs have a value", n)
	}
	b.ReportMetric(float64(took.Milliseconds()), "ms/scrape")
	b.ReportMetric(float64(used.Milliseconds()), "cpu-ms/scrape")
	b.ReportMetric(float64(len(plain))/1e6, "MB/scrape")
	b.ReportMetric(float64(len(packed))/1e6, "MB-gzip/scrape")
	b.ReportMetric(before/(1<<20), "MiB-before")
	b.ReportMetric(after/(1<<20), "MiB-after")
	b.ReportMetric(float64(strings.Count(plain, "\n")-strings.Count(plain, "\n# ")), "lines/scrape")
}
