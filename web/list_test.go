package web_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// newListsPortal returns a portal with more than two objects of each type, for lists with limit=2.
func newListsPortal(t *testing.T) *portal {
	t.Helper()
	t.Parallel()
	p := newPortal(t)
	project := p.addProject("shop")
	var hosts []fleet.HostID
	for i := range 5 {
		hosts = append(hosts, p.addHost(fmt.Sprintf("host-%d", i), 0))
		p.addPool(fmt.Sprintf("pool-%d", i), hosts[0])
		p.addNetwork(fmt.Sprintf("net-%d", i), hosts[0])
		p.addVM(project, hosts[0], fmt.Sprintf("vm-%d", i), fleet.Running)
		p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, $3, $4)", hosts[0], fleet.NewID[fleet.VMID](), fmt.Sprintf("old-%d", i),
			mustJSON(fleet.VMStatus{Power: fleet.Running}))
		testkit.TaskWithJob{
			Host: hosts[0], Kind: fleet.PoolApply, Subject: fleet.Subject(fmt.Sprintf("pool:%d", i)), Name: fmt.Sprintf("job-%d", i),
			By: "=cmd()", Error: "@x", State: fleet.JobFailed,
		}.Add(p.t, p.pool)
	}
	return p
}

var (
	tableBodyPattern = regexp.MustCompile(`(?s)<tbody.*?</tbody>`)
	rowNamePattern   = regexp.MustCompile(`>((?:host|pool|net|vm|old|job)-\d+)<`)
	pageLinkPattern  = regexp.MustCompile(`rel="(prev|next)" href="([^"]+)"`)
)

// rowNames returns the names in the rows of the response's table, in order, as one text.
func rowNames(a answer) string {
	var words []string
	for _, m := range rowNamePattern.FindAllStringSubmatch(tableBodyPattern.FindString(a.body), -1) {
		words = append(words, m[1])
	}
	return strings.Join(words, " ")
}

func pagerLinks(a answer) map[string]string {
	links := map[string]string{}
	for _, m := range pageLinkPattern.FindAllStringSubmatch(a.body, -1) {
		links[m[1]] = strings.ReplaceAll(m[2], "&amp;", "&")
	}
	return links
}

func TestListPagesLinkToNextAndPreviousPage(t *testing.T) {
	p := newListsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	for path, want := range map[string][]string{
		"/vms?columns=state&limit=2":           {"vm-0 vm-1", "vm-2 vm-3", "vm-4"},
		"/vms?sort=-name&columns=id&limit=2":   {"vm-4 vm-3", "vm-2 vm-1", "vm-0"},
		"/vms?sort=host&columns=id&limit=2":    {"vm-0 vm-1", "vm-2 vm-3", "vm-4"},
		"/vms?tab=found&columns=id&limit=2":    {"old-0 old-1", "old-2 old-3", "old-4"},
		"/hosts?limit=2":                       {"host-0 host-1", "host-2 host-3", "host-4"},
		"/pools?columns=id&sort=-name&limit=2": {"pool-4 pool-3", "pool-2 pool-1", "pool-0"},
		"/networks?columns=id&limit=2":         {"net-0 net-1", "net-2 net-3", "net-4"},
		"/tasks?columns=target&limit=2":        {"job-4 job-3", "job-2 job-1", "job-0"},
	} {
		first := b.get(path).requireStatus(t, http.StatusOK)
		if rowNames(first) != want[0] || pagerLinks(first)["prev"] != "" || strings.Contains(first.body, "First page") {
			t.Errorf("%s begins with %q, links %v", path, rowNames(first), pagerLinks(first))
			continue
		}
		second := b.get(pagerLinks(first)["next"]).requireStatus(t, http.StatusOK)
		second.contains(t, "First page", "Previous")
		third := b.get(pagerLinks(second)["next"]).requireStatus(t, http.StatusOK)
		if rowNames(second) != want[1] || rowNames(third) != want[2] || pagerLinks(third)["next"] != "" {
			t.Errorf("%s goes on with %q and %q", path, rowNames(second), rowNames(third))
		}
		again := b.get(pagerLinks(third)["prev"]).requireStatus(t, http.StatusOK)
		start := b.get(pagerLinks(again)["prev"]).requireStatus(t, http.StatusOK)
		if rowNames(again) != want[1] || rowNames(start) != want[0] || pagerLinks(start)["prev"] != "" || pagerLinks(start)["next"] == "" {
			t.Errorf("%s goes back by %q to %q, links %v", path, rowNames(again), rowNames(start), pagerLinks(start))
		}
		start.excludes(t, "First page")
	}
}

