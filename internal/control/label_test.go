package control_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/hosts"
	"quantix/internal/control/network"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

// setLabels sets the host's labels.
func (s *projectFixture) setLabels(host fleet.HostID, labels map[string]string) {
	s.t.Helper()
	if _, err := s.UpdateHost(s.t.Context(), chief, host, hosts.UpdateHost{Spec: specWithLabels(labels)}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *projectFixture) runAssignPass() {
	s.t.Helper()
	if err := s.AssignToMatchingHosts(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// assignedHosts returns the names of hosts that have the object assigned.
func (s *projectFixture) assignedHosts(object any) string {
	s.t.Helper()
	var names string
	err := s.pool.QueryRow(s.t.Context(), `SELECT COALESCE(string_agg(h.name, ' ' ORDER BY h.name), '') FROM assignments a JOIN hosts h ON h.id = a.host_id
		WHERE a.object_id = $1 AND a.asked = 'assign'`, object).Scan(&names)
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

func (s *projectFixture) wantAssigned(when string, object any, want string) {
	s.t.Helper()
	if got := s.assignedHosts(object); got != want {
		s.t.Errorf("%s the object is on %q, want %q", when, got, want)
	}
}

// unassignedReasons returns the hosts that match the pool's selector but do not have the pool, with the reasons.
func (s *projectFixture) unassignedReasons(id fleet.PoolID) string {
	s.t.Helper()
	now, err := s.ByLabel(s.t.Context(), chief, fleet.SubjectPool(id))
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, h := range now.LeftOut {
		out = append(out, h.HostName+": "+h.Why)
	}
	return strings.Join(out, "; ")
}

func (s *projectFixture) assignPoolByLabel(id fleet.PoolID, selector string) fleet.ByLabel {
	s.t.Helper()
	now, err := s.AssignByLabel(s.t.Context(), chief, fleet.SubjectPool(id), selector)
	if err != nil {
		s.t.Fatal(err)
	}
	return now
}

// passChangeMarks returns row counts and row versions of the tables that the assignment pass writes. An equal result
// means that the pass wrote nothing.
func (s *projectFixture) passChangeMarks() string {
	s.t.Helper()
	var out string
	err := s.pool.QueryRow(s.t.Context(), `SELECT concat_ws(' ', (SELECT count(*) FROM audit), (SELECT count(*) FROM tasks), (SELECT array_agg(xmin::text ORDER BY host_id, object_id)::text FROM left_out),
		(SELECT array_agg(xmin::text ORDER BY host_id, object_id)::text FROM assignments), (SELECT array_agg(xmin::text)::text FROM selectors))`).Scan(&out)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

var rack4Labels = map[string]string{"rack": "4", "ssd": "yes"}

// A pool is assigned to existing hosts with matching labels at once. The assignment pass assigns it to hosts that join
// or get new labels later. A host that loses the labels keeps the pool.
func TestPoolAssignedByLabel(t *testing.T) {
	s := newProjectFixture(t)
	s.setLabels(s.h1, rack4Labels)
	fast, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}, Selector: "ssd, rack=4"})
	if err != nil {
		t.Fatal(err)
	}
	s.wantAssigned("made with a selector", fast.ID, "h1")
	var by, said string
	if err := s.pool.QueryRow(t.Context(), `SELECT created_by, (SELECT actor || ' ' || detail FROM audit WHERE action = 'pool.assign' AND subject = 'pool:' || $1) FROM tasks WHERE subject = 'pool:' || $1`, fast.ID).Scan(&by, &said); err != nil {
		t.Fatal(err)
	}
	if by != fleet.SystemActor.Name || said != fleet.SystemActor.Name+" by label rack=4, ssd: to h1" {
		t.Errorf("the task is of %q, the audit says %q", by, said)
	}
	h3 := s.addHostWithMemory("h3", 1024)
	s.runAssignPass()
	s.wantAssigned("where a host has no labels", fast.ID, "h1")
	s.setLabels(h3, map[string]string{"rack": "4"})
	s.runAssignPass()
	s.wantAssigned("where a host has a part of them", fast.ID, "h1")
	s.setLabels(h3, rack4Labels)
	s.runAssignPass()
	s.wantAssigned("after a host was relabelled", fast.ID, "h1 h3")
	s.execSQL(`INSERT INTO hosts (id, name, spec) VALUES ($1, 'h4', '{"labels":{"rack":"4","ssd":""}}')`, fleet.NewID[fleet.HostID]())
	s.runAssignPass()
	s.wantAssigned("after a host has joined", fast.ID, "h1 h3 h4")
	s.setLabels(s.h1, map[string]string{})
	before := s.passChangeMarks()
	s.runAssignPass()
	s.wantAssigned("after a host lost the labels", fast.ID, "h1 h3 h4")
	if after := s.passChangeMarks(); after != before {
		t.Errorf("a pass with nothing to do wrote: %s before, %s after", before, after)
	}
	now, err := s.ByLabel(t.Context(), chief, fleet.SubjectPool(fast.ID))
	if err != nil || len(now.Unmatched) != 1 || now.Unmatched[0].HostName != "h1" || now.UnmatchedCount != 1 || now.Selector != "rack=4, ssd" {
		t.Errorf("%+v %v", now, err)
	}
	s.assignPoolByLabel(fast.ID, "")
	s.execSQL(`INSERT INTO hosts (id, name, spec) VALUES ($1, 'h5', '{"labels":{"rack":"4","ssd":""}}')`, fleet.NewID[fleet.HostID]())
	s.runAssignPass()
	s.wantAssigned("without a selector", fast.ID, "h1 h3 h4")
}

// After a person releases an object from a host, labels do not assign it again until a person assigns it again or
// changes the selector.
func TestReleasedHostNotReassignedByLabel(t *testing.T) {
	s := newProjectFixture(t)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.setLabels(h, rack4Labels)
	}
	fast, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "fast", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/fast"}, Selector: "ssd"})
	if err != nil {
		t.Fatal(err)
	}
	release := func() {
		t.Helper()
		if _, err := s.Release(t.Context(), chief, fleet.SubjectPool(fast.ID), s.h1); err != nil {
			t.Fatal(err)
		}
		s.runAssignPass()
		s.wantAssigned("while it is released", fast.ID, "h2")
		s.execSQL(`DELETE FROM assignments WHERE asked = 'release'`) // the host has released it
		s.runAssignPass()
		s.wantAssigned("after it was released", fast.ID, "h2")
	}
	release()
	if got, want := s.unassignedReasons(fast.ID), "h1: Released by a user; not assigned again by label."; got != want {
		t.Errorf("the page says %q, want %q", got, want)
	}
	s.assignPoolByLabel(fast.ID, " ssd ")
	s.wantAssigned("after the same labels were saved again", fast.ID, "h2")
	if _, err := s.Assign(t.Context(), chief, fleet.SubjectPool(fast.ID), []fleet.HostID{s.h1}); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`DELETE FROM assignments WHERE host_id = $1 AND object_id = $2`, s.h1, fast.ID)
	s.runAssignPass()
	s.wantAssigned("after a person assigned it again, and it got lost", fast.ID, "h1 h2")
	release()
	s.assignPoolByLabel(fast.ID, "rack=4")
	s.wantAssigned("after the labels were changed", fast.ID, "h1 h2")
	if got := s.unassignedReasons(fast.ID); got != "" {
		t.Errorf("the page says %q", got)
	}
}

