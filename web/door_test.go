package web_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

var root = fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}

// caller is whoever speaks at the agents' door: with a host's certificate or without, with a session or without.
type caller struct {
	t       *testing.T
	url     string
	trust   *tls.Config
	session string
}

// callerAs shows what the machine has; nil: no certificate.
func callerAs(t *testing.T, url string, m *machine, cert *tls.Certificate, session string) caller {
	conf := &tls.Config{RootCAs: m.credentials.CA, MinVersion: tls.VersionTLS13}
	if cert != nil {
		conf.Certificates = []tls.Certificate{*cert}
	}
	return caller{t, url, conf, session}
}

func isPair(path string) bool {
	return strings.HasPrefix(path, wire.PathPair) || strings.HasPrefix(path, wire.PathConsole)
}

// ask calls a route; of a pair it shakes hands only.
func (c caller) ask(method, path, body string) answer {
	c.t.Helper()
	header := http.Header{}
	if c.session != "" {
		header.Set(wire.SessionHeader, c.session)
	}
	if isPair(path) {
		d := websocket.Dialer{TLSClientConfig: c.trust, Subprotocols: []string{"binary"}, HandshakeTimeout: 20 * time.Second}
		ws, got, err := d.DialContext(c.t.Context(), "wss"+strings.TrimPrefix(c.url, "https")+path, header)
		if ws != nil {
			ws.Close()
		}
		if got == nil {
			c.t.Fatal(err)
		}
		return answer{got.StatusCode, got.Header, ""}
	}
	transport := &http.Transport{TLSClientConfig: c.trust}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = header
	got, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer got.Body.Close()
	var text bytes.Buffer
	text.ReadFrom(got.Body)
	return answer{got.StatusCode, got.Header, text.String()}
}

