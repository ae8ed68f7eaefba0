//go:build ordeal

package load

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/reconcile"
	"quantix/internal/testkit"
	"quantix/web"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// portal is a real portal, with its listeners for browsers and agents and its reconcilers.
type portal struct {
	pool    *pgxpool.Pool
	control *control.Control
	admin   fleet.Actor
	url     string
	token   string
}

func newPortal(t *testing.T) *portal {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := &portal{pool: testkit.DB(t)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub := notify.NewHub()
	p.control = control.New(p.pool, control.Options{Hub: hub, Log: log, AgentURL: "https://" + listener.Addr().String()})
	server := web.New(web.Options{
		Control: p.control, Hub: hub, Sessions: auth.NewSessionManager(p.pool, false), Log: log, PublicURL: "http://portal.test", Version: "test", Ready: p.pool.Ping,
	})
	authority, err := p.control.Authority(t.Context(), fleet.SystemActor)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := authority.ServerTLS([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	go hub.Listen(ctx, p.pool.Config().ConnConfig, log)
	go reconcile.Run(ctx, p.control, hub, log)
	agents := &http.Server{Handler: server.AgentHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go agents.Serve(tls.NewListener(listener, conf))
	t.Cleanup(func() { agents.Close() })
	pages := httptest.NewServer(server.Handler())
	t.Cleanup(pages.Close)
	p.url = pages.URL
	if _, _, err := p.control.EnsureAdmin(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	users, err := p.control.ListUsers(t.Context(), fleet.SystemActor, fleet.Query{})
	if err != nil {
		t.Fatal(err)
	}
	p.admin = fleet.Actor{UserID: users.Items[0].ID, Name: users.Items[0].Name, Role: users.Items[0].Role}
	token, err := p.control.CreateToken(t.Context(), p.admin, "load", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.token = token.Secret
	return p
}

// countRows returns the number of rows of a table.
func (p *portal) countRows(t *testing.T, from string) (n int) {
	t.Helper()
	if err := p.pool.QueryRow(context.WithoutCancel(t.Context()), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// checkEmpty fails the test unless the run has removed everything that it created.
func (p *portal) checkEmpty(t *testing.T) {
	t.Helper()
	for _, table := range []string{"hosts", "vms", "projects", "pools", "assignments", "users WHERE name LIKE 'load-%'"} {
		if n := p.countRows(t, table); n != 0 {
			t.Errorf("%d %s are left", n, table)
		}
	}
}

func (p *portal) options(t *testing.T) Options {
	return Options{
		Portal: p.url, Token: p.token, Hosts: 20, VMs: 100, Pools: 2, Change: 40, Tabs: 6, People: 3, Pause: 50 * time.Millisecond, For: 4 * time.Second,
		Portals: thisProcess(), Out: testWriter{t},
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// A run creates the fleet that its options describe, the portal shows the states that the hosts reported, nothing
// fails, and the run removes everything at the end.
func TestLoadRunCreatesFleetAndCleansUp(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	f, err := Run(t.Context(), p.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if f.Errors != 0 || f.Wrong != 0 || f.Sampled == 0 || f.Sessions != 0 {
		t.Errorf("%d errors, %d of %d wrong, %d sessions reopened: %+v", f.Errors, f.Wrong, f.Sampled, f.Sessions, f.Faults)
	}
	if f.Hosts != 20 || f.VMs != 100 || f.Tabs != 6 {
		t.Errorf("%d hosts, %d VMs, %d tabs", f.Hosts, f.VMs, f.Tabs)
	}
	// After 4 s of the 10 s interval, some hosts have sent a heartbeat or a change. Most changes were sent. Changes of
	// the last 200 ms, or of a longer time on a busy machine, are still in flight.
	if f.Beats.N+f.FullReports.N < 20*3/10 || f.Changed < 60 || f.Sent < f.Changed/3 {
		t.Errorf("%d beats, %d full reports; %d changed, %d sent", f.Beats.N, f.FullReports.N, f.Changed, f.Sent)
	}
	if f.Refreshes.N < 6*3 || f.Follows.N == 0 {
		t.Errorf("%d refreshes, %d after a poke", f.Refreshes.N, f.Follows.N)
	}
	kinds := []string{"VM list", "VM list, filtered", "Dashboard", "Host list", "Host page", "VM page", "Pool page", "Tasks"}
	// At least one of the three users has opened a page of every kind. On a busy machine, 4 s may not be enough.
	round := f.Pages.N > int64(3*(len(kinds)-1))
	for _, kind := range kinds {
		if f.Pages.N == 0 || round && f.PagesOf[kind].N == 0 {
			t.Errorf("page not opened: %s", kind)
		}
	}
	if f.Portal == nil || f.Portal.RSS == 0 || f.Postgres != nil {
		t.Errorf("portal %v, PostgreSQL %v", f.Portal, f.Postgres)
	}
	for _, action := range []string{"vm.create", "vm.delete"} {
		if n := p.countRows(t, "audit WHERE action = '"+action+"'"); n != 100 {
			t.Errorf("%d of %s, want 100: VMs are created and deleted through the API", n, action)
		}
	}
	if n := p.countRows(t, "metric_samples"); n < 20 {
		t.Errorf("%d samples of 20 hosts", n)
	}
	if n := p.countRows(t, "host_meters"); n != 0 {
		t.Errorf("%d meters of deleted VMs", n)
	}
	p.checkEmpty(t)
	for _, text := range []string{"20 hosts, 100 VMs that run, 6 tabs", "Heartbeats", "Pool page", "0 of 50"} {
		if !strings.Contains(f.Table(), text) {
			t.Errorf("the table lacks %q:\n%s", text, f.Table())
		}
	}
}

// A cancelled run removes everything that it created.
func TestCanceledLoadRunCleansUp(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := p.options(t)
	o.Hosts, o.VMs, o.Tabs, o.For, o.Report = 3, 12, 1, time.Hour, time.Millisecond
	o.Out = callOnWord{"beats", cancel}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("run ended with %v", err)
	}
	if n := p.countRows(t, "audit WHERE action = 'vm.delete'"); n != 12 {
		t.Errorf("%d VMs were deleted, want 12", n)
	}
	p.checkEmpty(t)
}

// callOnWord calls do whenever a written line contains the word.
type callOnWord struct {
	word string
	do   func()
}

func (o callOnWord) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.word) {
		o.do()
	}
	return len(b), nil
}

// VMs that were seeded in the database match their hosts' reports, cause no tasks, and are removed at the end.
func TestSeededVMsMatchReports(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	o := p.options(t)
	o.Hosts, o.VMs, o.Tabs, o.People, o.For, o.Database = 4, 200, 0, 1, time.Second, p.pool.Config().ConnString()
	f, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if f.VMs != 200 || f.Errors != 0 || f.Wrong != 0 {
		t.Errorf("%+v", f)
	}
	if n := p.countRows(t, "tasks WHERE kind LIKE 'vm.%'"); n != 0 {
		t.Errorf("%d tasks about VMs, want none", n)
	}
	p.checkEmpty(t)
}

// A run refuses a portal with other hosts. If AllowUsed is set, it runs and leaves the other hosts unchanged.
func TestLoadRunRefusesPortalWithHosts(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	testkit.Seed(t, p.pool, 1, 2)
	o := p.options(t)
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "host-001") || !strings.Contains(err.Error(), "--into-used-portal") {
		t.Errorf("got %v", err)
	}
	if p.countRows(t, "hosts") != 1 || p.countRows(t, "users") != 1 || p.countRows(t, "join_tokens") != 0 {
		t.Error("the refused run created something")
	}
	o.AllowUsed, o.Hosts, o.VMs, o.Pools, o.Tabs, o.For = true, 2, 4, 1, 0, 100*time.Millisecond
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if hosts, vms, pools := p.countRows(t, "hosts"), p.countRows(t, "vms"), p.countRows(t, "pools"); hosts != 1 || vms != 2 || pools != 2 {
		t.Errorf("%d hosts, %d VMs and %d pools are left, want the earlier 1, 2 and 2", hosts, vms, pools)
	}
}

// A token without administrator rights is refused before anything is created.
func TestNonAdminTokenRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	if _, err := p.pool.Exec(t.Context(), "UPDATE users SET role = 'operator'"); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), p.options(t)); err == nil || !strings.Contains(err.Error(), "no administrator") {
		t.Errorf("got %v", err)
	}
}
