package bench

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/load"
	"quantix/internal/testkit/goals"
)

const beatingHosts = 9500

// BenchmarkTenThousand runs the portal's process with 10,000 hosts and 100,000 VMs: 9,500 agents send heartbeats with a
// meter for each running VM, 20 VMs change per second, and four users open pages. BENCH_FOR sets the duration ("10m");
// the default is 40 s.
func BenchmarkTenThousand(b *testing.B) {
	lasting, err := time.ParseDuration(cmp.Or(os.Getenv("BENCH_FOR"), "40s"))
	if err != nil {
		b.Fatal(err)
	}
	r := newRigOn(b, fleet10kURL(b))
	r.exec(b, `UPDATE host_sessions SET seen_at = now() - interval '1 day'`)
	p := startPortal(b, r)
	certs := newHostCerts(b, r.control)
	joined, trusted := make([]load.Host, beatingHosts), certs.authority.Pool()
	for i := range joined {
		joined[i] = load.Host{ID: fleet.HostID(seedID(i + 1)), Name: fmt.Sprintf("host-%05d", i+1), CA: trusted}
		joined[i].Certificate = certs.certificateOf(b, joined[i].ID)
	}
	for range b.N {
		f, err := load.Run(b.Context(), load.Options{
			Portal: p.url, Token: p.token(), Agents: p.agents, Joined: joined, Change: 20, People: 4, For: lasting, Report: lasting / 6,
			Portals: load.SingleProcess(p.pid), Postgres: postgresProcesses(), Out: logWriter{b},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Log(f.Table())
		worst, at := 0.0, ""
		for _, kind := range slices.Sorted(func(yield func(string) bool) {
			for k := range f.PagesOf {
				if !yield(k) {
					return
				}
			}
		}) {
			if t := f.PagesOf[kind]; t.P99 > worst {
				worst, at = t.P99, kind
			}
		}
		met := f.Portal.Cores+f.Postgres.Cores <= 0.8 && f.Portal.RSS <= 600<<20 && worst <= 50 && f.Beats.P99 <= 50 && f.Errors == 0 && f.Wrong == 0
		goals.Fleet.Record(b, met, fmt.Sprintf("portal %.2f + PostgreSQL %.2f core, %d + %d MB; heartbeats %.0f/s p99 %.0f; worst page: %s p99 %.0f ms; errors %d, for %.0f s",
			f.Portal.Cores, f.Postgres.Cores, f.Portal.RSS>>20, f.Postgres.RSS>>20, f.Beats.Rate, f.Beats.P99, strings.ToLower(at), worst, f.Errors, f.Seconds),
			fmt.Sprintf("the load itself %.2f core", f.Load.Cores), (f.Portal.Cores+f.Postgres.Cores)/f.Load.Cores)
	}
}

// logWriter writes lines to the benchmark's log.
type logWriter struct{ b *testing.B }

func (l logWriter) Write(text []byte) (int, error) {
	l.b.Log(strings.TrimSpace(string(text)))
	return len(text), nil
}
