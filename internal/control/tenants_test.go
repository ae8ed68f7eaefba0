package control_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

// listErrors requests a page of each list with the query q, and returns the error of each list by name.
func (s *projectFixture) listErrors(q fleet.Query) map[string]error {
	out := map[string]error{}
	add := func(name string, _ any, err error) { out[name] = err }
	ctx := s.t.Context()
	vms, err := s.ListVMs(ctx, chief, q)
	add("vms", vms, err)
	hosts, err := s.ListHosts(ctx, chief, q)
	add("hosts", hosts, err)
	found, err := s.ListDiscoveredVMs(ctx, chief, q)
	add("found", found, err)
	pools, err := s.ListPools(ctx, chief, q)
	add("pools", pools, err)
	networks, err := s.ListNetworks(ctx, chief, q)
	add("networks", networks, err)
	projects, err := s.ListProjects(ctx, chief, q)
	add("projects", projects, err)
	users, err := s.ListUsers(ctx, chief, q)
	add("users", users, err)
	tokens, err := s.ListTokens(ctx, chief, q)
	add("tokens", tokens, err)
	joins, err := s.ListJoinTokens(ctx, chief, q)
	add("join tokens", joins, err)
	tasks, err := s.ListTasks(ctx, chief, q)
	add("tasks", tasks, err)
	return out
}

// A list with a forged cursor returns a refusal or a page, but never a database error.
func TestForgedCursorsRefused(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("web", fleet.Running)
	values := []string{
		"", "0", "-1", "+5", "007", "1e3", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "99999999999999999999999", "NaN", "true", "null",
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+15:59", "2026-01-01T00:00:00.123456789Z",
		"2026-02-30T00:00:00Z", "infinity", "now", "epoch", "a\x00b", "\x7f", "\ufffd", "\U0001f600", "'; DROP TABLE vms; --", "%", strings.Repeat("x", 4096), strings.Repeat("x", 5000),
	}
	sorts := []string{"name", "created", "cpus", "memory", "host", "project", "-name", "-created", "-cpus", "-memory", "-host", "-project"}
	texts := []string{"!", "e30", "bnVsbA", base64.RawURLEncoding.EncodeToString([]byte(`["name","\ud800","x"]`)), base64.RawURLEncoding.EncodeToString([]byte("[\"name\",\"\xff\",\"x\"]"))}
	tried := 0
	try := func(q fleet.Query) {
		for list, err := range s.listErrors(q) {
			tried++
			if code := fleet.CodeOf(err); err != nil && code != fleet.Malformed && code != fleet.Invalid {
				t.Errorf("%s by %q after %q: %v", list, q.Sort, q.After+q.Before, err)
			}
		}
	}
	for _, text := range texts {
		try(fleet.Query{After: text})
	}
	for i, sort := range sorts {
		for _, v := range values {
			for columns := 2; columns <= 3; columns++ {
				row := append([]string{sort}, slices.Repeat([]string{v}, columns)...)
				row[columns] = "id"
				text, err := json.Marshal(row)
				if err != nil {
					t.Fatal(err)
				}
				cursor := base64.RawURLEncoding.EncodeToString(text)
				if q := (fleet.Query{Sort: sort, After: cursor}); i%2 == 0 {
					try(q)
				} else {
					try(fleet.Query{Sort: sort, Before: cursor})
				}
			}
		}
	}
	if tried < 5000 {
		t.Errorf("only %d cursors were tried", tried)
	}
}

func TestTokensRevokedWithParentToken(t *testing.T) {
	h := newIdentityFixture(t)
	with := chief
	var chain []fleet.Token
	for i := range 4 {
		token, err := h.CreateToken(t.Context(), with, fmt.Sprint("t", i), 0)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, token)
		if with, err = h.ActorOfToken(t.Context(), anonymous, token.Secret); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.DeleteToken(t.Context(), chief, chain[1].ID); err != nil {
		t.Fatal(err)
	}
	if h.countRowsOf("audit WHERE action = 'token.delete' AND detail = 'and 2 that were made with it'") != 1 {
		t.Error("the audit line does not count the child tokens")
	}
	for i, token := range chain {
		if _, err := h.ActorOfToken(t.Context(), anonymous, token.Secret); (err == nil) != (i == 0) {
			t.Errorf("token %d: %v", i, err)
		}
	}
}

