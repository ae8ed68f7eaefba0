package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"quantix/internal/cli"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

const (
	listVMs      = 100_000
	listHosts    = 200
	listClients  = 4
	listRequests = 100 // requests of each client
	listWarm     = 10  // warm-up requests of each client
)

// listQueries are the measured queries: filtered and sorted, the first page of a hundred.
var listQueries = []fleet.Query{
	{Filter: "state:running", Sort: "name", Limit: 100},
	{Filter: "name:vm-07* state:running", Sort: "-name", Limit: 100},
	{Filter: "host:host-042", Sort: "name", Limit: 100},
	{Filter: "label:env=prod", Sort: "-created", Limit: 100},
}

// BenchmarkVMList measures the complete page for signed-in users, four at a time. Limits: p99 ≤ 12 ms, and p50 ≤ 2.5
// times the reference. The reference is the same rows from package control without HTTP and HTML, with four queries at
// a time (query), and with one (alone).
func BenchmarkVMList(b *testing.B) {
	cli.TuneGarbageCollector() // as the portal does
	r := newRig(b)
	testkit.Seed(b, r.pool, listHosts, listVMs)
	server := httptest.NewServer(r.web.Handler())
	b.Cleanup(server.Close)
	client := newSignedInClient(b, r, server.URL)
	keepOnline(b, r)
	requestListPage(b, client, server.URL, listQueries[0]) // the first request fills caches
	b.ResetTimer()
	for range b.N {
		for _, q := range listQueries {
			fetchConcurrently(b, client, server.URL, q, listWarm) // prepares the statements on every database connection
			pages := fetchConcurrently(b, client, server.URL, q, listRequests)
			name := strings.NewReplacer(":", "=", " ", ",").Replace(q.Filter)
			pages.report(b, name+"-page")
			b.ReportMetric(12, "limit-p99-ms")
			r.queryTimes(b, q, listClients).report(b, name+"-query")
			r.queryTimes(b, q, 1).report(b, name+"-alone")
		}
	}
}

// BenchmarkCSV measures the export of all VMs as CSV, as a browser downloads it. Limit: 80,000 rows a second. The
// reference is PostgreSQL's COPY of the same columns.
func BenchmarkCSV(b *testing.B) {
	cli.TuneGarbageCollector()
	r := newRig(b)
	testkit.Seed(b, r.pool, listHosts, listVMs)
	server := httptest.NewServer(r.web.Handler())
	b.Cleanup(server.Close)
	client := newSignedInClient(b, r, server.URL)
	keepOnline(b, r)
	for b.Loop() {
		began := time.Now()
		if rows := downloadCSV(b, client, server.URL); rows != listVMs+1 {
			b.Fatalf("the file has %d lines", rows)
		}
		b.ReportMetric(listVMs/time.Since(began).Seconds(), "rows/s")
		b.ReportMetric(80_000, "limit-rows/s")
		b.ReportMetric(r.copyRate(b), "copy-rows/s")
	}
}

// downloadCSV downloads the CSV file and counts its lines.
func downloadCSV(b *testing.B, client *http.Client, base string) (lines int) {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/vms.csv", nil)
	if err != nil {
		b.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	piece := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(piece)
		lines += bytes.Count(piece[:n], []byte("\n"))
		switch {
		case errors.Is(err, io.EOF):
			return lines
		case err != nil:
			b.Fatal(err)
		}
	}
}

func (r *rig) copyRate(b *testing.B) (rows float64) {
	conn, err := r.pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	began := time.Now()
	done, err := conn.Conn().PgConn().CopyTo(b.Context(), io.Discard, `COPY (SELECT v.id, v.name, v.heard, h.name, p.name, v.cpus, v.memory_mib,
		jsonb_path_query_array(v.status, '$.nics[*].addresses[*]'), v.labels, v.description, v.created_at
		FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id) TO STDOUT (FORMAT csv)`)
	if err != nil {
		b.Fatal(err)
	}
	return float64(done.RowsAffected()) / time.Since(began).Seconds()
}

