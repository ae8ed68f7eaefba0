package web_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A compromised host can send any data with its own certificate. The portal must refuse or truncate invalid data, and
// the data must not affect other hosts.
func TestRogueHostAffectsOnlyItself(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m, rogue := p.joinHost(agentURL, "h1"), p.joinHost(agentURL, "rogue")
	session := rogue.sendHello(t, "rogue")
	for _, pool := range []string{"given", "not-given"} {
		in := storage.CreatePool{Name: pool, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + pool}, HostIDs: []fleet.HostID{m.id}}
		if pool == "given" {
			in.HostIDs = append(in.HostIDs, rogue.id)
		}
		if _, err := p.control.CreatePool(t.Context(), fleet.SystemActor, in); err != nil {
			t.Fatal(err)
		}
	}
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Running)
	m.sendReport(t, wire.VMReport{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	rogue.sendReport(t)
	others := func() (rows string) {
		t.Helper()
		err := p.pool.QueryRow(t.Context(), `SELECT (SELECT string_agg(v::text, ';') FROM vms v) || (SELECT string_agg(ph::text, ';' ORDER BY ph::text) FROM assignments ph WHERE ph.host_id = $1)
			|| (SELECT count(*) FROM assignments) || (SELECT h::text FROM hosts h WHERE h.id = $1) || COALESCE((SELECT hm::text FROM host_meters hm WHERE hm.host_id = $1), '')`, m.id).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	before := others()
	c := newAgentCaller(t, agentURL, rogue, &rogue.credentials.Certificate, session)
	report := func(want int, says string) {
		t.Helper()
		rogue.seq++
		body := strings.ReplaceAll(says, "SEQ", strconv.FormatInt(rogue.seq, 10))
		if a := c.request(http.MethodPost, wire.PathReport, body); a.status != want {
			t.Errorf("%.120s: %d, want %d: %s", says, a.status, want, a.body)
		}
	}
	id, mine := fleet.NewID[string](), fleet.NewID[string]()
	state := func(host, rest string) string {
		return `{"seq":SEQ,"digest":"d","state":{"host":{"connected":true` + host + `}` + rest + `}}`
	}
	many := func(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	networks := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `{"name":"n%d","kind":"bridge","status":{}},`, i)
		}
		return strings.TrimSuffix(all.String(), ",")
	}
	const ok, unfit, large, unread = http.StatusOK, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusBadRequest

	report(ok, state(`,"error":"a\u0000b","hypervisor":"a\u0000\u202eb"`, `,"found":[{"id":"`+id+`","name":"a\u0000b","status":{"power":"running","reason":"\u0000"}}]`))
	report(ok, `{"seq":SEQ,"digest":"\u0000","load":{"cpuPercent":-1e300,"memoryUsed":-1}}`)
	report(unread, `{"seq":SEQ,"digest":"d","load":{"cpuPercent":1e999}}`)
	report(unread, `{"seq":SEQ,"digest":"d","load":{"cpuPercent":NaN}}`)
	// a report about a VM of another host
	report(ok, state("", `,"vms":[{"id":"`+string(vm)+`","generation":1,"name":"web","status":{"power":"crashed"}}]`))
	report(ok, state("", `,"vms":[{"id":"`+mine+`","status":{"power":"running"}},{"id":"`+mine+`","status":{"power":"running"}}],"found":[{"id":"`+mine+`","status":{}},{"id":"`+id+`","status":{}},{"id":"`+id+`","status":{}}]`))
	report(ok, state("", `,"pools":[{"name":"not-given","status":{"state":"failed"}},{"name":"no\u0000where","status":{"state":"active"}},{"name":"given","status":{"state":"active","capacityBytes":-5,"usedBytes":9223372036854775807}}]`))
	report(ok, state("", `,"networks":[{"name":"br0","kind":"bridge","status":{}},{"name":"br0","kind":"bridge","status":{}},{"name":"\u0000","kind":"bridge","status":{}}]`))
	report(ok, `{"seq":SEQ,"digest":"d","meters":[{"id":"`+string(vm)+`","cpuNanos":-9223372036854775808},{"id":"`+string(vm)+`","cpuNanos":9223372036854775807}],"leases":[{"id":"`+id+`","epoch":-1}]}`)
	report(unfit, state("", `,"networks":[{"name":"br0","kind":"tunnel","status":{}}]`))
	report(unfit, state("", `,"vms":[{"id":"a\u0000b","status":{"power":"running"}}]`))
	report(unfit, state("", `,"found":[{"id":"`+strings.Repeat("a", 4000)+`","status":{}}]`))
	report(unfit, state("", `,"found":[`+many(5000, `{"id":"`+id+`"}`)+`]`))
	report(unfit, state("", `,"networks":[`+networks(20001)+`]`))
	report(large, state("", `,"vms":[`+many(1<<20, "{}")+`]`))
	report(large, state("", `,"vms":[`+many(1<<20, "0")+`]`))
	report(ok, state("", `,"networks":[`+networks(4096)+`]`))
	report(ok, state("", ""))
	if n := p.countRows("networks WHERE name <> 'default'") + p.countRows("found_vms"); n != 0 {
		t.Errorf("%d rows from the host's reports are left", n)
	}
	for _, path := range []string{wire.PathJobs + "%00/finish", wire.PathJobs + "%00/progress", wire.PathRelay + "%00", wire.PathConsole + "%00"} {
		method, body := http.MethodPost, fmt.Sprintf(`{"seq":%d,"outcome":"done"}`, rogue.seq+1)
		if isRelayPath(path) {
			method = http.MethodGet
		}
		if a := c.request(method, path, body); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := c.request(http.MethodPost, wire.PathHello, `{"instance":"rogue","version":"a\u0000","fingerprint":"`+strings.Repeat("x", 200000)+`"}`); a.status != ok {
		t.Errorf("hello: %d %s", a.status, a.body)
	}
	if after := others(); after != before {
		t.Errorf("rows of other hosts have changed:\n%s\n-- before:\n%s", after, before)
	}
	if strings.Contains(p.log.String(), "unexpected error") {
		t.Error("an internal error of the portal: " + p.log.String())
	}
}
