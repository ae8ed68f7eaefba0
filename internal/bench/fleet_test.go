package bench

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
)

const (
	pageWarm     = 3
	pageRequests = 200 // requests of one page after the warm-up, unless they take longer than pageTime
	pageMinimum  = 10
	pageTime     = 3 * time.Second
)

// BenchmarkFleet measures pages of a real portal process on a PostgreSQL that flushes to disk, with 2,500 hosts,
// 100,000 VMs, three shared pools on all hosts and a million tasks.
func BenchmarkFleet(b *testing.B) {
	r := newRigOn(b, fleetURL(b))
	keepOnline(b, r)
	p := startPortal(b, r)
	people := make([]*http.Client, listClients)
	for i := range people {
		people[i] = p.signedIn()
	}
	one := visitor{people[0], p.url}
	one.requestPage(b, "/", "")
	r.waitIdle(b)
	for range b.N {
		b.Run("pages", func(b *testing.B) { measureCommonPages(b, one) })
		b.Run("wide", func(b *testing.B) { measureWidePages(b, one) })
		b.Run("first", func(b *testing.B) { measureFirstPage(b, one) })
		b.Run("searches", func(b *testing.B) { measureSearches(b, one) })
		b.Run("csv", func(b *testing.B) { measureCSV(b, r, one) })
		b.Run("list", func(b *testing.B) { measureLists(b, r, p, people) })
		b.Run("matrix", func(b *testing.B) { measureMatrixPage(b, r, one) })
	}
}

