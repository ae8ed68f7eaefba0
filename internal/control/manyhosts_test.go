//go:build ordeal

package control_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// returningHosts is the number of hosts that return at once, after an outage of the portal for example.
const returningHosts = 500

// 500 hosts say hello, report ten VMs each, and claim jobs at the same time. All are soon online again, with their VMs.
func TestManyHostsReturnAtOnce(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`DELETE FROM hosts`)
	testkit.SeedWithoutAnalyze(t, r.pool, returningHosts, 10*returningHosts)
	r.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 day', last_look = now() - interval '1 day'`)
	vms := map[fleet.HostID][]wire.VMReport{}
	rows, err := r.pool.Query(t.Context(), `SELECT host_id, id, name FROM vms`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var host fleet.HostID
		v := wire.VMReport{Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 512}}
		if err := rows.Scan(&host, &v.ID, &v.Name); err != nil {
			t.Fatal(err)
		}
		vms[host] = append(vms[host], v)
	}
	if err := rows.Err(); err != nil || len(vms) != returningHosts {
		t.Fatalf("%d hosts have VMs, %v", len(vms), err)
	}
	began := time.Now()
	var all sync.WaitGroup
	for id, reports := range vms {
		all.Go(func() {
			a := fleet.Actor{HostID: id, Name: "host", Address: "192.0.2.1"}
			hello, err := r.Hello(t.Context(), a, wire.Hello{Instance: string(id), Fingerprint: string(id)})
			if err != nil {
				t.Errorf("hello: %v", err)
				return
			}
			a.Session = hello.Session
			_, err = r.Report(t.Context(), a, wire.Report{
				Seq: hello.SeqBase + 1, Digest: "back", State: &wire.State{Host: fleet.HostStatus{Connected: true}, VMs: reports},
			})
			if err != nil {
				t.Errorf("report: %v", err)
			}
			if _, err := r.Claim(t.Context(), a, wire.ClaimRequest{Max: 8}, 0); err != nil {
				t.Errorf("claim: %v", err)
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	t.Logf("%d hosts returned within %s", returningHosts, took.Round(time.Millisecond))
	if took > fleet.Lease {
		t.Errorf("the hosts returned within %s, longer than a lease", took)
	}
	online := queryValue[int](r, `SELECT count(*) FROM host_sessions WHERE seen_at > now() - $1::interval`, fmt.Sprintf("%d seconds", int(took.Seconds())+1))
	running := queryValue[int](r, `SELECT count(*) FROM vms WHERE status->>'memoryMiB' = '512' AND status->>'power' = 'running' AND host_id = ANY (SELECT host_id FROM host_sessions WHERE seen_at > now() - interval '1 minute')`)
	if online < returningHosts || running != 10*returningHosts {
		t.Errorf("%d hosts are online with %d running VMs, want %d with %d", online, running, returningHosts, 10*returningHosts)
	}
}
