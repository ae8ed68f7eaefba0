package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/web"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const goodPassword = "correct horse battery"

// goodPasswordHash returns the hash of goodPassword. It is computed once per process, because hashing is slow on
// purpose.
var goodPasswordHash = sync.OnceValues(func() (string, error) { return auth.HashPassword(context.Background(), goodPassword) })

// portal is a running portal with a database for one test.
type portal struct {
	t       testing.TB
	pool    *pgxpool.Pool
	control *control.Control
	hub     *notify.Hub
	server  *web.Server
	url     string
	log     *syncBuffer
	agents  *http.Server // set by newPortalWithAgents
	// releases is the directory with releases of the agent
	releases string
}

// syncBuffer is a buffer for log lines that is safe for concurrent use.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newPortal(t testing.TB) *portal {
	t.Helper()
	return newPortalOn(t, testkit.DB(t))
}

// newPortalOn is newPortal with a given database pool.
func newPortalOn(t testing.TB, pool *pgxpool.Pool) *portal {
	t.Helper()
	testkit.KeepOnline(t, pool)
	p := &portal{t: t, pool: pool, hub: notify.NewHub(), log: &syncBuffer{}, releases: t.TempDir()}
	p.control = control.New(pool, control.Options{AgentReleases: p.releases, AgentURL: "https://portal.example:8444", Vault: vaultOfPool(pool)})
	p.server = web.New(web.Options{
		Control: p.control, Hub: p.hub, Sessions: auth.NewSessionManager(pool, false), Version: "test",
		Log:   slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Ready: func(ctx context.Context) error { return p.control.Ready(ctx, fleet.SystemActor) },
		Pool:  func() web.DatabasePoolStat { return pool.Stat() },
	})
	s := httptest.NewServer(checkedHandler(t, p.server.Handler()))
	// The testing package keeps the cleanup functions of all tests until the process ends, so this one lets go of the
	// portal, which has several MiB of API descriptions.
	t.Cleanup(func() {
		s.Close()
		s.Config.Handler, p.server, p.control = nil, nil, nil
	})
	p.url = s.URL
	return p
}

// vaultsByPool maps database pools to vaults, because portals on the same database must share the key for secrets.
var vaultsByPool sync.Map

func vaultOfPool(pool *pgxpool.Pool) auth.Vault {
	v, _ := vaultsByPool.LoadOrStore(pool.Config().ConnConfig.Database, auth.NewVault())
	return v.(auth.Vault)
}

