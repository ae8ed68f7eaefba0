package web_test

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// callsOfAgentRoutes returns a valid request for each agent route, by method and path. Agent m has claimed the jobs
// work and screen; screen opens a console.
func callsOfAgentRoutes(t *testing.T, m *simulatedAgent, work, screen wire.Work) map[string]struct{ path, body string } {
	type line = struct{ path, body string }
	m.seq++
	csr := newCSR(t, m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey))
	return map[string]line{
		"POST " + wire.PathJoin:  {wire.PathJoin, marshalJSON(t, wire.JoinRequest{Name: "h9", CSR: csr})},
		"POST " + wire.PathRenew: {wire.PathRenew, marshalJSON(t, wire.RenewRequest{CSR: csr})},
		"POST " + wire.PathHello: {wire.PathHello, marshalJSON(t, wire.Hello{Instance: "thief", Fingerprint: string(m.id)})},
		"POST " + wire.PathReport: {wire.PathReport, marshalJSON(t, wire.Report{
			Seq: m.seq, Digest: "forged", Leases: []wire.Lease{{ID: work.ID, Epoch: work.Epoch}}, Meters: []wire.Meter{{ID: work.VM.ID, CPUNanos: 7}},
			State: &wire.State{
				Host: fleet.HostStatus{Connected: true, Hypervisor: "forged"}, VMs: []wire.VMReport{{ID: work.VM.ID, Generation: 1, Status: fleet.VMStatus{Power: fleet.Crashed}}},
			},
		})},
		"POST " + wire.PathHealth:                {wire.PathHealth, `{"instance":"stolen","number":1,"occurrences":[{"check":"gpu","finding":{"object":"gpu/0","code":"xid-79","severity":"critical","text":"Forged."},"agoMs":0,"repeats":1}]}`},
		"POST " + wire.PathClaim:                 {wire.PathClaim, `{"max":1}`},
		"POST " + wire.PathJobs + ":id/progress": {wire.PathJobs + string(work.ID) + "/progress", marshalJSON(t, wire.Progress{Epoch: work.Epoch, Percent: 77, Note: "forged"})},
		"POST " + wire.PathJobs + ":id/finish": {wire.PathJobs + string(work.ID) + "/finish", marshalJSON(t, wire.Finish{
			Epoch: work.Epoch, Generation: work.Generation, Seq: m.seq, Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Crashed},
		})},
		"POST " + wire.PathResults: {wire.PathResults, marshalJSON(t, wire.Results{Results: []wire.Result{
			{Job: work.ID, Finish: wire.Finish{Epoch: work.Epoch, Generation: work.Generation, Seq: m.seq, Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Crashed}}},
			{Job: screen.ID, Finish: wire.Finish{Epoch: screen.Epoch, Seq: m.seq, Outcome: wire.Done}},
		}})},
		"POST " + wire.PathTransfers + ":id/meet":                   {wire.PathTransfers + string(work.ID) + "/meet", marshalJSON(t, wire.TransferState{Job: work.ID, Epoch: work.Epoch, Ticket: strings.Repeat("ab", 32)})},
		"POST " + wire.PathJobs + ":id/secret":                      {wire.PathJobs + string(m.guestSecretJob) + "/secret", `{}`},
		"POST " + wire.PathJobs + ":id/artifact":                    {wire.PathJobs + string(work.ID) + "/artifact?epoch=" + strconv.FormatInt(work.Epoch, 10), "PK"},
		"POST " + wire.PathFirstBoots + ":id":                       {wire.PathFirstBoots + string(work.VM.ID), marshalJSON(t, wire.FirstBootRequest{FirstBoot: fleet.VMFirstBoot{Kind: fleet.CloudInit, Number: 1}})},
		"POST " + wire.PathPools + ":id/secret":                     {wire.PathPools + string(m.secretPool) + "/secret", `{}`},
		"GET " + wire.PathRelay + ":id":                             {wire.PathRelay + string(screen.Args.Console), ""},
		"GET " + wire.PathConsole + ":id":                           {wire.PathConsole + string(screen.Args.Console), ""},
		"POST " + wire.PathReleases + ":version/:platform/manifest": {wire.PathReleases + "2.0.0/linux-amd64/manifest", `{}`},
		"GET " + wire.PathReleases + ":version/:platform":           {wire.PathReleases + "2.0.0/linux-amd64", ""},
	}
}