// fetchConcurrently requests a page from all clients at the same time, n times each.
func fetchConcurrently(b *testing.B, client *http.Client, base string, q fleet.Query, n int) durations {
	b.Helper()
	return measureConcurrently(listClients, n, func() time.Duration { return requestListPage(b, client, base, q) })
}

func measureConcurrently(clients, n int, do func() time.Duration) durations {
	var mu sync.Mutex
	var took durations
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range n {
				one := do()
				mu.Lock()
				took = append(took, one)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// checkedPages counts the received pages. One page in ten is decompressed and checked, which is not part of its
// measured time, because a browser does this on another machine.
var checkedPages atomic.Int64

func requestListPage(b *testing.B, client *http.Client, base string, q fleet.Query) time.Duration {
	began := time.Now()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/vms?"+url.Values{"filter": {q.Filter}, "sort": {q.Sort}}.Encode(), nil)
	if err != nil {
		b.Error(err)
		return 0
	}
	// Browsers send this header over TLS. If the header is set explicitly, the client does not decompress the body.
	req.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	res, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer res.Body.Close()
	body := bodies.Get().(*bytes.Buffer) // buffers are reused, because the client shares the server's processors and should use little CPU time
	defer bodies.Put(body)
	body.Reset()
	_, err = body.ReadFrom(res.Body)
	took := time.Since(began)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Encoding") != "br" {
		b.Errorf("%s: status %d, encoding %q, %v", q.Filter, res.StatusCode, res.Header.Get("Content-Encoding"), err)
	} else if checkedPages.Add(1)%10 == 0 {
		checkRows(b, q, body)
	}
	return took
}

// checkRows fails the benchmark unless a page has a hundred rows.
func checkRows(b *testing.B, q fleet.Query, body io.Reader) {
	page, err := io.ReadAll(brotli.NewReader(body))
	if rows := bytes.Count(page, []byte(`<tr id="vm-`)); err != nil || rows != 100 {
		b.Errorf("%s: %d rows, %v", q.Filter, rows, err)
	}
}

// queryTimes measures the query through package control, with the given number of clients. Each client sends as many
// requests as for the page.
func (r *rig) queryTimes(b *testing.B, q fleet.Query, clients int) durations {
	b.Helper()
	return measureConcurrently(clients, listRequests, func() time.Duration {
		began := time.Now()
		page, err := r.control.ListVMRows(b.Context(), fleet.Actor{UserID: "bench", Name: "bench", Role: fleet.RoleAdmin}, q)
		if err != nil || len(page.Items) != 100 {
			b.Errorf("%s: %d rows, %v", q.Filter, len(page.Items), err)
		}
		return time.Since(began)
	})
}

// newSignedInClient creates the first administrator, signs in and changes the one-time password.
func newSignedInClient(b *testing.B, r *rig, base string) *http.Client {
	b.Helper()
	password, _, err := r.control.EnsureAdmin(b.Context(), fleet.SystemActor)
	if err != nil {
		b.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	post := func(path string, form url.Values) {
		res, err := client.PostForm(base+path, form)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(res.Body)
			b.Fatalf("%s: %d\n%s", path, res.StatusCode, body)
		}
	}
	post("/sign-in", url.Values{"name": {"admin"}, "password": {password}})
	next := fmt.Sprintf("bench-%d-password", time.Now().UnixNano())
	post("/account/password", url.Values{"old": {password}, "new": {next}, "again": {next}})
	return client
}

// keepOnline makes all hosts online until the benchmark ends.
func keepOnline(b *testing.B, r *rig) {
	b.Helper()
	if _, err := r.pool.Exec(b.Context(), `UPDATE host_sessions SET seen_at = now()`); err != nil {
		b.Fatal(err)
	}
	testkit.KeepOnline(b, r.pool)
}