func TestAuditIsAppendOnly(t *testing.T) {
	h := newIdentityFixture(t)
	h.signInTime("chief")
	h.execSQL("INSERT INTO audit (at, actor, action, subject) VALUES (now() - interval '366 days', 'chief', 'old', 'user:chief')")
	for _, sql := range []string{"UPDATE audit SET actor = 'somebody'", "DELETE FROM audit", "TRUNCATE audit", "DELETE FROM audit WHERE action = 'user.signIn'"} {
		if _, err := h.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is possible", sql)
		}
	}
	if n := h.countRowsOf("audit"); n != 2 {
		t.Errorf("%d lines", n)
	}
	h.execSQL("DELETE FROM audit WHERE at < now() - interval '1 year'")
	h.wantLastAuditAction("user.signIn")
}

func TestRefusalAuditLinesAreLimited(t *testing.T) {
	h := newIdentityFixture(t)
	refuse := func(a fleet.Actor, code fleet.ErrorCode) {
		t.Helper()
		if err := h.AuditRefusal(t.Context(), fleet.SystemActor, a, "GET /hosts", fleet.Errorf(code, "No.")); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		refuse(fleet.Actor{UserID: "mia", Name: "mia", Address: "192.0.2.1"}, fleet.Forbidden)
	}
	if n := h.countRowsOf("audit WHERE action = 'user.refused' AND actor = 'mia' AND detail = 'GET /hosts: No.' AND address = '192.0.2.1'"); n != 10 {
		t.Errorf("%d lines of one person", n)
	}
	refuse(anonymous, fleet.TooMany)
	h.wantLastAuditAction("user.throttled")
	if h.countRowsOf("audit WHERE detail LIKE '%(40 others were not written down)'") != 1 {
		t.Error("the audit does not count the skipped refusals")
	}
	for i := range 300 {
		refuse(fleet.Actor{Address: fmt.Sprintf("198.51.%d.%d", i/200, i%200)}, fleet.TooMany)
	}
	if n := h.countRowsOf("audit"); n > 240 { // the limit of two minutes, in case the test crosses one
		t.Errorf("%d lines of everybody", n)
	}
}

// hostSecrets returns texts that must not occur in data for tenants: IDs and names of hosts, paths and host devices.
func (s *projectFixture) hostSecrets(v fleet.VMView) []string {
	return []string{string(s.h1), string(s.h2), "host-of-the-house", "/v/", "/mnt/", "/srv/", "virbr0"}
}

func TestHostNamesHiddenFromTenants(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE hosts SET name = 'host-of-the-house' WHERE id = $1`, s.h1)
	v := s.createVM("web", fleet.Running)
	s.execSQL(`UPDATE vms SET status = status || '{"error":"host-of-the-house: cannot open ''/srv/vm/web-1.qcow2'': on file:///mnt/nfs/x","errorOf":"vm.start","disks":[{"target":"vda","path":"/srv/vm/web-1.qcow2"}]}' WHERE id = $1`, v.ID)
	s.execSQL(`UPDATE jobs SET state = 'failed', error = 'qemu on host-of-the-house: /srv/vm/web-1.qcow2 is gone', note = '/srv/vm', ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	ask := func(a fleet.Actor) map[string]any {
		ctx, out := t.Context(), map[string]any{}
		add := func(name string, answer any, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			out[name] = answer
		}
		vm, err := s.GetVM(ctx, a, v.ID)
		add("vm", vm, err)
		vms, err := s.ListVMs(ctx, a, fleet.Query{})
		add("vms", vms, err)
		history, err := s.VMHistory(ctx, a, v.ID)
		add("events", history, err)
		tasks, err := s.ListTasks(ctx, a, fleet.Query{})
		add("tasks", tasks, err)
		task, err := s.GetTask(ctx, a, tasks.Items[0].ID)
		add("task", task, err)
		around, err := s.Layout(ctx, a, fleet.Query{}, query.TreeQuery{View: "vms"})
		add("surroundings", around, err)
		networks, err := s.ListNetworks(ctx, a, fleet.Query{})
		add("networks", networks, err)
		network, err := s.GetNetwork(ctx, a, networks.Items[0].ID)
		add("network", network, err)
		volumes, err := s.PoolVolumes(ctx, a, s.nfs)
		add("volumes", volumes, err)
		images, err := s.Images(ctx, a)
		add("images", images, err)
		pools, err := s.ListPools(ctx, a, fleet.Query{})
		add("pools", pools, err)
		found, err := s.Search(ctx, a, "web", 8)
		add("search", found, err)
		overview, err := s.Overview(ctx, a)
		add("overview", overview, err)
		text := "changed"
		changed, _, err := s.UpdateVM(ctx, a, v.ID, control.UpdateVM{Description: &text})
		add("update", changed, err)
		made, err := s.CreateVM(ctx, a, control.CreateVM{ProjectID: s.red, Name: "of-" + a.Name, Spec: smallSpec})
		add("create", made, err)
		s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, v.ID)
		order, err := s.RequestPowerAction(ctx, a, v.ID, fleet.ActReboot)
		add("order", order, err)
		return out
	}
	for name, answer := range ask(s.member) {
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range s.hostSecrets(v) {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s reveals %q to a member: %s", name, secret, text)
			}
		}
	}
	complete, err := json.Marshal(ask(chief))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range s.hostSecrets(v) {
		if secret != "/mnt/" && !strings.Contains(string(complete), secret) {
			t.Errorf("an administrator is not shown %q", secret)
		}
	}
	// Filters and sorts by host are refused for tenants, because they would reveal hidden values.
	for _, q := range []fleet.Query{{Filter: "host:host-of-the-house"}, {Sort: "host"}} {
		_, err := s.ListVMs(t.Context(), s.member, q)
		wantCode(t, err, fleet.Invalid)
	}
	_, err = s.ListTasks(t.Context(), s.member, fleet.Query{Filter: "host:host-of-the-house"})
	wantCode(t, err, fleet.Invalid)
}

