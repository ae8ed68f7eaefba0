package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const (
	tabsHosts   = 500
	tabsVMs     = 20_000
	tabsPeople  = 50
	tabsEach    = 20 // tabs of each user; the portal's limit is 40
	tabsReports = 50 // reports per second, each with tabsChanges changes
	tabsChanges = 4  // number of VMs that stop or start
	tabsWarm    = 15 * time.Second
	tabsFor     = 20 * time.Second
)

// BenchmarkTabs measures a thousand tabs on the list of VMs, with requests like those of static/js/live.js. Meanwhile
// 200 VMs per second stop or start by their hosts' reports. It reports the CPU use of portal and PostgreSQL (limit: 0.6
// cores), the duration of a refresh (limit: p99 ≤ 2 s) and the refresh interval that the portal sends. The reference is
// an event without data to as many streams of plain net/http.
func BenchmarkTabs(b *testing.B) {
	r := newRig(b)
	flushCommits(b, r.pool, false) // preparations are not measured
	testkit.Seed(b, r.pool, tabsHosts, tabsVMs)
	keepOnline(b, r)
	portal := startServerProcess(b, r, "tabs")
	defer portal.stop()
	base := "http://" + portal.address
	hosts := r.adoptHosts(b)
	people := make([]*http.Client, tabsPeople)
	for i := range people {
		people[i] = r.signInPerson(b, base, fmt.Sprintf("person-%d", i))
	}
	flushCommits(b, r.pool, true)
	ctx, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var seen tabResults
	for _, p := range people {
		for range tabsEach {
			all.Go(func() { seen.followList(ctx, p, base) })
		}
	}
	pollUntil(b, "all tabs follow", func() bool { return seen.open.Load() == tabsPeople*tabsEach })
	all.Go(func() { reportChanges(ctx, b, base, hosts) })
	var (
		cores            float64
		refresh          durations
		interval, failed int64
	)
	for range b.N {
		sleep(ctx, tabsWarm)
		seen.begin()
		ours, theirs := cpuOf(b, portal.cmd.Process.Pid), postgresCPU(b, r)
		sleep(ctx, tabsFor)
		mine, base := (cpuOf(b, portal.cmd.Process.Pid)-ours).Seconds()/tabsFor.Seconds(), (postgresCPU(b, r)-theirs).Seconds()/tabsFor.Seconds()
		b.ReportMetric(mine, "portal-cores")
		b.ReportMetric(base, "postgres-cores")
		b.ReportMetric(0.6, "limit-cores")
		took := seen.end()
		took.report(b, "refresh")
		b.ReportMetric(2000, "limit-refresh-p99-ms")
		b.ReportMetric(float64(len(took))/tabsFor.Seconds(), "refreshes/s")
		b.ReportMetric(float64(seen.pace.Load()), "said-seconds")
		b.ReportMetric(float64(seen.failed.Load()), "failed")
		cores, refresh, interval, failed = mine+base, took, seen.pace.Load(), seen.failed.Load()
	}
	stop()
	all.Wait()
	bare := bareStreams(b, tabsPeople*tabsEach)
	bare.report(b, "bare-change")
	goals.Tabs.Record(b, cores <= 0.6 && refresh.percentile(0.99) <= 2*time.Second && failed == 0,
		fmt.Sprintf("%.2f core, refresh %.0f/%.0f ms, the page says every %d s, %d failed", cores, milliseconds(refresh.percentile(0.5)), milliseconds(refresh.percentile(0.99)), interval, failed),
		fmt.Sprintf("a bare change to 1,000 streams %.0f/%.0f ms", milliseconds(bare.percentile(0.5)), milliseconds(bare.percentile(0.99))), refresh.ratioTo(bare))
}

// tabResults collects the results of the tabs.
type tabResults struct {
	open, pace, failed atomic.Int64
	mu                 sync.Mutex
	took               durations
}

func (s *tabResults) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = nil
}