// waitIdle waits until a new portal has run its start-up queries: until no connection of the database has been active
// for two seconds.
func (r *rig) waitIdle(b *testing.B) {
	b.Helper()
	quiet := 0
	pollUntil(b, "the portal is at rest", func() bool {
		var busy bool
		err := r.pool.QueryRow(b.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid())`).Scan(&busy)
		if err != nil {
			b.Fatal(err)
		}
		if quiet++; busy {
			quiet = 0
		}
		return quiet >= 100
	})
}

// rawBody is a response body as received, possibly compressed.
type rawBody struct {
	bytes.Buffer
	encoding string
}

// visitor is a user's browser at a portal.
type visitor struct {
	client *http.Client
	url    string
}

// requestPage requests a page or a part of it as browsers do. It returns the duration, the body as received and the
// size of the response header.
func (v visitor) requestPage(b *testing.B, path string, part string) (took time.Duration, body *rawBody, header int) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, v.url+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd") // the encodings that Chrome accepts
	if part != "" {
		req.Header.Set("Hx-Request", "true")
		req.Header.Set("Hx-Target", part)
		req.Header.Set("Hx-Trigger", part)
	}
	began := time.Now()
	res, err := v.client.Do(req)
	if err != nil {
		b.Error(err)
		return 0, &rawBody{}, 0
	}
	defer res.Body.Close()
	body = &rawBody{encoding: res.Header.Get("Content-Encoding")}
	_, err = body.ReadFrom(res.Body)
	took = time.Since(began)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Errorf("%s: status %d, %v", path, res.StatusCode, err)
	}
	var head bytes.Buffer
	_ = res.Header.Write(&head)
	return took, body, head.Len() + len("HTTP/1.1 200 OK\r\n\r\n")
}

// requestTimes requests a page repeatedly. size is the page's uncompressed size.
func (v visitor) requestTimes(b *testing.B, path, part string) (took durations, size int) {
	b.Helper()
	for range pageWarm {
		_, body, _ := v.requestPage(b, path, part)
		size = len(decompressed(b, body))
	}
	began := time.Now()
	for len(took) < pageRequests && (len(took) < pageMinimum || time.Since(began) < pageTime) {
		t, _, _ := v.requestPage(b, path, part)
		took = append(took, t)
	}
	return took, size
}

// compare reports the result of pages together with the portal's cheapest response, /healthz. That response shows the
// cost of the machine, HTTP and the middleware alone. The ratio is the ratio of the slowest page.
func (v visitor) compare(b *testing.B, g goals.Goal, met bool, ours string, slowest durations) {
	b.Helper()
	least, _ := v.requestTimes(b, "/healthz", "")
	g.Record(b, met, ours, "the portal's /healthz "+least.String(), slowest.ratioTo(least))
}

// slowerOf returns the durations that have the higher median.
func slowerOf(a, b durations) durations {
	if len(a) == 0 || b.percentile(0.5) > a.percentile(0.5) {
		return b
	}
	return a
}

// ratioTo returns the ratio of the median of s to the median of other.
func (s durations) ratioTo(other durations) float64 {
	return s.percentile(0.5).Seconds() / other.percentile(0.5).Seconds()
}

func (s durations) String() string {
	return fmt.Sprintf("%.1f/%.1f", milliseconds(s.percentile(0.5)), milliseconds(s.percentile(0.99)))
}

// seedID returns the n-th ID that testkit.Seed creates.
func seedID(n int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", n) }

func measureCommonPages(b *testing.B, v visitor) {
	var ours []string
	met := true
	var slowest durations
	for _, path := range []string{"/vms/" + seedID(1_000_042), "/hosts", "/"} {
		took, _ := v.requestTimes(b, path, "")
		ours, met, slowest = append(ours, took.String()), met && took.percentile(0.99) <= 20*time.Millisecond, slowerOf(slowest, took)
	}
	v.compare(b, goals.Pages, met, strings.Join(ours, " · "), slowest)
}

func measureWidePages(b *testing.B, v visitor) {
	var ours []string
	var slowest durations
	met := true
	for _, path := range []string{"/vms/new", "/pools/" + seedID(2001), "/tree/storage"} {
		took, size := v.requestTimes(b, path, "")
		ours = append(ours, fmt.Sprintf("%s (%d KB)", took, size/1000))
		met, slowest = met && took.percentile(0.99) <= 30*time.Millisecond && size <= 80_000, slowerOf(slowest, took)
	}
	v.compare(b, goals.WidePages, met, strings.Join(ours, " · "), slowest)
}

// measureMatrixPage measures a page of 50 hosts and 40 pools, where every pool is assigned to every host. The reference
// is PostgreSQL's time to read the same assignments.
func measureMatrixPage(b *testing.B, r *rig, v visitor) {
	r.exec(b, `INSERT INTO pools (id, name, spec) SELECT 'bench-' || n, 'aaa-' || lpad(n::text, 2, '0'), '{"kind": "dir", "path": "/srv/bench"}' FROM generate_series(1, 40) n ON CONFLICT DO NOTHING`)
	r.exec(b, `INSERT INTO assignments (noun, object_id, host_id, asked, status) SELECT 'pool', p.id, h.id, 'assign', '{"state": "active", "capacityBytes": 1000, "usedBytes": 500}'
		FROM pools p, (SELECT id FROM hosts ORDER BY name LIMIT 50) h WHERE p.id LIKE 'bench-%' ON CONFLICT DO NOTHING`)
	took, size := v.requestTimes(b, "/pools/matrix", "")
	var alone durations
	for range 50 {
		began := time.Now()
		r.exec(b, `SELECT object_id, host_id, said, used_percent, by_others, faulty FROM assignments WHERE noun = 'pool'
			AND object_id = ANY (ARRAY(SELECT id FROM pools ORDER BY name LIMIT 40)) AND host_id = ANY (ARRAY(SELECT id FROM hosts ORDER BY name LIMIT 50))`)
		alone = append(alone, time.Since(began))
	}
	goals.Matrix.Record(b, took.percentile(0.99) <= 50*time.Millisecond, fmt.Sprintf("%s (%d KB)", took, size/1000), "the query alone "+alone.String(), took.ratioTo(alone))
}

// measureFirstPage measures the bytes of the first page with an empty browser cache: the page, the files that it refers
// to, and the files that those files import.
func measureFirstPage(b *testing.B, v visitor) {
	_, body, header := v.requestPage(b, "/vms", "")
	page := body.Len() + header
	n, plain, seen := page, len(decompressed(b, body)), map[string]bool{}
	var follow func(address string)
	follow = func(address string) {
		if seen[address] {
			return
		}
		seen[address] = true
		_, file, header := v.requestPage(b, address, "")
		text := decompressed(b, file)
		n, plain = n+file.Len()+header, plain+len(text)
		if strings.HasSuffix(address, ".js") {
			for _, m := range imported.FindAllStringSubmatch(text, -1) {
				follow(path.Join(path.Dir(address), m[1]+m[2]))
			}
		}
	}
	for _, m := range named.FindAllStringSubmatch(decompressed(b, body), -1) {
		follow(m[1])
	}
	goals.FirstPage.Record(b, n <= 55_000, fmt.Sprintf("%.1f KB: the page %.1f, and %d files", float64(n)/1000, float64(page)/1000, len(seen)),
		fmt.Sprintf("unpacked %d KB", plain/1000), float64(n)/float64(plain))
}

// measureSearches measures filters that no index for the sort order supports.
func measureSearches(b *testing.B, v visitor) {
	const task = "/tasks?filter="
	queries := []string{
		"/vms?filter=" + url.QueryEscape("name:*99777*"), "/vms?filter=" + url.QueryEscape("name:*9777"), "/vms?filter=" + url.QueryEscape("address:*.77"),
		"/vms?sort=host&filter=" + url.QueryEscape("label:tier=t3 host:host-1042"), task + url.QueryEscape("who:person-49"), task + url.QueryEscape("kind:pool.release"),
	}
	var ours []string
	var slowest durations
	met := true
	for _, path := range queries {
		took, _ := v.requestTimes(b, path, "")
		ours, met, slowest = append(ours, fmt.Sprintf("%.0f", milliseconds(took.percentile(0.99)))), met && took.percentile(0.99) <= 30*time.Millisecond, slowerOf(slowest, took)
	}
	v.compare(b, goals.Searches, met, strings.Join(ours, " · ")+" ms", slowest)
}

// measureCSV measures the export of all VMs as CSV. The reference is PostgreSQL's own COPY of the same columns.
func measureCSV(b *testing.B, r *rig, v visitor) {
	began := time.Now()
	_, body, _ := v.requestPage(b, "/vms.csv", "")
	took := time.Since(began)
	rows := strings.Count(decompressed(b, body), "\n") - 1
	if rows != fleetVMs {
		b.Errorf("the file has %d rows", rows)
	}
	rate := float64(rows) / took.Seconds()
	alone := copyRate(b, r)
	goals.CSV.Record(b, rate >= 80_000, fmt.Sprintf("%.0f rows/s", rate), fmt.Sprintf("COPY %.0f rows/s", alone), rate/alone)
}

// fleetQueries are the measured queries: filtered and sorted, each with more than a hundred results.
var fleetQueries = []fleet.Query{
	{Filter: "state:running", Sort: "name", Limit: 100},
	{Filter: "name:vm-07* state:running", Sort: "-name", Limit: 100},
	{Filter: "host:host-104*", Sort: "name", Limit: 100},
	{Filter: "label:env=prod", Sort: "-created", Limit: 100},
}

// measureLists measures the list of VMs for four users at the same time, with several queries: first with all hosts
// online, then with all hosts offline. The reference is the same query through package control, in this process.
func measureLists(b *testing.B, r *rig, p *portal, people []*http.Client) {
	well, alone := fetchAsPeople(b, p, people, fleetQueries), durations{}
	for _, q := range fleetQueries {
		alone = append(alone, r.queryTimes(b, q, listClients)...)
	}
	met := well.percentile(0.99) <= 12*time.Millisecond && milliseconds(well.percentile(0.5)) <= 2.5*milliseconds(alone.percentile(0.5))
	goals.List.Record(b, met, well.String()+" ms", "the query alone "+alone.String(), well.ratioTo(alone))
	running := fetchAsPeople(b, p, people, fleetQueries[:1])
	r.exec(b, `UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	if page, err := r.control.ListVMs(b.Context(), p.admin, fleetQueries[0]); err != nil || len(page.Items) > 0 {
		b.Fatalf("%d running VMs on offline hosts, %v", len(page.Items), err)
	}
	offline := fetchAsPeople(b, p, people, fleetQueries[:1])
	r.exec(b, `UPDATE host_sessions SET seen_at = now()`)
	goals.ListSilent.Record(b, offline.percentile(0.5) <= running.percentile(0.5)*5/4 && offline.percentile(0.99) <= max(12*time.Millisecond, running.percentile(0.99)*5/4), offline.String()+" ms", "with all hosts online "+running.String(), offline.ratioTo(running))
}

func fetchAsPeople(b *testing.B, p *portal, people []*http.Client, queries []fleet.Query) (took durations) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, client := range people {
		all.Go(func() {
			v := visitor{client, p.url}
			for _, q := range queries {
				t, _ := v.requestTimes(b, "/vms?"+url.Values{"filter": {q.Filter}, "sort": {q.Sort}}.Encode(), "")
				mu.Lock()
				took = append(took, t...)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took
}

var (
	named    = regexp.MustCompile(`(?:href|src)="(/static/[^"#]+)`)
	imported = regexp.MustCompile(`(?m)^(?:import|export) [^"']*["'](\.[^"']+)|new URL\("(\./[^"]+-worker\.js)`)
)

// decompressed returns the decompressed body.
func decompressed(b *testing.B, body *rawBody) string {
	b.Helper()
	var from io.Reader = bytes.NewReader(body.Bytes())
	switch body.encoding {
	case "br":
		from = brotli.NewReader(from)
	case "gzip":
		z, err := gzip.NewReader(from)
		if err != nil {
			b.Fatal(err)
		}
		from = z
	}
	text, err := io.ReadAll(from)
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// copyRate returns the rate, in rows per second, at which PostgreSQL itself writes the columns of the CSV export.
func copyRate(b *testing.B, r *rig) float64 {
	b.Helper()
	conn, err := r.pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	began := time.Now()
	tag, err := conn.Conn().PgConn().CopyTo(b.Context(), io.Discard, `COPY (SELECT v.id, v.name, v.heard, h.name, p.name, v.cpus, v.memory_mib,
		jsonb_path_query_array(v.status, '$.nics[*].addresses[*]'), v.labels, v.description, v.created_at
		FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id) TO STDOUT (FORMAT csv)`)
	if err != nil {
		b.Fatal(err)
	}
	return float64(tag.RowsAffected()) / time.Since(began).Seconds()
}