// A host that cannot have the object is listed with the reason, and later passes try it again. It does not delay other
// hosts. A pass that changes nothing writes nothing.
func TestLabelAssignmentConflictAffectsOneHost(t *testing.T) {
	s := newProjectFixture(t)
	for i := range 5 {
		s.setLabels(s.addHostWithMemory(fmt.Sprintf("n%d", i), 1024), rack4Labels)
	}
	s.setLabels(s.h1, rack4Labels) // h1 has the pool "local" at /srv/vm
	other, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: "other", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/vm"}, Selector: "ssd"})
	if err != nil {
		t.Fatal(err)
	}
	s.wantAssigned("beside a conflict", other.ID, "n0 n1 n2 n3 n4")
	const why = "h1: Pool local uses /srv/vm on h1 already. Give another one."
	if got := s.unassignedReasons(other.ID); got != why {
		t.Errorf("the page says %q, want %q", got, why)
	}
	before := s.passChangeMarks()
	for range 3 {
		s.runAssignPass()
	}
	if after := s.passChangeMarks(); after != before {
		t.Errorf("passes without a change wrote: %s before, %s after", before, after)
	}
	s.execSQL(`DELETE FROM assignments WHERE object_id = $1`, s.local)
	s.runAssignPass()
	s.wantAssigned("when the conflict is gone", other.ID, "h1 n0 n1 n2 n3 n4")
	if got := s.unassignedReasons(other.ID); got != "" {
		t.Errorf("the page says %q", got)
	}
	disk, err := s.CreatePool(t.Context(), chief, storage.CreatePool{
		Name: "disk", Spec: fleet.PoolSpec{Kind: fleet.PoolFS, Path: "/mnt/disk", Device: "/dev/disk/by-uuid/1", Format: "xfs"}, Selector: "ssd",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantAssigned("where it can be on one host, and several match,", disk.ID, "")
	if got := s.unassignedReasons(disk.ID); strings.Count(got, "identifies a single disk:") != 6 {
		t.Errorf("the page says %q", got)
	}
}

// Networks are assigned by label like pools. A host with an overlapping network is skipped.
func TestNetworkAssignedByLabel(t *testing.T) {
	s := newProjectFixture(t)
	s.setLabels(s.h1, rack4Labels)
	s.setLabels(s.h2, rack4Labels)
	s.defineNetwork("taken", natSpec("10.5.0.1/16"), s.h2)
	lan, err := s.CreateNetwork(t.Context(), chief, network.CreateNetwork{Name: "lan", Spec: natSpec("10.5.7.1/24"), Selector: "ssd"})
	if err != nil {
		t.Fatal(err)
	}
	s.wantAssigned("made with a selector", lan.ID, "h1")
	now, err := s.ByLabel(t.Context(), chief, fleet.SubjectNetwork(lan.ID))
	if err != nil || len(now.LeftOut) != 1 || now.LeftOut[0].HostName != "h2" || !strings.Contains(now.LeftOut[0].Why, "overlaps 10.5.0.0/16 of network taken on h2") {
		t.Errorf("%+v %v", now, err)
	}
	if _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectNetwork(lan.ID)); err != nil {
		t.Fatal(err)
	}
	s.runAssignPass()
	s.wantAssigned("while it is being deleted", lan.ID, "")
	s.wantRefused("labels of a dying network", fleet.Conflict, "being deleted", func() error {
		_, err := s.AssignByLabel(t.Context(), chief, fleet.SubjectNetwork(lan.ID), "rack")
		return err
	})
	s.wantRefused("labels of a discovered network", fleet.Conflict, "not managed here", func() error {
		var found fleet.NetworkID
		if err := s.pool.QueryRow(t.Context(), `SELECT id FROM networks WHERE spec IS NULL LIMIT 1`).Scan(&found); err != nil {
			t.Fatal(err)
		}
		_, err := s.AssignByLabel(t.Context(), chief, fleet.SubjectNetwork(found), "rack")
		return err
	})
}

// Two concurrent passes assign each object once.
func TestConcurrentLabelPassesAssignPoolOnce(t *testing.T) {
	s := newProjectFixture(t)
	var ids []fleet.PoolID
	for i := range 4 {
		p, err := s.CreatePool(t.Context(), chief, storage.CreatePool{Name: fmt.Sprintf("p%d", i), Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: fmt.Sprintf("/srv/p%d", i)}, Selector: "ssd"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	for i := range 10 {
		s.setLabels(s.addHostWithMemory(fmt.Sprintf("n%d", i), 1024), rack4Labels)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if err := control.New(s.pool, control.Options{}).AssignToMatchingHosts(t.Context(), fleet.SystemActor); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	s.runAssignPass() // assigns what the skipped pass left out
	for _, id := range ids {
		s.wantAssigned("after both", id, "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9")
		if n := s.countRows(`audit WHERE action = 'pool.assign' AND subject = 'pool:` + string(id) + `'`); n != 1 {
			t.Errorf("%d audit lines of the assignment", n)
		}
	}
	if n := s.countRows(`tasks WHERE kind = 'pool.apply'`); n != 40 {
		t.Errorf("%d tasks", n)
	}
}

// An invalid selector is refused at its field, and actors without permission cannot change selectors.
func TestSelectorChangeIsCheckedAndNeedsPermission(t *testing.T) {
	s := newProjectFixture(t)
	s.wantRefused("no labels", fleet.Invalid, `Label key "Rack"`, func() error {
		_, err := s.AssignByLabel(t.Context(), chief, fleet.SubjectPool(s.nfs), "Rack=4")
		return err
	})
	s.wantRefused("a tenant", fleet.Forbidden, "", func() error {
		_, err := s.AssignByLabel(t.Context(), s.member, fleet.SubjectPool(s.nfs), "rack=4")
		return err
	})
	s.wantRefused("a tenant reads", fleet.Forbidden, "", func() error { _, err := s.ByLabel(t.Context(), s.member, fleet.SubjectPool(s.nfs)); return err })
	s.wantRefused("a tenant reads hosts", fleet.Forbidden, "", func() error {
		_, err := s.PreviewHostsByLabel(t.Context(), s.member, fleet.SubjectPool(""), "rack")
		return err
	})
	s.wantRefused("an actor other than the system", fleet.Forbidden, "", func() error { return s.AssignToMatchingHosts(t.Context(), chief) })
	s.setLabels(s.h1, rack4Labels)
	s.setLabels(s.h2, rack4Labels)
	preview, err := s.PreviewHostsByLabel(t.Context(), chief, fleet.SubjectPool(s.local), "rack=4")
	if err != nil || preview.All != 2 || preview.Without != 1 || preview.Hosts[0].HostName != "h2" || preview.Hosts[0].Has || !preview.Hosts[1].Has {
		t.Errorf("%+v %v", preview, err)
	}
}

// One request retries the object on all hosts where it failed. Offline hosts are counted and skipped.
func TestRetryEverywhereRetriesAllFailedHosts(t *testing.T) {
	s := newProjectFixture(t)
	hosts := []fleet.HostID{s.h1, s.h2}
	for i := range 4 {
		hosts = append(hosts, s.addHostWithMemory(fmt.Sprintf("n%d", i), 1024))
	}
	id := s.addPool("big", `{"kind":"nfs","path":"/mnt/big","server":"nas","export":"/big","shared":true}`, hosts...)
	s.wantRefused("without a failed host", fleet.Conflict, "failed on none of its hosts", func() error { _, err := s.RetryEverywhere(t.Context(), chief, fleet.SubjectPool(id)); return err })
	says := func(state string, hosts ...fleet.HostID) {
		s.execSQL(`UPDATE assignments SET status = jsonb_build_object('state', $3::text, 'error', 'mount.nfs') WHERE object_id = $1 AND host_id = ANY ($2)`, id, hosts, state)
	}
	says("failed", hosts[0], hosts[1], hosts[2])
	says("inactive", hosts[3])
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 minute' WHERE host_id = $1`, hosts[2])
	s.wantRefused("by a tenant", fleet.Forbidden, "", func() error { _, err := s.RetryEverywhere(t.Context(), s.member, fleet.SubjectPool(id)); return err })
	r, err := s.RetryEverywhere(t.Context(), chief, fleet.SubjectPool(id))
	if err != nil || len(r.Tasks) != 3 || r.Offline != 1 || r.More != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	var on []string
	if err := s.pool.QueryRow(t.Context(), `SELECT array_agg(h.name ORDER BY h.name) FROM jobs j JOIN hosts h ON h.id = j.host_id WHERE j.kind = 'pool.apply' AND j.state = 'queued'`).Scan(&on); err != nil {
		t.Fatal(err)
	}
	if want := []string{"h1", "h2", "n1"}; !slices.Equal(on, want) {
		t.Errorf("queued on %q, want %q", on, want)
	}
	if n := s.countRows(`audit WHERE action = 'pool.retry' AND detail = 'on 3 hosts where it failed'`); n != 1 {
		t.Errorf("%d lines in the audit", n)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 minute'`)
	s.wantRefused("where no host is online", fleet.Conflict, "These hosts retry automatically", func() error { _, err := s.RetryEverywhere(t.Context(), chief, fleet.SubjectPool(id)); return err })
	s.execSQL(`UPDATE host_sessions SET seen_at = now()`)
	lan := s.defineNetwork("lan", fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, s.h1, s.h2)
	s.setNetworkStatus(lan.ID, s.h1, `{"active":true,"error":"dnsmasq is away"}`)
	s.setNetworkStatus(lan.ID, s.h2, `{"active":false,"byOthers":true}`)
	// A network that somebody stopped on the host without Quantix is not started again.
	if r, err := s.RetryEverywhere(t.Context(), chief, fleet.SubjectNetwork(lan.ID)); err != nil || len(r.Tasks) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// Label changes wake the assignment pass; other changes of hosts do not.
func TestLabelChangesWakeAssignPass(t *testing.T) {
	r := newHostFixture(t)
	r.drainHub()
	sub := r.hub.Subscribe("labels")
	t.Cleanup(sub.Close)
	wantNotified := func(what string, want bool, sql string, args ...any) {
		t.Helper()
		r.execSQL(sql, args...)
		r.drainHub()
		if got := len(sub.TakeKeys()) > 0; got != want {
			t.Errorf("%s is notified of: %t", what, got)
		}
	}
	wantNotified("a host without labels", false, `INSERT INTO hosts (id, name) VALUES ('new', 'new')`)
	wantNotified("a host with labels", true, `INSERT INTO hosts (id, name, spec) VALUES ('newer', 'newer', '{"labels":{"rack":"4"}}')`)
	wantNotified("a description", false, `UPDATE hosts SET spec = '{"description":"x","labels":{"rack":"4"}}' WHERE id = 'newer'`)
	wantNotified("other labels", true, `UPDATE hosts SET spec = '{"labels":{"rack":"5"}}' WHERE id = 'newer'`)
	wantNotified("what a host reports", false, `UPDATE hosts SET status = '{}' WHERE id = 'newer'`)
	wantNotified("a pool", false, `INSERT INTO pools (id, name, spec) VALUES ('p', 'fast', '{"kind":"dir","path":"/a"}')`)
	wantNotified("a selector", true, `INSERT INTO selectors (noun, object_id, selector, pairs, keys) VALUES ('pool', 'p', 'ssd', '{}', '{ssd}')`)
	pages := r.hub.Subscribe("pool:p")
	t.Cleanup(pages.Close)
	wantNotified("a host that is left out", false, `INSERT INTO left_out (noun, object_id, host_id, why) VALUES ('pool', 'p', 'new', 'taken')`)
	if len(pages.TakeKeys()) == 0 {
		t.Error("the pool's page is not woken by an exclusion")
	}
	wantNotified("an end", false, `DELETE FROM pools`)
	if n := queryValue[int](r, `SELECT (SELECT count(*) FROM selectors) + (SELECT count(*) FROM left_out)`); n != 0 {
		t.Errorf("%d rows outlive their pool", n)
	}
}