func (s *tabResults) end() durations {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

// followList follows the list of VMs until ctx ends.
func (s *tabResults) followList(ctx context.Context, client *http.Client, base string) {
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"/events?key=vms&key=tasks&key=hosts", nil)
	res, err := client.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		s.failed.Add(1)
		return
	}
	defer res.Body.Close()
	s.open.Add(1)
	poked := map[string]chan struct{}{"vms": make(chan struct{}, 1), "head": make(chan struct{}, 1), "hosts": make(chan struct{}, 1)}
	go s.refreshOnEvents(ctx, client, base+"/vms", "vm-rows", 250*time.Millisecond, poked["vms"])
	go s.refreshOnEvents(ctx, client, base+"/vms", "vms-head", 5*time.Second, poked["head"])
	go s.refreshOnEvents(ctx, client, base+"/tree/hosts", "tree-hosts", 250*time.Millisecond, poked["hosts"])
	poke := func(name string) {
		select {
		case poked[name] <- struct{}{}:
		default:
		}
	}
	event := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		switch {
		case event == "pace" && strings.HasPrefix(line, "data: "):
			n, _ := strconv.Atoi(line[len("data: "):])
			s.pace.Store(int64(n))
		case line == "" && event == "vms":
			poke("vms")
			poke("head")
		case line == "" && event == "hosts":
			poke("hosts")
		}
		if line == "" {
			event = ""
		}
	}
}

// refreshOnEvents requests one element of the page after each event, but not more often than once per gap.
func (s *tabResults) refreshOnEvents(ctx context.Context, client *http.Client, address, id string, gap time.Duration, poked <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-poked:
		}
		began := time.Now()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		for name, value := range map[string]string{"HX-Request": "true", "HX-Target": id, "HX-Trigger": id, "Accept-Encoding": "gzip, deflate, br"} {
			req.Header.Set(name, value)
		}
		res, err := client.Do(req)
		if err != nil {
			if ctx.Err() == nil {
				s.failed.Add(1)
			}
			continue
		}
		if _, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			s.failed.Add(1)
		}
		res.Body.Close()
		s.mu.Lock()
		s.took = append(s.took, time.Since(began))
		s.mu.Unlock()
		sleep(ctx, gap-time.Since(began))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// signInPerson creates a user who sees all objects, and returns that user's signed-in browser.
func (r *rig) signInPerson(b *testing.B, base, name string) *http.Client {
	b.Helper()
	hash, err := auth.HashPassword(b.Context(), name+" and a password")
	if err == nil {
		_, err = r.pool.Exec(b.Context(), `INSERT INTO users (id, name, role, password_hash) VALUES ($1, $1, 'operator', $2)`, name, hash)
	}
	if err != nil {
		b.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 4 * tabsEach, DisableCompression: true}}
	res, err := client.PostForm(base+"/sign-in", url.Values{"name": {name}, "password": {name + " and a password"}})
	if err != nil {
		b.Fatal(err)
	}
	res.Body.Close()
	if res.Request.URL.Path != "/" || res.StatusCode != http.StatusOK {
		b.Fatalf("sign-in of %s failed: %d at %s", name, res.StatusCode, res.Request.URL)
	}
	return client
}

// reportingHost is a host of the fleet with the state that it reports.
type reportingHost struct {
	hostSession
	state wire.State
}