// Agent routes require a certificate with the host's current key. Most also require the agent's current session. No
// refused request may change the database.
func TestEveryAgentRouteRequiresProof(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m, other, gone := p.joinHost(agentURL, "h1"), p.joinHost(agentURL, "h2"), p.joinHost(agentURL, "h3")
	first, others, removed := m.sendHello(t, "h1"), other.sendHello(t, "h2"), gone.sendHello(t, "h3")
	other.sendReport(t)
	if err := p.control.DeleteHost(t.Context(), rootActor, gone.id); err != nil {
		t.Fatal(err)
	}
	oldKey := m.credentials.Certificate
	p.rejoinHost(agentURL, m)
	second := m.sendHello(t, "h1-again")
	now := m.sendHello(t, "h1-again")

	ann := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	san, err := p.control.CreatePool(t.Context(), rootActor, storage.CreatePool{Name: "san", Secret: "secretsecret1", Spec: fleet.PoolSpec{
		Kind: fleet.PoolISCSIDirect, Portal: "10.0.0.5", Target: "iqn.2026-01.org.example:vms", Initiator: "iqn.2026-01.org.example:quantix", User: "quantix",
	}})
	if err != nil {
		t.Fatal(err)
	}
	m.secretPool = san.ID
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'assign')`, san.ID, m.id)
	vm := p.addVM(p.addProject("shop"), m.id, "web", fleet.Running)
	p.execSQL(`UPDATE vms SET generation = 2 WHERE id = $1`, vm)
	m.sendReport(t, wire.VMReport{ID: vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 4096}})
	if err := p.control.QueueDriftedObjects(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	work := m.claimJob(t)
	page := &consoleHost{portal: p, host: m, vm: vm}
	if ws, a := page.openConsole(ann, page.requestTicket(ann)); ws == nil { // an open websocket makes the portal queue the host's job
		t.Fatal(a)
	}
	asked := m.claimJob(t)
	if asked.Kind != fleet.ConsoleOpen || work.VM == nil {
		t.Fatalf("claimed %+v and %+v", work, asked)
	}
	// With a job queued, the requests for jobs below return at once instead of waiting.
	testkit.TaskWithJob{Host: m.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, p.pool)

	p.execSQL(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, vm)
	word, err := p.control.SendGuestRequest(t.Context(), fleet.SystemActor, vm, control.GuestRequest{Action: fleet.ActGuestPassword, User: "root", Password: "violet lantern"})
	if err != nil {
		t.Fatal(err)
	}
	m.guestSecretJob = fleet.JobID(word.ID)
	p.execSQL(`UPDATE jobs SET state = 'running', epoch = 9, lease_until = now() + interval '1 hour' WHERE id = $1`, m.guestSecretJob)
	p.execSQL(`INSERT INTO transfers (id, send_job, receive_job, from_host, to_host) VALUES ($1, $1, $1, $2, $3)`, work.ID, m.id, other.id)
	p.offerRelease("2.0.0")
	upgrade := testkit.TaskWithJob{Host: m.id, Kind: fleet.HostAgentUpgrade, Subject: fleet.SubjectHost(m.id)}.Add(t, p.pool)
	p.execSQL(`UPDATE jobs SET state = 'running', epoch = 9, lease_until = now() + interval '1 hour', args = '{"upgrade":{"version":"2.0.0"}}' WHERE id = $1`, upgrade)
	calls := callsOfAgentRoutes(t, m, work, asked)
	proofs := p.server.AgentProofs()
	for route := range maps.Keys(proofs) {
		if _, ok := calls[route]; !ok {
			t.Errorf("%s is not tested: add a call to lines", route)
		}
	}
	key, foreign, lost := m.credentials.Certificate, other.credentials.Certificate, gone.credentials.Certificate
	before := p.rowsChangedByAgents()
	for _, thief := range []struct {
		name   string
		caller agentCaller
	}{
		{"nobody", newAgentCaller(t, agentURL, m, nil, now)},
		{"no session", newAgentCaller(t, agentURL, m, &key, "")},
		{"an invented session", newAgentCaller(t, agentURL, m, &key, "AAAA")},
		{"the previous session", newAgentCaller(t, agentURL, m, &key, second)},
		{"the old key and its session", newAgentCaller(t, agentURL, m, &oldKey, first)},
		{"the old key and the stolen session", newAgentCaller(t, agentURL, m, &oldKey, now)},
		{"a removed host", newAgentCaller(t, agentURL, m, &lost, removed)},
		{"a removed host and the stolen session", newAgentCaller(t, agentURL, m, &lost, now)},
		{"another host and the stolen session", newAgentCaller(t, agentURL, m, &foreign, now)},
		{"the host and another host's session", newAgentCaller(t, agentURL, m, &key, others)},
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
			if a := thief.caller.request(method, calls[route].path, calls[route].body); a.status != want {
				t.Errorf("%s, by %s: %d, want %d: %s", route, thief.name, a.status, want, a.body)
			}
		}
	}
	for name, thief := range map[string]agentCaller{
		"nobody": newAgentCaller(t, agentURL, m, nil, now), "the old key": newAgentCaller(t, agentURL, m, &oldKey, now), "a removed host": newAgentCaller(t, agentURL, m, &lost, now),
	} {
		for route, asksSession := range proofs {
			if asksSession {
				continue
			}
			method, path, _ := strings.Cut(route, " ")
			if a := thief.request(method, path, calls[route].body); a.status != http.StatusUnauthorized {
				t.Errorf("%s, by %s: %d: %s", route, name, a.status, a.body)
			}
		}
	}
	// Another host's agent must not finish the job either, even with a valid session and the job's epoch.
	otherHost := newAgentCaller(t, agentURL, m, &foreign, others)
	for _, route := range []string{"POST " + wire.PathJobs + ":id/finish", "POST " + wire.PathJobs + ":id/progress", "POST " + wire.PathResults, "POST " + wire.PathTransfers + ":id/meet", "POST " + wire.PathPools + ":id/secret", "POST " + wire.PathJobs + ":id/secret", "POST " + wire.PathFirstBoots + ":id", "GET " + wire.PathRelay + ":id", "GET " + wire.PathConsole + ":id", "GET " + wire.PathReleases + ":version/:platform", "POST " + wire.PathReleases + ":version/:platform/manifest"} {
		method, _, _ := strings.Cut(route, " ")
		body := strings.ReplaceAll(calls[route].body, fmt.Sprintf(`"seq":%d`, m.seq), fmt.Sprintf(`"seq":%d`, other.seq+1))
		if a := otherHost.request(method, calls[route].path, body); a.status != http.StatusNotFound && a.status != http.StatusConflict {
			t.Errorf("%s, by another host: %d: %s", route, a.status, a.body)
		}
	}
	for table, rows := range p.rowsChangedByAgents() {
		if rows != before[table] {
			t.Errorf("%s has changed:\n%s\n-- before:\n%s", table, rows, before[table])
		}
	}

	// The host's own requests succeed, so the requests above were refused only because of the missing proof.
	self := newAgentCaller(t, agentURL, m, &key, now)
	for route, want := range map[string]int{
		"POST " + wire.PathClaim: http.StatusOK, "POST " + wire.PathReport: http.StatusOK, "POST " + wire.PathHealth: http.StatusNoContent, "POST " + wire.PathRenew: http.StatusOK,
		"POST " + wire.PathJobs + ":id/progress": http.StatusNoContent, "POST " + wire.PathPools + ":id/secret": http.StatusOK, "POST " + wire.PathJobs + ":id/secret": http.StatusOK, "POST " + wire.PathTransfers + ":id/meet": http.StatusOK, "GET " + wire.PathRelay + ":id": http.StatusSwitchingProtocols,
		"GET " + wire.PathReleases + ":version/:platform": http.StatusOK, "POST " + wire.PathReleases + ":version/:platform/manifest": http.StatusOK,
	} {
		method, _, _ := strings.Cut(route, " ")
		if a := self.request(method, calls[route].path, calls[route].body); a.status != want {
			t.Errorf("%s, by the host: %d: %s", route, a.status, a.body)
		}
	}
	finish := callsOfAgentRoutes(t, m, work, asked)["POST "+wire.PathJobs+":id/finish"]
	if a := self.request(http.MethodPost, finish.path, finish.body); a.status != http.StatusOK {
		t.Errorf("the host's own result: %d: %s", a.status, a.body)
	}
	// The portal accepts or refuses each result separately: the first result was already accepted above, the second one
	// is new.
	both := callsOfAgentRoutes(t, m, work, asked)["POST "+wire.PathResults]
	var each wire.ResultsAnswer
	a := self.request(http.MethodPost, both.path, both.body)
	if err := json.Unmarshal([]byte(a.body), &each); err != nil || a.status != http.StatusOK || len(each.Answers) != 2 ||
		each.Answers[0].Status != http.StatusConflict || each.Answers[0].Detail == "" || each.Answers[1] != (wire.ResultAnswer{}) {
		t.Errorf("the host's own results, one of them sent twice: %d: %s", a.status, a.body)
	}
	for body, want := range map[string]int{
		`{}`: http.StatusBadRequest, `{"results":[]}`: http.StatusBadRequest, `{"results":[{"outcome":"done"}]}`: http.StatusUnprocessableEntity,
		`{"results":[` + strings.Repeat(`{"job":"x"},`, wire.MaxResults) + `{"job":"x"}]}`: http.StatusUnprocessableEntity, fmt.Sprintf(`{"results":[{"job":%q,"outcome":"dune"}]}`, work.ID): http.StatusBadRequest,
	} {
		if a := self.request(http.MethodPost, wire.PathResults, body); a.status != want {
			t.Errorf("%.60s: %d, want %d: %s", body, a.status, want, a.body)
		}
	}
	if a := self.request(http.MethodPost, wire.PathHello, calls["POST "+wire.PathHello].body); a.status != http.StatusOK {
		t.Errorf("the host's own hello: %d: %s", a.status, a.body)
	}
}

func TestConsoleSurvivesNewAgentSession(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)
	browser, a := s.openConsole(ann, s.requestTicket(ann))
	if browser == nil {
		t.Fatal(a)
	}
	host := s.dialRelay()
	s.host.sendHello(t, "h1")
	if err := host.WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := receiveBytes(browser, 12); err != nil || string(got) != "RFB 003.008\n" {
		t.Errorf("%q, %v", got, err)
	}
}
