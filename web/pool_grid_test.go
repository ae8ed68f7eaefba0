package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"quantix/internal/fleet"
)

var (
	gridStatus = regexp.MustCompile(`<td class="box"><a class="([a-z]*)" href="([^"]*)" title="([^"]*)"`)
	gridMore   = regexp.MustCompile(`href="(/pools/matrix\?pools=[^"]*)"`)
)

// The matrix shows all pools on all hosts: the reported status, "unknown" for offline hosts, and nothing where a pool
// is not assigned.
func TestPoolGridShowsAllHosts(t *testing.T) {
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/pools/matrix").requireStatus(t, http.StatusOK).contains(t, "No hosts yet")
	h1, h2, h3 := p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", time.Hour)
	b.get("/pools/matrix").requireStatus(t, http.StatusOK).contains(t, "No pools yet")
	fast, slow := p.addPool("fast", h1, h2), p.addPool("slow", h2, h3)
	p.execSQL(`UPDATE assignments SET status = '{"state": "failed", "error": "no route"}' WHERE object_id = $1 AND host_id = $2`, fast, h2)
	p.execSQL(`UPDATE assignments SET asked = 'release' WHERE object_id = $1 AND host_id = $2`, slow, h2)
	cell := func(pool fleet.PoolID, host string) string {
		return "/pools/" + string(pool) + "?" + url.Values{"filter": {"name:\"" + host + "\""}}.Encode()
	}
	want := [][3]string{
		{"ok", cell(fast, "host-1"), "fast on host-1: Active, 24 % used"},
		{"bad", cell(fast, "host-2"), "fast on host-2: Failed"},
		{"ok", cell(slow, "host-2"), "slow on host-2: being released"},
		{"unknown", cell(slow, "host-3"), "slow on host-3: Unknown"},
	}
	a := b.get("/pools/matrix").requireStatus(t, http.StatusOK)
	got := gridStatus.FindAllStringSubmatch(a.body, -1)
	if len(got) != len(want) {
		t.Fatalf("%d entries: %v", len(got), got)
	}
	for i, w := range want {
		if [3]string(got[i][1:]) != w {
			t.Errorf("entry %d is %q, want %q", i, got[i][1:], w)
		}
		b.get(got[i][2]).requireStatus(t, http.StatusOK).contains(t, "host-")
	}
	a = b.get("/pools/matrix?filter="+url.QueryEscape("name:host-3")).requireStatus(t, http.StatusOK)
	if got := gridStatus.FindAllStringSubmatch(a.body, -1); len(got) != 1 || got[0][3] != want[3][2] {
		t.Errorf("filtered by one host: %v", got)
	}
	b.get("/pools/matrix?filter=name:nobody").requireStatus(t, http.StatusOK).contains(t, "No host matches")
	b.get("/pools/matrix?filter=x:y").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "filter-error")
	b.get("/pools/matrix?pools=nonsense").requireStatus(t, http.StatusBadRequest)

	// Pools beyond the columns of one page are on the next page.
	for i := range 40 {
		p.addPool(fmt.Sprintf("more-%02d", i), h1)
	}
	a = b.get("/pools/matrix").requireStatus(t, http.StatusOK)
	a.contains(t, "40 pools on this page", "fast on host-2")
	a.excludes(t, "slow on host-3")
	next := gridMore.FindStringSubmatch(a.body)
	if next == nil {
		t.Fatal("the page has no link to the other pools")
	}
	a = b.get(next[1]).requireStatus(t, http.StatusOK)
	a.contains(t, "2 pools on this page", "slow on host-3: Unknown", "pools-before=")
	a.excludes(t, "fast on")
	p.newSignedInBrowser("vera", fleet.RoleViewer).get("/pools/matrix").requireStatus(t, http.StatusOK).contains(t, "fast on host-2")
	p.newTenantBrowser("mia", p.addProject("shop")).get("/pools").requireStatus(t, http.StatusOK).excludes(t, "/pools/matrix")
}