// adoptHosts opens the sessions of all hosts' agents, with the state that the database contains for each host.
func (r *rig) adoptHosts(b *testing.B) []*reportingHost {
	b.Helper()
	rows, err := r.pool.Query(b.Context(), `SELECT v.host_id, v.id, v.name, v.generation, v.status, m.mark FROM vms v JOIN vm_marks m ON m.vm_id = v.id ORDER BY v.host_id, v.id`)
	if err != nil {
		b.Fatal(err)
	}
	var hosts []*reportingHost
	var host fleet.HostID
	var vm wire.VMReport
	var status []byte
	var mark string
	_, err = pgx.ForEachRow(rows, []any{&host, &vm.ID, &vm.Name, &vm.Generation, &status, &mark}, func() error {
		if n := len(hosts); n == 0 || hosts[n-1].id != host {
			hosts = append(hosts, &reportingHost{hostSession{id: host}, wire.State{Host: fleet.HostStatus{Connected: true, Hypervisor: "libvirt 9.0.0"}}})
		}
		vm.Status = fleet.VMStatus{}
		vm.Proof = wire.OwnershipProof(vm.ID, mark)
		h := hosts[len(hosts)-1]
		err := json.Unmarshal(status, &vm.Status)
		h.state.VMs = append(h.state.VMs, vm)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, h := range hosts {
		actor := fleet.Actor{HostID: h.id, Name: "host", KeyHash: string(auth.KeyHash(tlsStateOf(string(h.id)).PeerCertificates[0]))}
		answer, err := r.control.Hello(b.Context(), actor, wire.Hello{Instance: "bench", Fingerprint: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		h.session, h.seq = answer.Session, answer.SeqBase
	}
	return hosts
}

// reportChanges makes the hosts report one after another, each with some VMs that have stopped or started.
func reportChanges(ctx context.Context, b *testing.B, base string, hosts []*reportingHost) {
	client := newClient()
	beat := time.NewTicker(time.Second / tabsReports)
	defer beat.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		h := hosts[n%len(hosts)]
		for i := range tabsChanges {
			vm := &h.state.VMs[(n/len(hosts)*tabsChanges+i)%len(h.state.VMs)]
			if vm.Status.Power = fleet.Running; n/len(hosts)%2 == 0 {
				vm.Status.Power = fleet.Stopped
			}
		}
		h.seq++
		if status, err := h.call(ctx, client, base, wire.PathReport, wire.Report{Seq: h.seq, Digest: strconv.Itoa(n), State: &h.state}, nil); (err != nil || status != http.StatusOK) && ctx.Err() == nil {
			b.Errorf("report: %d, %v", status, err)
		}
	}
}

// cpuOf returns the CPU time that a process has used.
func cpuOf(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // the process has just ended
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var ticks int64
	for _, f := range fields[11:15] { // its own CPU time, and that of its reaped child processes
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// postgresCPU returns the CPU time of all processes of the rig's database server.
func postgresCPU(b *testing.B, r *rig) time.Duration {
	b.Helper()
	var backend int
	if err := r.pool.QueryRow(b.Context(), `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		b.Fatal(err)
	}
	parent := func(pid int) int {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			n, _ := strconv.Atoi(fields[1])
			return n
		}
		return 0
	}
	server := parent(backend)
	sum := cpuOf(b, server)
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && parent(pid) == server {
			sum += cpuOf(b, pid)
		}
	}
	return sum
}

// bareStreams measures the time from a change until each of n streams of plain net/http has received it.
func bareStreams(b *testing.B, n int) durations {
	b.Helper()
	var mu sync.Mutex
	var changed time.Time
	wake := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w)
		now := func() chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return wake
		}
		for next := now(); flush.Flush() == nil; {
			select {
			case <-r.Context().Done():
				return
			case <-next:
				next = now() // before any client receives this event
				io.WriteString(w, "event: vms\ndata:\n\n")
			}
		}
	}))
	defer server.Close()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	received := make(chan time.Duration, n)
	var open atomic.Int64
	for range n {
		go func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			res, err := client.Do(req)
			if err != nil {
				return
			}
			defer res.Body.Close()
			open.Add(1)
			for lines := bufio.NewScanner(res.Body); lines.Scan(); {
				if lines.Text() == "" {
					mu.Lock()
					began := changed
					mu.Unlock()
					received <- time.Since(began)
				}
			}
		}()
	}
	pollUntil(b, "all bare streams are open", func() bool { return open.Load() == int64(n) })
	var took durations
	for range 10 {
		mu.Lock()
		changed = time.Now()
		close(wake)
		wake = make(chan struct{})
		mu.Unlock()
		for range n {
			took = append(took, <-received)
		}
	}
	return took
}
