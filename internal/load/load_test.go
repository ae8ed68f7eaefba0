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

// portal is a real one: its doors for people and for agents, and its passes.
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
	line, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub := notify.NewHub()
	p.control = control.New(p.pool, control.Options{Hub: hub, Log: log, AgentURL: "https://" + line.Addr().String()})
	server := web.New(web.Options{
		Control: p.control, Hub: hub, Sessions: auth.Sessions(p.pool, false), Log: log, PublicURL: "http://portal.test", Version: "test", Ready: p.pool.Ping,
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
	go agents.Serve(tls.NewListener(line, conf))
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

// count is how many rows there are.
func (p *portal) count(t *testing.T, from string) (n int) {
	t.Helper()
	if err := p.pool.QueryRow(context.WithoutCancel(t.Context()), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// empty demands that nothing of a run is left.
func (p *portal) empty(t *testing.T) {
	t.Helper()
	for _, table := range []string{"hosts", "vms", "projects", "pools", "assignments", "users WHERE name LIKE 'load-%'"} {
		if n := p.count(t, table); n != 0 {
			t.Errorf("%d %s are left", n, table)
		}
	}
}

func (p *portal) options(t *testing.T) Options {
	return Options{
		Portal: p.url, Token: p.token, Hosts: 20, VMs: 100, Pools: 2, Change: 40, Tabs: 6, People: 3, Pause: 50 * time.Millisecond, For: 4 * time.Second,
		Portals: itself(), Out: writer{t},
	}
}

type writer struct{ t *testing.T }

func (w writer) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// A run does all that it says, the portal shows what the hosts said, nothing fails, and nothing is left.
func TestARunDoesWhatItSaysAndLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	f, err := Run(t.Context(), p.options(t))
	if err != nil {
		t.Fatal(err)
	}
	if f.Errors != 0 || f.Wrong != 0 || f.Sampled == 0 || f.Sessions != 0 {
		t.Errorf("%d errors, %d of %d wrong, %d sessions anew: %+v", f.Errors, f.Wrong, f.Sampled, f.Sessions, f.Faults)
	}
	if f.Hosts != 20 || f.VMs != 100 || f.Tabs != 6 {
		t.Errorf("%d hosts, %d VMs, %d tabs", f.Hosts, f.VMs, f.Tabs)
	}
	// 4 s of 10: some hosts have beaten or told a change, and most changes are told; those of the last 200 ms are under way, and more on a busy machine.
	if f.Beats.N+f.FullReports.N < 20*3/10 || f.Changed < 60 || f.Sent < f.Changed/3 {
		t.Errorf("%d beats, %d full reports; %d changed, %d told", f.Beats.N, f.FullReports.N, f.Changed, f.Sent)
	}
	if f.Refreshes.N < 6*3 || f.Follows.N == 0 {
		t.Errorf("%d refreshes, %d after a poke", f.Refreshes.N, f.Follows.N)
	}
	kinds := []string{"VM list", "VM list, filtered", "Dashboard", "Host list", "Host page", "VM page", "Pool page", "Tasks"}
	round := f.Pages.N > int64(3*(len(kinds)-1)) // one of three people has been through all of them; on a busy machine nobody may be in 4 s
	for _, kind := range kinds {
		if f.Pages.N == 0 || round && f.PagesOf[kind].N == 0 {
			t.Errorf("nobody saw: %s", kind)
		}
	}
	if f.Portal == nil || f.Portal.RSS == 0 || f.Postgres != nil {
		t.Errorf("portal %v, PostgreSQL %v", f.Portal, f.Postgres)
	}
	for _, action := range []string{"vm.create", "vm.delete"} {
		if n := p.count(t, "audit WHERE action = '"+action+"'"); n != 100 {
			t.Errorf("%d of %s, want 100: VMs come and go as people ask for it", n, action)
		}
	}
	if n := p.count(t, "host_meters"); n != 0 {
		t.Errorf("%d meters of VMs that are gone", n)
	}
	p.empty(t)
	for _, text := range []string{"20 hosts, 100 VMs that run, 6 tabs", "Heartbeats", "Pool page", "0 of 50"} {
		if !strings.Contains(f.Table(), text) {
			t.Errorf("the table lacks %q:\n%s", text, f.Table())
		}
	}
}

// What cannot be done is undone as far as it came, also when the run is broken off.
func TestARunThatIsBrokenOffLeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ctx, breakOff := context.WithCancel(t.Context())
	defer breakOff()
	o := p.options(t)
	o.Hosts, o.VMs, o.Tabs, o.For, o.Report = 3, 12, 1, time.Hour, time.Millisecond
	o.Out = onFirst{"beats", breakOff}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if n := p.count(t, "audit WHERE action = 'vm.delete'"); n != 12 {
		t.Errorf("%d VMs were deleted, want 12", n)
	}
	p.empty(t)
}

// onFirst calls do at the first line that has the word.
type onFirst struct {
	word string
	do   func()
}

func (o onFirst) Write(b []byte) (int, error) {
	if strings.Contains(string(b), o.word) {
		o.do()
	}
	return len(b), nil
}

// VMs that are written into the database are those of the hosts, which tell nothing else, and are taken out again.
func TestVMsOfTheDatabase(t *testing.T) {
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
	if n := p.count(t, "tasks WHERE kind LIKE 'vm.%'"); n != 0 {
		t.Errorf("%d tasks about VMs, which nobody ordered and the hosts give no cause for", n)
	}
	p.empty(t)
}

// A portal with hosts of somebody's is left alone.
func TestAPortalAtWorkIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	testkit.Seed(t, p.pool, 1, 2)
	o := p.options(t)
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "host-001") || !strings.Contains(err.Error(), "--into-used-portal") {
		t.Errorf("it says %v", err)
	}
	if p.count(t, "hosts") != 1 || p.count(t, "users") != 1 || p.count(t, "join_tokens") != 0 {
		t.Error("something was made")
	}
	o.IntoUsed, o.Hosts, o.VMs, o.Pools, o.Tabs, o.For = true, 2, 4, 1, 0, 100*time.Millisecond
	if _, err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
	if hosts, vms, pools := p.count(t, "hosts"), p.count(t, "vms"), p.count(t, "pools"); hosts != 1 || vms != 2 || pools != 2 {
		t.Errorf("%d hosts, %d VMs and %d pools are left of somebody's 1, 2 and 2", hosts, vms, pools)
	}
}

// What somebody who is no administrator cannot do is said before anything is made.
func TestATokenThatMayTooLittle(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	if _, err := p.pool.Exec(t.Context(), "UPDATE users SET role = 'operator'"); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), p.options(t)); err == nil || !strings.Contains(err.Error(), "no administrator") {
		t.Errorf("it says %v", err)
	}
}
