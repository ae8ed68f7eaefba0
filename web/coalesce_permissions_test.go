package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// lockVMTable locks the VM table until release is called. waits returns the number of queries that the lock blocks.
func (p *portal) lockVMTable() (release func(), waits func() int) {
	p.t.Helper()
	tx, err := p.pool.Begin(p.t.Context())
	if err == nil {
		_, err = tx.Exec(p.t.Context(), "LOCK TABLE vms IN ACCESS EXCLUSIVE MODE")
	}
	if err != nil {
		p.t.Fatal(err)
	}
	release = func() { tx.Rollback(context.WithoutCancel(p.t.Context())) }
	p.t.Cleanup(release)
	return release, func() (n int) {
		if err := tx.QueryRow(p.t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'vms'::regclass").Scan(&n); err != nil {
			p.t.Fatal(err)
		}
		return n
	}
}

func (p *portal) waitFor(what string, so func() bool) {
	p.t.Helper()
	for until := time.Now().Add(10 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("not within the time limit: %s", what)
		}
	}
}

// Users with different permissions request the same address at the same time. Each must get the same response as
// without concurrent requests.
func TestUsersWithDifferentPermissionsShareNoResponse(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	shop, finance := p.addProject("shop"), p.addProject("finance")
	host := p.addHost("host-1", 0)
	p.addVM(shop, host, "web-01", fleet.Running)
	p.addVM(finance, host, "ledger", fleet.Running)
	admin, other, viewer := p.newSignedInBrowser("ann", fleet.RoleAdmin), p.newSignedInBrowser("amy", fleet.RoleAdmin), p.newSignedInBrowser("vic", fleet.RoleViewer)
	member, books, falls := p.newSignedInBrowser("mia", fleet.RoleNone), p.newSignedInBrowser("bea", fleet.RoleNone), p.newSignedInBrowser("fay", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'mia', 'member'), ($2, 'bea', 'viewer')", shop, finance)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'fay', 'member'), ($2, 'fay', 'viewer')", shop, finance)

	release, waits := p.lockVMTable()
	answers := map[string]chan answer{}
	ask := func(name string, b *browser) {
		done := make(chan answer, 1)
		answers[name] = done
		go func() { done <- b.getFragment("/vms", "vm-rows") }()
	}
	ask("ann", admin)
	p.waitFor("the first asks", func() bool { return waits() == 1 })
	ask("fay, before", falls)
	ask("amy", other)
	ask("vic", viewer)
	ask("mia", member)
	ask("bea", books)
	p.waitFor("five rights, five questions", func() bool { return waits() == 5 })
	root := fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}
	if err := p.control.SetMember(t.Context(), root, shop, "fay", fleet.RoleNone); err != nil {
		t.Fatal(err)
	}
	ask("fay, after", falls)
	release()
	for name, x := range map[string]struct{ has, lacks []string }{
		"ann":         {[]string{"web-01", "ledger", "host-1", "data-select-row"}, nil},
		"fay, before": {[]string{"web-01", "ledger", "data-select-row"}, []string{"host-1"}},
		"amy":         {[]string{"web-01", "ledger", "host-1", "data-select-row"}, nil},
		"vic":         {[]string{"web-01", "ledger", "host-1"}, []string{"data-select-row"}},
		"mia":         {[]string{"web-01", "data-select-row"}, []string{"ledger", "host-1"}},
		"bea":         {[]string{"ledger"}, []string{"web-01", "host-1", "data-select-row"}},
		"fay, after":  {[]string{"ledger"}, []string{"web-01", "host-1", "data-select-row"}},
	} {
		got := (<-answers[name]).requireStatus(t, http.StatusOK)
		for _, text := range x.has {
			if !strings.Contains(got.body, text) {
				t.Errorf("%s lacks %q", name, text)
			}
		}
		for _, text := range x.lacks {
			if strings.Contains(got.body, text) {
				t.Errorf("%s must not see %q:\n%s", name, text, got.body)
			}
		}
	}
	p.execSQL("UPDATE users SET disabled = true WHERE id = 'amy'")
	other.getFragment("/vms", "vm-rows").requireStatus(t, http.StatusUnauthorized)
}

// Many concurrent requests cause only two renderings: the running one, and one for all requests that wait.
func TestManyConcurrentRefreshesRenderTwice(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.addVM(p.addProject("shop"), p.addHost("host-1", 0), "web-01", fleet.Running)
	var people []*browser
	for _, name := range []string{"ann", "bob", "cai", "dan", "eve"} {
		people = append(people, p.newSignedInBrowser(name, fleet.RoleAdmin))
	}
	release, waits := p.lockVMTable()
	var all []chan answer
	for _, b := range people {
		for range 7 {
			done := make(chan answer, 1)
			all = append(all, done)
			go func() { done <- b.getFragment("/vms?filter=name:web*", "vm-rows") }()
		}
	}
	p.waitFor("one asks", func() bool { return waits() == 1 })
	release()
	for _, done := range all {
		(<-done).requireStatus(t, http.StatusOK).contains(t, "web-01")
	}
	p.execSQL("UPDATE vms SET name = 'web-02'")
	people[0].getFragment("/vms?filter=name:web*", "vm-rows").requireStatus(t, http.StatusOK).contains(t, "web-02")
}