// A member learns which MAC addresses are in use only within its own project.
func TestMACsOfOtherProjectsHidden(t *testing.T) {
	s := newProjectFixture(t)
	taken := s.createVM("theirs", fleet.Stopped)
	s.execSQL(`UPDATE vms SET project_id = $2, spec = spec || `+defaultNICSQL("52:54:00:00:00:99")+` WHERE id = $1`, taken.ID, s.blue)
	said := map[string]bool{}
	for _, mac := range []string{"52:54:00:00:00:99", "52:54:00:00:00:98", fleet.ProjectMACPrefix(s.blue) + "00:01"} {
		in := control.CreateVM{ProjectID: s.red, Name: "web", Spec: smallSpec}
		in.Spec.NICs = []fleet.NIC{{Network: "default", MAC: mac}}
		_, err := s.CreateVM(t.Context(), s.member, in)
		wantCode(t, err, fleet.Invalid)
		said[err.Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("the error distinguishes a used address from a free one: %v", said)
	}
}

// A tenant's pages get wake-ups only for VMs and tasks of the tenant's own projects.
func TestTenantNotifiedOfOwnProjectsOnly(t *testing.T) {
	r := newHostFixture(t)
	mine, theirs := r.addVM("mine"), r.addVM("theirs")
	project := func(id fleet.VMID) fleet.ProjectID {
		return queryValue[fleet.ProjectID](r, `SELECT project_id FROM vms WHERE id = $1`, id)
	}
	ann := fleet.Actor{UserID: "ann", Name: "ann", Projects: map[fleet.ProjectID]fleet.Role{project(mine): fleet.RoleMember}}
	keys := []string{"vms", "tasks", "projects", "pools", "networks", "pool:x", "net:x", "vm:" + string(mine), "vm:" + string(theirs), "hosts"}
	watched, err := r.WatchKeys(t.Context(), ann, keys)
	if err != nil {
		t.Fatal(err)
	}
	var wakes []string
	for _, w := range watched {
		wakes = append(wakes, w.WakeUps...)
	}
	p := string(project(mine))
	if want := []string{"vms:" + p, "tasks:" + p, "project:" + p, "vm:" + string(mine)}; !slices.Equal(wakes, want) {
		t.Fatalf("woken by %v, want %v", wakes, want)
	}
	r.execSQL(`UPDATE tasks SET project_id = v.project_id FROM vms v WHERE subject = 'vm:' || v.id`)
	r.drainHub()
	var hear func() map[string]bool
	hear = func() map[string]bool {
		sub := r.hub.Subscribe(wakes...)
		defer sub.Close()
		end := r.hub.Subscribe("host:" + string(r.agent.HostID))
		defer end.Close()
		r.execSQL(`UPDATE vms SET description = description || '.' WHERE id = $1`, theirs)
		r.execSQL(`UPDATE jobs SET progress = progress + 1 WHERE subject = $1`, fleet.SubjectVM(theirs))
		r.execSQL(`UPDATE projects SET description = description || '.' WHERE id = $1`, project(theirs))
		r.execSQL(`UPDATE hosts SET generation = generation + 1`) // wakes the pages of people who see all projects
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		select {
		case <-end.C:
		case <-ctx.Done():
			t.Fatal("no wake-up at all")
		}
		woken := map[string]bool{}
		for _, k := range sub.TakeKeys() {
			woken[k] = true
		}
		if woken[notify.ResyncKey] { // the listener has just started and may have missed earlier events
			return hear()
		}
		return woken
	}
	if woken := hear(); len(woken) != 0 {
		t.Errorf("changes of other projects wake a tenant: %v", woken)
	}
	theirs = mine
	if woken := hear(); len(woken) != 4 {
		t.Errorf("changes of the tenant's own projects wake only %v", woken)
	}
}
