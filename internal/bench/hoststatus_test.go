package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

// BenchmarkHostStatusShown measures the time from a host's report that a pool has failed or recovered until a browser
// tab on the pool's page shows it. The tab sends requests like those of static/js/live.js. The fleet has 40 hosts,
// three pools on each, and 1,600 VMs. The reference is the tab's request for the changed part of the page alone.
func BenchmarkHostStatusShown(b *testing.B) {
	const samples = 60
	r := newRig(b)
	testkit.Seed(b, r.pool, 40, 1_600)
	keepOnline(b, r)
	portal := startServerProcess(b, r, "tabs")
	defer portal.stop()
	base := "http://" + portal.address
	h := r.adoptHosts(b)[0]
	for n := range 3 {
		h.state.Pools = append(h.state.Pools, wire.PoolReport{ID: fleet.PoolID(seedID(2001 + n)), Status: fleet.PoolStatus{State: fleet.PoolActive}})
	}
	flushCommits(b, r.pool, true)
	agent, person := newClient(), r.signInPerson(b, base, "person")
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/events?key=pool:"+seedID(2001), nil)
	if err != nil {
		b.Fatal(err)
	}
	res, err := person.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	poked := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if lines.Text() == "event: pool:"+seedID(2001) {
				select {
				case poked <- struct{}{}:
				default:
				}
			}
		}
	}()
	body := func() (text []byte, took time.Duration) {
		began := time.Now()
		req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/pools/"+seedID(2001), nil)
		for name, value := range map[string]string{"HX-Request": "true", "HX-Target": "pool-body", "HX-Trigger": "pool-body"} {
			req.Header.Set(name, value)
		}
		res, err := person.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		return text, time.Since(began)
	}
	for b.Loop() {
		var shown, alone durations
		for n := range samples {
			_, took := body()
			alone = append(alone, took)
			state, problem := fleet.PoolActive, ""
			if n%2 == 0 {
				state, problem = fleet.PoolFailed, fmt.Sprintf("no route, %d", n)
			}
			h.state.Pools[0].Status = fleet.PoolStatus{State: state, Error: problem, UsedBytes: int64(n)}
			h.seq++
			began := time.Now()
			answered := make(chan struct{})
			go func() { // the event may reach the tab before the portal's response reaches the host
				status, err := h.call(b.Context(), agent, base, wire.PathReport, wire.Report{Seq: h.seq, Digest: strconv.Itoa(n), State: &h.state}, nil)
				if err != nil || status != http.StatusOK {
					b.Errorf("report: %d, %v", status, err)
				}
				close(answered)
			}()
			for {
				select {
				case <-poked:
				case <-time.After(10 * time.Second):
					b.Fatal("the tab received no event")
				}
				if text, _ := body(); bytes.Contains(text, []byte("no route, "+strconv.Itoa(n))) == (state == fleet.PoolFailed) && (problem != "" || !strings.Contains(string(text), "no route, ")) {
					break
				}
			}
			shown = append(shown, time.Since(began))
			<-answered
			sleep(b.Context(), 300*time.Millisecond) // the minimum time between two refreshes of the tab
		}
		shown.report(b, "shown")
		goals.HostStatusShown.Record(b, shown.percentile(0.99) <= 300*time.Millisecond, fmt.Sprintf("%.0f/%.0f ms", milliseconds(shown.percentile(0.5)), milliseconds(shown.percentile(0.99))),
			fmt.Sprintf("the part of the page alone %.0f/%.0f ms", milliseconds(alone.percentile(0.5)), milliseconds(alone.percentile(0.99))), shown.ratioTo(alone))
	}
}