// raiseAlarms raises the alarms of all conditions that hold, as if they had held for two days.
func (p *portal) raiseAlarms() {
	p.t.Helper()
	for range 2 {
		p.execSQL(`UPDATE alarms SET since = since - interval '2 days'`)
		if err := p.control.EvaluateAlarms(p.t.Context(), fleet.SystemActor); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *portal) execSQL(sql string, args ...any) {
	p.t.Helper()
	if _, err := p.pool.Exec(p.t.Context(), sql, args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *portal) countRows(table string) int {
	p.t.Helper()
	var n int
	if err := p.pool.QueryRow(p.t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// addUser creates a user with goodPassword. The user's id equals the name.
func (p *portal) addUser(name string, role fleet.Role) {
	p.t.Helper()
	hash, err := goodPasswordHash()
	if err != nil {
		p.t.Fatal(err)
	}
	p.execSQL("INSERT INTO users (id, name, role, password_hash) VALUES ($1, $1, $2, $3)", name, role, hash)
}

// browser is an HTTP client that keeps cookies and follows no redirects.
type browser struct {
	t    testing.TB
	http *http.Client
	url  string
}

func (p *portal) newBrowser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &browser{t: p.t, url: p.url, http: &http.Client{
		Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// newSignedInBrowser creates a user with that role and returns the user's signed-in browser.
func (p *portal) newSignedInBrowser(name string, role fleet.Role) *browser {
	p.t.Helper()
	p.addUser(name, role)
	b := p.newBrowser()
	if a := b.post("/sign-in", url.Values{"name": {name}, "password": {goodPassword}}); a.status != http.StatusSeeOther {
		p.t.Fatalf("sign in as %s: %d %s", name, a.status, a.body)
	}
	return b
}

type answer struct {
	status int
	header http.Header
	body   string
}

// contains fails unless the response contains all texts.
func (a answer) contains(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			t.Errorf("the response (%d) lacks %q:\n%s", a.status, text, a.pageContent())
		}
	}
}

// pageContent returns the page's content without the page layout, or the whole body if there is no layout.
func (a answer) pageContent() string {
	_, body, found := strings.Cut(a.body, "<main")
	if !found {
		return a.body
	}
	body, _, _ = strings.Cut(body, "</main>")
	return body
}

// excludes fails if the response contains one of the texts.
func (a answer) excludes(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Errorf("the response (%d) contains %q:\n%s", a.status, text, a.pageContent())
		}
	}
}

// requireStatus stops the test unless the response has that status. It returns the response.
func (a answer) requireStatus(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, not %d: %s", a.status, status, a.pageContent())
	}
	return a
}

// send sends a request. header alternates names and values.
func (b *browser) send(method, path string, body io.Reader, header ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer got.Body.Close()
	reader := io.Reader(got.Body)
	if got.Header.Get("Content-Encoding") == "gzip" {
		if reader, err = gzip.NewReader(got.Body); err != nil {
			b.t.Fatal(err)
		}
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{got.StatusCode, got.Header, string(text)}
}

func (b *browser) get(path string, header ...string) answer {
	b.t.Helper()
	return b.send(http.MethodGet, path, nil, header...)
}

// getFragment requests the page's element with that id, as htmx does for a refresh.
func (b *browser) getFragment(path, id string) answer {
	b.t.Helper()
	return b.get(path, "HX-Request", "true", "HX-Target", id, "HX-Trigger", id)
}

func (b *browser) post(path string, form url.Values, header ...string) answer {
	b.t.Helper()
	return b.send(http.MethodPost, path, strings.NewReader(form.Encode()),
		append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
}

// htmxFormHeaders returns the headers with which htmx sends a form whose target is the element with that id.
func htmxFormHeaders(id string) []string { return []string{"HX-Request", "true", "HX-Target", id} }

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain values always encode
	}
	return string(text)
}

// addProject writes a project's row. Like addHost, addPool and addVM, it writes the same rows as control and a host's
// report.
func (p *portal) addProject(name string) fleet.ProjectID {
	p.t.Helper()
	id := fleet.NewID[fleet.ProjectID]()
	p.execSQL("INSERT INTO projects (id, name) VALUES ($1, $2)", id, name)
	return id
}

func (p *portal) addHost(name string, seen time.Duration) fleet.HostID {
	p.t.Helper()
	id := fleet.NewID[fleet.HostID]()
	status := fleet.HostStatus{
		AgentVersion: "1.0", Hypervisor: "libvirt 9.0.0, QEMU 7.2.22", Connected: true,
		Inventory: fleet.Inventory{
			MigratesLive: true,
			Hostname:     name, OS: "Debian GNU/Linux 12", Arch: "x86_64", MemoryBytes: 64 << 30, Accelerators: []string{"kvm"},
			CPU:       fleet.CPU{Model: "AMD EPYC 7443P", Vendor: "AMD", Sockets: 1, Cores: 24, Threads: 48},
			Firmwares: []fleet.Firmware{fleet.BIOS, fleet.UEFI},
		},
	}
	p.execSQL("INSERT INTO hosts (id, name, status, report_seq) VALUES ($1, $2, $3, 1)", id, name, mustJSON(status))
	p.execSQL("INSERT INTO host_sessions (host_id, seen_at) VALUES ($1, now() - $2::interval)", id, fmt.Sprintf("%d seconds", int(seen.Seconds())))
	return id
}

// addPool adds a shared pool that is published to all projects.
func (p *portal) addPool(name string, hosts ...fleet.HostID) fleet.PoolID {
	p.t.Helper()
	id := fleet.NewID[fleet.PoolID]()
	p.execSQL("INSERT INTO pools (id, name, spec) VALUES ($1, $2, $3)", id, name,
		mustJSON(fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/srv/" + name, Server: "10.0.0.5", Export: "/exports/" + name, Shared: true}))
	p.execSQL("INSERT INTO pool_grants (pool_id, granted_by) VALUES ($1, 'mara')", id)
	status := fleet.PoolStatus{
		State: fleet.PoolActive, CapacityBytes: 2 << 40, UsedBytes: 498 << 30, AvailableBytes: 1550 << 30, MountPath: "/srv/" + name,
		Volumes: []fleet.Volume{
			{Name: "debian-12.qcow2", Path: "/srv/" + name + "/debian-12.qcow2", Format: "qcow2", CapacityBytes: 3 << 30, AllocBytes: 1 << 30},
			{Name: "installer.iso", Path: "/srv/" + name + "/installer.iso", Format: "iso", CapacityBytes: 600 << 20, AllocBytes: 600 << 20},
		},
	}
	for _, h := range hosts {
		p.execSQL("INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, report_seq, reported_at) VALUES ('pool', $1, $2, 'assign', $3, 1, 1, now())", id, h, mustJSON(status))
	}
	for _, v := range status.Volumes {
		image, version := fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
		p.execSQL("INSERT INTO images (id, name, created_by) VALUES ($1, $2, 'mara')", image, v.Name+" of "+name)
		p.execSQL("INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by) VALUES ($1, $2, 1, $3, $4, 'mara')", version, image, v.Format, v.CapacityBytes)
		p.execSQL("INSERT INTO image_copies (version_id, pool_id, volume, added_by) VALUES ($1, $2, $3, 'mara')", version, id, v.Name)
		p.execSQL("INSERT INTO image_grants (image_id, granted_by) VALUES ($1, 'mara')", image)
	}
	return id
}

// addVolumes creates a shared pool with unused volumes, on the console's host.
func (s *consoleHost) addVolumes(name string, volumes ...string) fleet.PoolID {
	s.t.Helper()
	id := s.addPool(name, s.host.id)
	status := fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 40, AvailableBytes: 1 << 40, MountPath: "/srv/" + name}
	for _, v := range volumes {
		at := time.Now().Add(-72 * time.Hour).UTC().Truncate(fleet.ModifiedResolution)
		status.Volumes = append(status.Volumes, fleet.Volume{Name: v, Path: "/srv/" + name + "/" + v, Format: "raw", CapacityBytes: 1 << 20, AllocBytes: 1 << 20, ModifiedAt: &at})
		if kind := fleet.ApplianceFormatByName(v); kind != "" {
			last := &status.Volumes[len(status.Volumes)-1]
			last.Format, last.Appliance = kind, &fleet.Appliance{Disks: []fleet.ApplianceDisk{{Format: kind, SizeBytes: 1 << 20}}}
		}
	}
	s.execSQL("UPDATE assignments SET status = $2 WHERE pool_id = $1", id, mustJSON(status))
	return id
}

// networkID returns the id of the libvirt network of that name. If there is none, it creates one that is published to all
// projects and assigned to no host.
func (p *portal) networkID(name string) (id fleet.NetworkID) {
	p.t.Helper()
	p.execSQL("WITH n AS (INSERT INTO networks (id, name, kind) VALUES ($1, $2, 'libvirt') ON CONFLICT DO NOTHING RETURNING id) INSERT INTO network_grants (network_id) SELECT id FROM n", fleet.NewID[fleet.NetworkID](), name)
	if err := p.pool.QueryRow(p.t.Context(), "SELECT id FROM networks WHERE name = $1 AND kind = 'libvirt'", name).Scan(&id); err != nil {
		p.t.Fatal(err)
	}
	return id
}

// publishNetwork publishes the network to all projects.
func (p *portal) publishNetwork(id fleet.NetworkID) {
	p.t.Helper()
	p.execSQL("INSERT INTO network_grants (network_id) VALUES ($1)", id)
}

func (p *portal) addNetwork(name string, hosts ...fleet.HostID) {
	p.t.Helper()
	id := p.networkID(name)
	for _, h := range hosts {
		p.execSQL("INSERT INTO assignments (noun, object_id, host_id, status, report_seq) VALUES ('net', $1, $2, $3, 1)", id, h,
			mustJSON(fleet.NetworkStatus{Active: true, Bridge: "virbr0", Forward: "nat", Subnets: []string{"192.168.122.0/24"}}))
	}
}

// addVM creates a VM whose host has reported the given power state. change may modify the VM before it is stored.
func (p *portal) addVM(project fleet.ProjectID, host fleet.HostID, name string, power fleet.Power, change ...func(*fleet.VM)) fleet.VMID {
	p.t.Helper()
	mac := fmt.Sprintf("52:54:00:3a:01:%02x", 0x11+p.countRows("vms")) // unique within the test
	vm := fleet.VM{
		Meta: fleet.Meta{ID: fleet.NewID[fleet.VMID](), Name: name, Labels: map[string]string{}, Generation: 1, ObservedGeneration: 1},
		Spec: fleet.VMSpec{
			Power: power, CPUs: 2, MemoryMiB: 4096, Firmware: fleet.UEFI, Disks: []fleet.Disk{},
			NICs: []fleet.NIC{{NetworkID: p.networkID("default"), MAC: mac}},
		},
		Status: &fleet.VMStatus{Power: power, CPUs: 2, MemoryMiB: 4096, Accelerator: "kvm"},
	}
	if power == fleet.Running {
		started := time.Now().Add(-291 * time.Minute)
		vm.Status.StartedAt = &started
		vm.Status.NICs = []fleet.NICState{{MAC: mac, Source: "network default", Addresses: []string{"10.4.0.11"}}}
	}
	for _, f := range change {
		f(&vm)
	}
	p.execSQL(`INSERT INTO vms (id, project_id, host_id, name, labels, description, spec, generation, status, observed_generation, report_seq)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1)`,
		vm.ID, project, host, vm.Name, mustJSON(vm.Labels), vm.Description, mustJSON(vm.Spec), vm.Generation, mustJSON(vm.Status), vm.ObservedGeneration)
	return vm.ID
}