// A live update of the rows also replaces the link to the next page. After a row was inserted, the next page begins
// after the last row that is now shown.
func TestLiveUpdateReplacesNextPageLink(t *testing.T) {
	p := newListsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms?columns=state&limit=2"
	before := pagerLinks(b.get(path))
	p.execSQL("UPDATE vms SET name = 'vm-00' WHERE name = 'vm-4'") // now the second row
	rows := b.getFragment(path, "vm-rows").requireStatus(t, http.StatusOK)
	if after := pagerLinks(rows); after["next"] == before["next"] || rowNames(b.get(after["next"])) != "vm-1 vm-2" {
		t.Errorf("after a change, the next page is %q", rowNames(b.get(pagerLinks(rows)["next"])))
	}
}

func TestEmptyListPageRedirectsToFirstPage(t *testing.T) {
	p := newListsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms?columns=state&limit=2"
	second := pagerLinks(b.get(path))["next"]
	back := pagerLinks(b.get(second))["prev"]
	p.execSQL("DELETE FROM vms WHERE name < 'vm-2'")
	if to := b.get(back).requireStatus(t, http.StatusSeeOther).header.Get("Location"); to != path {
		t.Errorf("the empty page redirects to %s", to)
	}
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "vm-2")
	b.get("/vms?after=zzz").requireStatus(t, http.StatusBadRequest).contains(t, "out of date")
	b.get(second+"&before=x").requireStatus(t, http.StatusBadRequest).contains(t, "Give only one cursor")
	p.execSQL("DELETE FROM vms")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "No VMs yet")
}

func TestListsShowColumnsFromQueryParameter(t *testing.T) {
	p := newListsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	head := func(a answer) string {
		var words []string
		for _, m := range regexp.MustCompile(`(?s)<th class="[^"]*"[^>]*>(.*?)</th>`).FindAllStringSubmatch(a.body, -1) {
			words = append(words, strings.TrimSpace(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[1], "")))
		}
		return strings.Join(words, "|")
	}
	for path, want := range map[string]string{
		"/hosts":                            "Name|State|Health|VMs|vCPUs / threads|Memory allocated|Hypervisor|Labels|Last seen|Actions",
		"/hosts?columns=id,state,os,nosuch": "Name|State|Operating system|UUID|Actions",
		"/pools":                            "Name|Health|Kind|Source|Used|Free|Description|Actions",
		"/pools?columns=free":               "Name|Free|Actions",
		"/networks?columns=nosuch":          "Name|Kind|Health|Mode|Subnets|Hosts|Actions",
		"/networks?columns=id":              "Name|UUID|Actions",
		"/tasks":                            "Task|Target|State|Who|Host|Started|Progress|Result",
		"/tasks?columns=ended,state":        "Task|State|Ended",
		"/vms?tab=found&columns=host":       "|Name|Host|Actions",
		"/vms?columns=created":              "|Name|Created|Actions",
	} {
		if got := head(b.get(path).requireStatus(t, http.StatusOK)); got != want {
			t.Errorf("%s shows %s, not %s", path, got, want)
		}
	}
	// Each menu item adds or removes one column. The link to the default columns has no columns parameter, and the last
	// column cannot be removed.
	a := b.get("/pools?columns=free&filter=x&limit=9&tree=storage").requireStatus(t, http.StatusOK)
	a.contains(t, `href="/pools?columns=kind%2Cfree&amp;filter=x&amp;limit=9"`, `href="/pools?columns=free&amp;filter=x&amp;limit=9" aria-current="true"`)
	b.get("/networks?columns=kind,health,forward,subnets").requireStatus(t, http.StatusOK).contains(t, `<a class="menu-item" href="/networks">Hosts</a>`)
}

