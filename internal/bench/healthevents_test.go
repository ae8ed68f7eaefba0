package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/load"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const (
	eventHosts     = 100
	eventsPerHost  = 10              // a second
	reportEvery    = 5 * time.Second // the pause of an agent whose events follow one another
	eventsOfReport = eventsPerHost * int(reportEvery/time.Second)
	eventsOfABurst = 30 * time.Second
)

// BenchmarkHealthEvents measures the processor time of portal and PostgreSQL for 1,000 events a second from 100 hosts over
// mutual TLS, without what both use while the hosts are connected and silent. Half of the events open or count up
// conditions. BENCH_FOR sets the duration; the default is 30 s.
func BenchmarkHealthEvents(b *testing.B) {
	lasting, err := time.ParseDuration(cmp.Or(os.Getenv("BENCH_FOR"), eventsOfABurst.String()))
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		r := newRigOn(b, newFilledDatabase(b, eventHosts, eventHosts, `INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'admin', 'admin', '')`))
		r.exec(b, `UPDATE host_sessions SET seen_at = now() - interval '1 day'`)
		p := startPortal(b, r)
		hosts := openEventHosts(b, r, p)
		portal, postgres := load.SingleProcess(p.pid), postgresProcesses()
		measure := func(during func()) (ofPortal, ofPostgres float64) {
			began, c1, c2 := time.Now(), portal.CPU(), postgres.CPU()
			during()
			seconds := time.Since(began).Seconds()
			return (portal.CPU() - c1).Seconds() / seconds, (postgres.CPU() - c2).Seconds() / seconds
		}
		idlePortal, idlePostgres := measure(func() { time.Sleep(lasting / 2) })
		var stored int
		withPortal, withPostgres := measure(func() { sendEvents(b, hosts, lasting) })
		if err := r.pool.QueryRow(b.Context(), `SELECT count(*) FROM host_events`).Scan(&stored); err != nil {
			b.Fatal(err)
		}
		rate := float64(stored) / lasting.Seconds()
		if rate < 0.9*eventHosts*eventsPerHost {
			b.Fatalf("only %.0f events a second were stored", rate)
		}
		ours, theirs := withPortal-idlePortal, withPostgres-idlePostgres
		goals.HealthEvents.Record(b, ours <= 0.1, fmt.Sprintf("%.3f core of the portal, %.3f core of PostgreSQL", ours, theirs),
			fmt.Sprintf("the same hosts without events %.3f + %.3f core", idlePortal, idlePostgres), (withPortal+withPostgres)/max(idlePortal+idlePostgres, 0.001))
	}
}

// openEventHosts connects hosts with sessions.
func openEventHosts(b *testing.B, r *rig, p *portal) (hosts []*wire.Client) {
	certs := newHostCerts(b, r.control)
	for i := range eventHosts {
		cert := certs.certificateOf(b, fleet.HostID(seedID(i+1)))
		client, err := wire.NewClient(p.agents, func() wire.Credentials {
			return wire.Credentials{Certificate: cert, CA: certs.authority.Pool()}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(client.Close)
		if _, err := client.Hello(b.Context(), wire.Hello{Instance: fmt.Sprint("bench-", i), Fingerprint: fmt.Sprint("bench-", i), Version: "bench"}); err != nil {
			b.Fatal(err)
		}
		hosts = append(hosts, client)
	}
	return hosts
}

// sendEvents sends the reports of each host, each host at its own time within reportEvery.
func sendEvents(b *testing.B, hosts []*wire.Client, lasting time.Duration) {
	ctx, cancel := context.WithTimeout(b.Context(), lasting)
	defer cancel()
	var senders sync.WaitGroup
	var failed atomic.Pointer[error]
	for i, client := range hosts {
		senders.Go(func() {
			time.Sleep(time.Duration(i) * reportEvery / eventHosts)
			tick := time.NewTicker(reportEvery)
			defer tick.Stop()
			for n := int64(0); ctx.Err() == nil; n += int64(eventsOfReport) {
				if err := client.ReportHealth(context.WithoutCancel(ctx), eventReport(n)); err != nil {
					failed.Store(&err)
					return
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	senders.Wait()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
}

// eventReport is a report after n earlier occurrences.
func eventReport(n int64) healthevent.Report {
	r := healthevent.Report{Instance: "bench", Number: n + int64(eventsOfReport)}
	for i := range eventsOfReport {
		f := healthevent.Finding{
			Object: fmt.Sprintf("gpu/0000:%02x:00.0", i), Code: "xid-79", Severity: fleet.AlarmCritical, Text: "The GPU has fallen off the bus (XID 79): pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
			Values: map[string]float64{"xid": 79}, Attributes: map[string]string{"model": "NVIDIA H100 80GB HBM3"},
		}
		if i%2 == 1 {
			f.Code, f.Severity, f.Values = "xid-31", fleet.AlarmInfo, map[string]float64{"xid": 31}
		}
		r.Occurrences = append(r.Occurrences, healthevent.Occurrence{Check: "gpu", Finding: f, Repeats: 1})
	}
	return r
}