// hear is what a machine's own agent knows of its session.
func (m *machine) hear(t *testing.T, instance string) (session string) {
	t.Helper()
	hello, err := m.Hello(t.Context(), wire.Hello{Instance: instance, Fingerprint: string(m.id), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	m.seq = hello.SeqBase
	return hello.Session
}

// again joins a machine's host with a new key, as "Join again" does.
func (p *portal) again(agentURL string, m *machine) {
	p.t.Helper()
	token, err := p.control.CreateJoinToken(p.t.Context(), root, m.id)
	if err != nil {
		p.t.Fatal(err)
	}
	key, csr := request(p.t)
	got, err := wire.Join(p.t.Context(), agentURL, token.Secret, wire.JoinRequest{Name: "again", CSR: csr})
	if err != nil {
		p.t.Fatal(err)
	}
	m.credentials = credentials(p.t, key, got.Certificate)
	m.Rekey()
}

// stored is all that a host's word may change, in words.
func (p *portal) stored() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, table := range []string{"hosts", "host_sessions", "vms", "vm_meters", "found_vms", "pools", "assignments", "networks", "tasks", "jobs", "console_tickets", "join_tokens", "audit"} {
		var rows string
		if err := p.pool.QueryRow(p.t.Context(), `SELECT COALESCE(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` t`).Scan(&rows); err != nil {
			p.t.Fatal(err)
		}
		out[table] = rows
	}
	return out
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines are the calls of the walk below, as the host's own agent would make them now: with the ids and epochs that hold.
func lines(t *testing.T, m *machine, work, screen wire.Work) map[string]struct{ path, body string } {
	type line = struct{ path, body string }
	m.seq++
	csr := requestFor(t, m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey))
	return map[string]line{
		"POST " + wire.PathJoin:  {wire.PathJoin, jsonOf(t, wire.JoinRequest{Name: "h9", CSR: csr})},
		"POST " + wire.PathRenew: {wire.PathRenew, jsonOf(t, wire.RenewRequest{CSR: csr})},
		"POST " + wire.PathHello: {wire.PathHello, jsonOf(t, wire.Hello{Instance: "thief", Fingerprint: string(m.id)})},
		"POST " + wire.PathReport: {wire.PathReport, jsonOf(t, wire.Report{
			Seq: m.seq, Digest: "forged", Leases: []wire.Lease{{ID: work.ID, Epoch: work.Epoch}}, Meters: []wire.Meter{{ID: work.VM.ID, CPUNanos: 7}},
			State: &wire.State{
				Host: fleet.HostStatus{Connected: true, Hypervisor: "forged"}, VMs: []wire.VMReport{{ID: work.VM.ID, Generation: 1, Status: fleet.VMStatus{Power: fleet.Crashed}}},
			},
		})},
		"POST " + wire.PathClaim:                 {wire.PathClaim, `{"max":1}`},
		"POST " + wire.PathJobs + ":id/progress": {wire.PathJobs + string(work.ID) + "/progress", jsonOf(t, wire.Progress{Epoch: work.Epoch, Percent: 77, Note: "forged"})},
		"POST " + wire.PathJobs + ":id/finish": {wire.PathJobs + string(work.ID) + "/finish", jsonOf(t, wire.Finish{
			Epoch: work.Epoch, Generation: work.Generation, Seq: m.seq, Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Crashed},
		})},
		"GET " + wire.PathPair + ":id":    {wire.PathPair + string(screen.Args.Console), ""},
		"GET " + wire.PathConsole + ":id": {wire.PathConsole + string(screen.Args.Console), ""},
	}
}

// Whoever has a host's certificate has not yet its session, and whoever has both has not yet its key.
func TestEveryAgentCallProvesItself(t *testing.T) {
	t.Parallel()
	p, agentURL := newWhole(t)
	m, other, gone := p.joined(agentURL, "h1"), p.joined(agentURL, "h2"), p.joined(agentURL, "h3")
	first, others, removed := m.hear(t, "h1"), other.hear(t, "h2"), gone.hear(t, "h3")
	other.report(t)
	if err := p.control.DeleteHost(t.Context(), root, gone.id); err != nil {
		t.Fatal(err)
	}
	oldKey := m.credentials.Certificate
	p.again(agentURL, m)
	second := m.hear(t, "h1-again")
	now := m.hear(t, "h1-again")

	ann := p.signedIn("ann", fleet.RoleAdmin)
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Running)
	p.exec(`UPDATE vms SET generation = 2 WHERE id = $1`, vm)
	m.report(t, wire.VMReport{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 4096}})
	if err := p.control.QueueDrifted(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	work := m.take(t)
	page := &screen{portal: p, host: m, vm: vm}
	if ws, a := page.open(ann, page.ticket(ann)); ws == nil { // the host is asked when the browser waits
		t.Fatal(a)
	}
	asked := m.take(t)
	if asked.Kind != fleet.ConsoleOpen || work.VM == nil {
		t.Fatalf("claimed %+v and %+v", work, asked)
	}
	testkit.Order{Host: m.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, p.pool) // so that no claim is parked

	calls := lines(t, m, work, asked)
	proofs := p.server.AgentProofs()
	for route := range maps.Keys(proofs) {
		if _, ok := calls[route]; !ok {
			t.Errorf("%s is not walked: add its line", route)
		}
	}
	key, foreign, lost := m.credentials.Certificate, other.credentials.Certificate, gone.credentials.Certificate
	before := p.stored()
	for _, thief := range []struct {
		name   string
		caller caller
	}{
		{"nobody", callerAs(t, agentURL, m, nil, now)},
		{"no session", callerAs(t, agentURL, m, &key, "")},
		{"an invented session", callerAs(t, agentURL, m, &key, "AAAA")},
		{"the session before", callerAs(t, agentURL, m, &key, second)},
		{"the old key and its session", callerAs(t, agentURL, m, &oldKey, first)},
		{"the old key and the stolen session", callerAs(t, agentURL, m, &oldKey, now)},
		{"a removed host", callerAs(t, agentURL, m, &lost, removed)},
		{"a removed host and the stolen session", callerAs(t, agentURL, m, &lost, now)},
		{"another host and the stolen session", callerAs(t, agentURL, m, &foreign, now)},
		{"the host and another's session", callerAs(t, agentURL, m, &key, others)},
	} {
		for route, asksSession := range proofs {
			if !asksSession {
				continue
			}
			method, _, _ := strings.Cut(route, " ")
			want := http.StatusConflict
			if thief.name == "nobody" {
				want = http.StatusUnauthorized
			}
			if a := thief.caller.ask(method, calls[route].path, calls[route].body); a.status != want {
				t.Errorf("%s, by %s: %d, want %d: %s", route, thief.name, a.status, want, a.body)
			}
		}
	}
	for _, thief := range []struct {
		name   string
		caller caller
		routes []string
	}{
		{"nobody", callerAs(t, agentURL, m, nil, now), []string{wire.PathJoin, wire.PathRenew, wire.PathHello}},
		{"the old key", callerAs(t, agentURL, m, &oldKey, now), []string{wire.PathJoin, wire.PathRenew, wire.PathHello}},
		{"a removed host", callerAs(t, agentURL, m, &lost, now), []string{wire.PathJoin, wire.PathRenew, wire.PathHello}},
	} {
		for _, path := range thief.routes {
			if a := thief.caller.ask(http.MethodPost, path, calls["POST "+path].body); a.status != http.StatusUnauthorized {
				t.Errorf("%s, by %s: %d: %s", path, thief.name, a.status, a.body)
			}
		}
	}
	// Another host, with a session of its own, has the right epoch and still not the job.
	stranger := callerAs(t, agentURL, m, &foreign, others)
	for _, route := range []string{"POST " + wire.PathJobs + ":id/finish", "POST " + wire.PathJobs + ":id/progress", "GET " + wire.PathPair + ":id", "GET " + wire.PathConsole + ":id"} {
		method, _, _ := strings.Cut(route, " ")
		body := calls[route].body
		if strings.HasSuffix(route, "/finish") {
			body = strings.Replace(body, fmt.Sprintf(`"seq":%d`, m.seq), fmt.Sprintf(`"seq":%d`, other.seq+1), 1)
		}
		if a := stranger.ask(method, calls[route].path, body); a.status != http.StatusNotFound && a.status != http.StatusConflict {
			t.Errorf("%s, by another host: %d: %s", route, a.status, a.body)
		}
	}
	for table, rows := range p.stored() {
		if rows != before[table] {
			t.Errorf("%s has changed:\n%s\n-- before:\n%s", table, rows, before[table])
		}
	}

	// The same calls by the host itself do what they say: the walk above was refused for the proof alone.
	self := callerAs(t, agentURL, m, &key, now)
	for route, want := range map[string]int{
		"POST " + wire.PathClaim: http.StatusOK, "POST " + wire.PathReport: http.StatusOK, "POST " + wire.PathRenew: http.StatusOK,
		"POST " + wire.PathJobs + ":id/progress": http.StatusNoContent, "GET " + wire.PathPair + ":id": http.StatusSwitchingProtocols,
	} {
		method, _, _ := strings.Cut(route, " ")
		if a := self.ask(method, calls[route].path, calls[route].body); a.status != want {
			t.Errorf("%s, by the host: %d: %s", route, a.status, a.body)
		}
	}
	finish := lines(t, m, work, asked)["POST "+wire.PathJobs+":id/finish"]
	if a := self.ask(http.MethodPost, finish.path, finish.body); a.status != http.StatusOK {
		t.Errorf("the host's own result: %d: %s", a.status, a.body)
	}
	if a := self.ask(http.MethodPost, wire.PathHello, calls["POST "+wire.PathHello].body); a.status != http.StatusOK {
		t.Errorf("the host's own hello: %d: %s", a.status, a.body)
	}
}

func TestAConsoleOutlivesItsAgentsSession(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	ann := s.signedIn("ann", fleet.RoleAdmin)
	browser, a := s.open(ann, s.ticket(ann))
	if browser == nil {
		t.Fatal(a)
	}
	host := s.dialBack()
	s.host.hear(t, "h1")
	if err := host.WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := receive(browser, 12); err != nil || string(got) != "RFB 003.008\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// A report or a result that is numbered past its session would be the last one that ever counts.
func TestNumbersCannotRunAhead(t *testing.T) {
	t.Parallel()
	p, agentURL := newWhole(t)
	m := p.joined(agentURL, "h1")
	pool, err := p.control.CreatePool(t.Context(), fleet.SystemActor, control.CreatePool{
		Name: "local", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm"}, HostIDs: []fleet.HostID{m.id},
	})
	if err != nil {
		t.Fatal(err)
	}
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Stopped)
	state := func(power fleet.Power) *wire.State {
		return &wire.State{
			Host: fleet.HostStatus{Connected: true, Hypervisor: string(power)}, VMs: []wire.VMReport{{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: power}}},
			Pools:    []wire.PoolReport{{Name: "local", Status: fleet.PoolStatus{State: fleet.PoolActive, MountPath: string(power)}}},
			Networks: []wire.NetworkReport{{Name: "default", Kind: fleet.NetworkLibvirt, Status: fleet.NetworkStatus{Bridge: string(power)}}},
		}
	}
	say := func(seq int64, power fleet.Power) error {
		_, err := m.Report(t.Context(), wire.Report{Seq: seq, Digest: string(power), State: state(power)})
		return err
	}
	heard := func(power fleet.Power) {
		t.Helper()
		m.seq++
		if err := say(m.seq, power); err != nil {
			t.Fatal(err)
		}
		var got string
		err := p.pool.QueryRow(t.Context(), `SELECT concat_ws(' ', h.status->>'hypervisor', v.status->>'power', ph.status->>'mountPath', nh.status->>'bridge')
			FROM hosts h JOIN vms v ON v.host_id = h.id JOIN assignments ph ON ph.host_id = h.id AND ph.noun = 'pool' JOIN assignments nh ON nh.host_id = h.id AND nh.noun = 'net'`).Scan(&got)
		if want := strings.Repeat(string(power)+" ", 3) + string(power); err != nil || got != want {
			t.Fatalf("after an honest report the portal holds %q, want %q: %v", got, want, err)
		}
	}
	heard(fleet.Running)
	work := m.take(t)
	before := p.stored()
	for _, seq := range []int64{1 << 62, 1<<63 - 1, m.seq + 1<<32, (m.seq>>32 + 1) << 32, m.seq - 1<<32, 0, -1} {
		if err := say(seq, fleet.Crashed); wire.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("a report numbered %d: %v", seq, err)
		}
		_, err := m.Finish(t.Context(), work.ID, wire.Finish{
			Epoch: work.Epoch, Generation: 1 << 62, Seq: seq, Outcome: wire.Done, Pool: &fleet.PoolStatus{State: fleet.PoolFailed},
		})
		if wire.StatusOf(err) != http.StatusUnprocessableEntity {
			t.Errorf("a result numbered %d: %v", seq, err)
		}
	}
	for table, rows := range p.stored() {
		if rows != before[table] {
			t.Errorf("%s has changed:\n%s\n-- before:\n%s", table, rows, before[table])
		}
	}
	heard(fleet.Paused)
	m.seq++
	done := wire.Finish{Epoch: work.Epoch, Generation: 1 << 62, Seq: m.seq, Outcome: wire.Done, Pool: &state(fleet.Paused).Pools[0].Status}
	if _, err := m.Finish(t.Context(), work.ID, done); err != nil {
		t.Fatal(err)
	}
	var observed int64
	if err := p.pool.QueryRow(t.Context(), `SELECT observed_generation FROM assignments WHERE pool_id = $1`, pool.ID).Scan(&observed); err != nil || observed != 1 {
		t.Errorf("the host has acted on generation %d of 1: %v", observed, err)
	}

	// What was frozen thaws: by the agent's next hello, and when the host joins again.
	freeze := func() {
		t.Helper()
		for _, table := range []string{"hosts", "host_sessions", "vms", "assignments"} {
			p.exec(`UPDATE ` + table + ` SET report_seq = 1::bigint << 62`)
		}
	}
	freeze()
	m.hear(t, "h1")
	heard(fleet.Running)
	freeze()
	p.again(agentURL, m)
	m.hear(t, "h1-again")
	heard(fleet.Stopped)
}

// A host may lie about itself. What it says must be refused or cut, and stay its own.
func TestARogueHostReachesOnlyItself(t *testing.T) {
	t.Parallel()
	p, agentURL := newWhole(t)
	m, rogue := p.joined(agentURL, "h1"), p.joined(agentURL, "rogue")
	session := rogue.hear(t, "rogue")
	for _, pool := range []string{"given", "not-given"} {
		in := control.CreatePool{Name: pool, Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/" + pool}, HostIDs: []fleet.HostID{m.id}}
		if pool == "given" {
			in.HostIDs = append(in.HostIDs, rogue.id)
		}
		if _, err := p.control.CreatePool(t.Context(), fleet.SystemActor, in); err != nil {
			t.Fatal(err)
		}
	}
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Running)
	m.report(t, wire.VMReport{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running}})
	rogue.report(t)
	others := func() (rows string) {
		t.Helper()
		err := p.pool.QueryRow(t.Context(), `SELECT (SELECT string_agg(v::text, ';') FROM vms v) || (SELECT string_agg(ph::text, ';' ORDER BY ph::text) FROM assignments ph WHERE ph.host_id = $1)
			|| (SELECT count(*) FROM assignments) || (SELECT h::text FROM hosts h WHERE h.id = $1) || (SELECT count(*) FROM vm_meters)`, m.id).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	before := others()
	c := callerAs(t, agentURL, rogue, &rogue.credentials.Certificate, session)
	report := func(want int, says string) {
		t.Helper()
		rogue.seq++
		body := strings.ReplaceAll(says, "SEQ", strconv.FormatInt(rogue.seq, 10))
		if a := c.ask(http.MethodPost, wire.PathReport, body); a.status != want {
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
	report(ok, state("", `,"vms":[{"id":"`+string(vm)+`","generation":1,"name":"web","status":{"power":"crashed"}}]`)) // not of this host
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
	if n := p.count("networks WHERE name <> 'default'") + p.count("found_vms"); n != 0 {
		t.Errorf("%d rows of what the rogue once said are left", n)
	}
	for _, path := range []string{wire.PathJobs + "%00/finish", wire.PathJobs + "%00/progress", wire.PathPair + "%00", wire.PathConsole + "%00"} {
		method, body := http.MethodPost, fmt.Sprintf(`{"seq":%d,"outcome":"done"}`, rogue.seq+1)
		if isPair(path) {
			method = http.MethodGet
		}
		if a := c.ask(method, path, body); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := c.ask(http.MethodPost, wire.PathHello, `{"instance":"rogue","version":"a\u0000","fingerprint":"`+strings.Repeat("x", 200000)+`"}`); a.status != ok {
		t.Errorf("hello: %d %s", a.status, a.body)
	}
	if after := others(); after != before {
		t.Errorf("what belongs to others has changed:\n%s\n-- before:\n%s", after, before)
	}
	if strings.Contains(p.log.String(), "unexpected error") {
		t.Error("the portal failed inside: " + p.log.String())
	}
}