func TestListsExportAsCSV(t *testing.T) {
	p := newListsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	for path, first := range map[string]string{
		"/hosts.csv": "host-0", "/pools.csv": "pool-0", "/networks.csv": "net-0", "/tasks.csv": "Assign pool", "/vms.csv": "vm-0", "/vms.csv?tab=found": "old-0",
	} {
		// The export ignores the query's limit and page cursors.
		a := b.get(path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"limit=2&after=x&before=y").requireStatus(t, http.StatusOK)
		rows, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
		if err != nil || len(rows) != 6 || rows[1][1] != first || rows[0][0] != "id" || !strings.Contains(a.header.Get("Content-Disposition"), ".csv") {
			t.Errorf("%s: %q %v", path, rows, err)
		}
	}
	b.get("/pools.csv?filter=name:pool-3").requireStatus(t, http.StatusOK).excludes(t, "pool-2")
	b.get("/pools.csv?filter=name:pool-3").contains(t, "pool-3,nfs,10.0.0.5:/exports/pool-3,true,ok,1 of 1 hosts healthy,2199023255552")
	b.get("/networks.csv?sort=-name&filter=name:net-3").contains(t, "net-3,libvirt,1,1,host-0")
	b.get("/tasks.csv?filter=target:job-2").contains(t, "job-2,failed,'=cmd(),host-0", "'@x")
	b.get("/tasks.csv?filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity)
	b.get("/vms.csv?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.get("/hosts.csv?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.get("/tasks?"+url.Values{"filter": {"target:job-2"}, "columns": {"who"}, "after": {""}, "limit": {"3"}}.Encode()).requireStatus(t, http.StatusOK).
		contains(t, `href="/tasks.csv?filter=target%3Ajob-2"`)

	tenant := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	tenant.get("/pools.csv").requireStatus(t, http.StatusOK).excludes(t, "10.0.0.5")
	tenant.get("/tasks.csv").requireStatus(t, http.StatusOK).excludes(t, "job-")
	tenant.get("/hosts.csv").requireStatus(t, http.StatusForbidden)
}

// An export of several pages is complete, in order and without duplicates. For users who may not see hosts it contains
// no host names.
func TestCSVExportContainsRowsOfAllPages(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	const vms = 4_500
	testkit.Seed(t, p.pool, 3, vms)
	p.execSQL(`UPDATE vms SET description = '=cmd()' WHERE name = 'vm-000017'`)
	rows := func(b *browser, path string) [][]string {
		rows, err := csv.NewReader(strings.NewReader(b.get(path).requireStatus(t, http.StatusOK).body)).ReadAll()
		if err != nil || len(rows) == 0 {
			t.Fatalf("%s: %d rows, %v", path, len(rows), err)
		}
		return rows[1:]
	}
	names := func(rows [][]string) (names []string) {
		for _, row := range rows {
			names = append(names, row[1])
		}
		return names
	}
	admin := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	all := rows(admin, "/vms.csv")
	if got := names(all); len(got) != vms || !slices.IsSorted(got) || len(slices.Compact(got)) != vms {
		t.Errorf("the file has %d VMs", len(got))
	}
	if want := []string{"vm-000017", "stopped", "host-003", "project-7", "2", "1024", "10.0.0.17", "env=test tier=t3", "'=cmd()"}; !slices.Equal(all[16][1:10], want) {
		t.Errorf("a line is %q, want %q", all[16][1:10], want)
	}
	byHost := rows(admin, "/vms.csv?sort=-host&filter=state:running,stopped")
	if !slices.IsSortedFunc(byHost, func(x, y []string) int { return strings.Compare(y[3]+y[1], x[3]+x[1]) }) || len(byHost) != vms-vms/1000 {
		t.Errorf("sorted by host the file has %d VMs, or the order is wrong", len(byHost))
	}
	tenant := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects WHERE name < 'project-5'")
	for _, row := range rows(tenant, "/vms.csv") {
		if row[3] != "" || row[4] > "project-5" {
			t.Fatalf("a tenant gets the row %q", row)
		}
	}
	if n := len(rows(tenant, "/vms.csv")); n != vms/2 {
		t.Errorf("a tenant of half of the projects gets %d VMs", n)
	}
}
