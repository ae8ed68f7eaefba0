package control_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

func (s *projectFixture) poolView(a fleet.Actor, id fleet.PoolID) fleet.PoolView {
	s.t.Helper()
	v, err := s.GetPool(s.t.Context(), a, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func TestPoolHealthDerivesFromHostStatuses(t *testing.T) {
	s := newProjectFixture(t)
	v := s.poolView(chief, s.nfs)
	if v.Health.Summary != "2 of 2 hosts healthy" || v.Health.Severity != fleet.SeverityOK || v.Health.CapacityBytes != 1000<<30 || len(v.Hosts) != 2 || v.Hosts[0].Status.Volumes != nil {
		t.Errorf("healthy: %+v", v)
	}
	if page, err := s.ListPools(t.Context(), chief, fleet.Query{Filter: "free>0 used<101 kind:nfs"}); err != nil || len(page.Items) != 1 {
		t.Errorf("pools by capacity: %+v %v", page, err)
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: timed out"}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, s.h1)
	v = s.poolView(chief, s.nfs)
	if v.Health.Severity != fleet.SeverityBad || v.Hosts[0].State != fleet.PoolFailed || v.Hosts[1].State != fleet.PoolUnknown || v.Hosts[0].HostPhase != fleet.HostOnline {
		t.Errorf("one failed, one offline: %+v", v)
	}
	for filter, want := range map[string]string{"health:bad": "nfs", "-health:bad": "local", "kind:dir": "local", "host:h2": "nfs", "lo*": "local", "health:ok": "", "free>1T": "", "source:NAS": "nfs", "-source:nas": "local", "used<101 kind:nfs": ""} {
		page, err := s.ListPools(t.Context(), chief, fleet.Query{Filter: filter, Limit: 1})
		var names []string
		for _, v := range page.Items {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want || page.Next != "" {
			t.Errorf("%q: %q %v, want %q", filter, got, err, want)
		}
	}
	first, err := s.ListPools(t.Context(), chief, fleet.Query{Limit: 1, Sort: "-name"})
	if err != nil || first.Items[0].Name != "nfs" || first.Next == "" {
		t.Fatalf("%+v %v", first, err)
	}
	second, err := s.ListPools(t.Context(), chief, fleet.Query{Limit: 1, Sort: "-name", After: first.Next})
	if err != nil || second.Items[0].Name != "local" || second.Next != "" {
		t.Errorf("%+v %v", second, err)
	}
	if v = s.poolView(s.member, s.nfs); len(v.Hosts) != 0 || v.Spec.Server != "" || v.Spec.Path != "" || v.Health.Hosts != 0 || v.Health.Healthy > 1 || strings.Contains(v.Health.Summary, "host") {
		t.Errorf("a project's member is shown %+v", v)
	}
}

// A host that reports an active pool with an error makes the pool's status on that host degraded. Counts and filters
// include it, and the page shows the host's error.
func TestFaultyActivePoolIsDegraded(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`UPDATE assignments SET status = status || '{"error":"It is mounted read-only."}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	v := s.poolView(chief, s.nfs)
	if v.Health.Summary != "1 of 2 hosts healthy, degraded on 1" || v.Health.Severity != fleet.SeverityWarn || v.Health.Degraded != 1 || v.Health.SeverityCounts.Warn != 1 {
		t.Errorf("its health is %+v", v.Health)
	}
	for filter, want := range map[string]string{"health:warn": "h2", "health:ok": "h1", "": "h2 h1", "health:bad": ""} {
		page, err := s.PoolHosts(t.Context(), chief, s.nfs, fleet.Query{Filter: filter})
		var names []string
		for _, h := range page.Items {
			names = append(names, h.HostName)
			if h.HostName == "h2" && (h.Severity != fleet.SeverityWarn || h.Notice != "Degraded: It is mounted read-only.") {
				t.Errorf("h2 gets as %+v", h)
			}
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", filter, got, err, want)
		}
	}
}

// A host status that is not healthy lists the VMs of that host with disks in the pool.
func TestUnhealthyHostStatusListsAffectedVMs(t *testing.T) {
	s := newProjectFixture(t)
	disks := func(pools ...fleet.PoolID) (out []fleet.Disk) {
		for i, p := range pools {
			out = append(out, fleet.Disk{PoolID: p, Volume: fmt.Sprintf("d%d", i), SizeBytes: 1 << 30})
		}
		return out
	}
	s.execSQL(`DELETE FROM vms`)
	for name, c := range map[string]struct {
		host  fleet.HostID
		power string
		disks []fleet.Disk
	}{
		"two-disks": {s.h2, "running", disks(s.nfs, s.nfs)}, "off": {s.h2, "stopped", disks(s.nfs, s.local)},
		"another-pool": {s.h2, "running", disks(s.local)}, "another-host": {s.h1, "running", disks(s.nfs)},
	} {
		spec, _ := json.Marshal(fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Disks: c.disks})
		s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status) VALUES ($1, (SELECT id FROM projects ORDER BY id LIMIT 1), $2, $3, $4, jsonb_build_object('power', $5::text))`,
			fleet.NewID[fleet.VMID](), c.host, name, spec, c.power)
	}
	if v := s.poolView(chief, s.nfs); v.Hosts[0].Impact != nil || v.Hosts[1].Impact != nil {
		t.Errorf("healthy: %+v", v.Hosts)
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: timed out"}' WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	want := fleet.PoolImpact{VMs: 2, Running: 1, Disks: 3}
	v := s.poolView(chief, s.nfs)
	page, err := s.PoolHosts(t.Context(), chief, s.nfs, fleet.Query{Filter: "health:bad"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Impact == nil || *page.Items[0].Impact != want {
		t.Errorf("the failed host status alone: %+v, %v", page.Items, err)
	}
	if v.Hosts[0].HostID != s.h2 || v.Hosts[0].Impact == nil || *v.Hosts[0].Impact != want || v.Hosts[1].Impact != nil {
		t.Errorf("all host statuses: %+v", v.Hosts)
	}
	s.execSQL(`DELETE FROM vms`)
	if v := s.poolView(chief, s.nfs); v.Hosts[0].Impact == nil || *v.Hosts[0].Impact != (fleet.PoolImpact{}) {
		t.Errorf("without VMs: %+v", v.Hosts[0].Impact)
	}
}

// The dashboard and the list compute pool health with different SQL statements, which must agree. Both ignore reports
// of offline hosts.
func TestDashboardPoolCountsMatchList(t *testing.T) {
	s := newProjectFixture(t)
	for _, step := range []struct {
		name, sql string
		hosts     []any
	}{
		{"all are online", `SELECT`, nil},
		{"one is silent", `UPDATE host_sessions SET seen_at = now() - interval '31 seconds' WHERE host_id = $1`, []any{s.h1}},
		{"one was never online", `UPDATE host_sessions SET seen_at = NULL WHERE host_id = $1`, []any{s.h2}},
		{"one is back", `UPDATE host_sessions SET seen_at = now() WHERE host_id = $1`, []any{s.h1}},
	} {
		s.execSQL(step.sql, step.hosts...)
		page, err := s.ListPools(t.Context(), chief, fleet.Query{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[fleet.Severity]int{}
		for _, v := range page.Items {
			want[v.Health.Severity]++
		}
		if o, err := s.Overview(t.Context(), chief); err != nil || !maps.Equal(o.Pools, want) {
			t.Errorf("%s: the dashboard counts %v, the list %v: %v", step.name, o.Pools, want, err)
		}
	}
}

func TestPoolAssignedReleasedAndDeleted(t *testing.T) {
	s := newProjectFixture(t)
	spec := fleet.PoolSpec{Kind: fleet.PoolNFS, Path: "/mnt/b", Server: "nas", Export: "/b/"}
	v, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "b", Spec: spec, HostIDs: []fleet.HostID{s.h1, s.h1}})
	if err != nil || !v.Spec.Shared || v.Spec.Export != "/b" || len(v.Hosts) != 1 || v.Hosts[0].State != fleet.PoolPending {
		t.Fatalf("%+v %v", v, err)
	}
	subject := fleet.SubjectPool(v.ID)
	jobs, err := s.Assign(t.Context(), chief, fleet.SubjectPool(v.ID), []fleet.HostID{s.h1, s.h2})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%v %v", jobs, err)
	}
	s.setPoolState(v.ID, s.h2, fleet.PoolFailed)
	if again, err := s.Retry(t.Context(), chief, fleet.SubjectPool(v.ID), s.h2); err != nil || again != jobs[0] {
		t.Errorf("a retry does not join the waiting job: %v %v", again, err)
	}
	if _, err := s.Release(t.Context(), chief, fleet.SubjectPool(v.ID), s.h2); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(subject); got != "pool.apply queued, pool.apply cancelled, pool.release queued" {
		t.Errorf("after a release: %s", got)
	}
	s.wantRefused("release twice", fleet.Conflict, "h2 is releasing the pool", func() error { _, err := s.Release(t.Context(), chief, fleet.SubjectPool(v.ID), s.h2); return err })
	if jobs, err = s.DeleteEverywhere(t.Context(), chief, fleet.SubjectPool(v.ID)); err != nil || len(jobs) != 2 {
		t.Fatalf("%v %v", jobs, err)
	}
	s.wantRefused("assign a dying pool", fleet.Conflict, "being deleted", func() error {
		_, err := s.Assign(t.Context(), chief, fleet.SubjectPool(v.ID), []fleet.HostID{s.h1})
		return err
	})
	if got := s.poolView(chief, v.ID); !strings.Contains(got.Health.Summary, "Being deleted") {
		t.Errorf("%+v", got.Health)
	}
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1 AND host_id = $2`, v.ID, s.h1)
	s.poolView(chief, v.ID)
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1`, v.ID)
	if _, err := s.GetPool(t.Context(), chief, v.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("the pool outlives its last host: %v", err)
	}
}

// setPoolState writes a host's reported state of the pool.
func (s *projectFixture) setPoolState(pool fleet.PoolID, host fleet.HostID, state fleet.PoolState) {
	s.t.Helper()
	s.execSQL(`UPDATE assignments SET status = jsonb_build_object('state', $3::text) WHERE pool_id = $1 AND host_id = $2`, pool, host, state)
}

// The page's disabled Retry button shows the same text as the refusal.
func TestPoolRetryRefusalMatchesDisabledButton(t *testing.T) {
	s := newProjectFixture(t)
	retry := func() error { _, err := s.Retry(t.Context(), chief, fleet.SubjectPool(s.local), s.h1); return err }
	for _, c := range []struct {
		why   string
		start func()
	}{
		{"The pool is active there.", func() { s.setPoolState(s.local, s.h1, fleet.PoolActive) }},
		{"The host has not finished yet.", func() { s.execSQL(`UPDATE assignments SET status = NULL WHERE pool_id = $1`, s.local) }},
		{"", func() { s.setPoolState(s.local, s.h1, fleet.PoolFailed) }},
		{"", func() { s.setPoolState(s.local, s.h1, fleet.PoolInactive) }},
		{"The host is offline. It retries when it is online again.", func() { s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`) }},
		{"h1 is releasing the pool.", func() { s.execSQL(`UPDATE assignments SET asked = 'release' WHERE pool_id = $1`, s.local) }},
	} {
		c.start()
		status := s.poolView(chief, s.local).Hosts[0]
		if ok, why := status.Allows(fleet.ActRetry); ok != (c.why == "") || why != c.why {
			t.Fatalf("the page says of %s: %v %q, want %q", status.State, ok, why, c.why)
		}
		if c.why != "" {
			s.wantRefused("retry", fleet.Conflict, c.why, retry)
		} else if err := retry(); err != nil {
			t.Errorf("retry where it is %s: %v", status.State, err)
		}
	}
	s.wantRefused("by a member", fleet.Forbidden, "do not have permission", func() error { _, err := s.Retry(t.Context(), s.member, fleet.SubjectPool(s.local), s.h1); return err })
}

func TestInvalidPoolsRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, err := s.CreateVM(t.Context(), chief, control.CreateVM{
		ProjectID: s.red, HostID: s.h1, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1 << 30}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/other"}
	create := func(a fleet.Actor, in storage.CreatePool) func() error {
		return func() error { _, err := s.CreatePool(t.Context(), a, in); return err }
	}
	s.wantRefused("member creates", fleet.Forbidden, "do not have permission", create(s.member, storage.CreatePool{Name: "x", Spec: dir}))
	s.wantRefused("taken name", fleet.Conflict, "exists already", create(chief, storage.CreatePool{Name: "nfs", Spec: dir}))
	s.wantRefused("system path", fleet.Invalid, "belongs to the system", create(chief, storage.CreatePool{Name: "x", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/etc/"}}))
	s.wantRefused("no such host", fleet.Invalid, "does not exist", create(chief, storage.CreatePool{Name: "x", Spec: dir, HostIDs: []fleet.HostID{"nowhere"}}))
	s.wantRefused("taken directory", fleet.Invalid, "Pool local uses /srv/vm on h1", create(chief, storage.CreatePool{
		Name: "x", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm/"}, HostIDs: []fleet.HostID{s.h1},
	}))
	s.wantRefused("release with disks", fleet.Conflict, "web", func() error { _, err := s.Release(t.Context(), chief, fleet.SubjectPool(s.nfs), s.h1); return err })
	s.wantRefused("delete with disks", fleet.Conflict, "web", func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectPool(s.nfs)); return err })
	s.wantRefused("retry elsewhere", fleet.NotFound, "not assigned", func() error { _, err := s.Retry(t.Context(), chief, fleet.SubjectPool(s.local), s.h2); return err })
	s.wantRefused("no host", fleet.Invalid, "at least one host", func() error { _, err := s.Assign(t.Context(), chief, fleet.SubjectPool(s.nfs), nil); return err })
	if _, err := s.Release(t.Context(), chief, fleet.SubjectPool(s.nfs), s.h2); err != nil {
		t.Errorf("no VM of h2 needs it: %v", err)
	}
	page, err := s.PoolVMs(t.Context(), s.member, s.nfs, fleet.Query{})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != v.ID {
		t.Errorf("%+v %v", page, err)
	}
	if page, err = s.PoolVMs(t.Context(), s.blueMember, s.nfs, fleet.Query{}); err != nil || len(page.Items) != 0 {
		t.Errorf("a user of another project sees %+v %v", page, err)
	}
}

func TestOnlyVolumesOfSharedPoolsAreMergedAcrossHosts(t *testing.T) {
	s := newProjectFixture(t)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) SELECT noun, object_id, $1, asked, status FROM assignments WHERE pool_id = $2`, s.h2, s.local)
	for pool, want := range map[fleet.PoolID]string{s.nfs: "cd.iso 2, debian.qcow2 2", s.local: "cd.iso 1, cd.iso 1, debian.qcow2 1, debian.qcow2 1"} {
		volumes, err := s.PoolVolumes(t.Context(), chief, pool)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, v := range volumes {
			lines = append(lines, v.Name+" "+string(rune('0'+len(v.Hosts))))
		}
		if got := strings.Join(lines, ", "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
