package control_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/remedy"
)

// attentionRows returns the rows of the dashboard's Needs attention list. The format is "count kind [names]: text ->
// remedy (link)", such as "2 vm [a b]: …".
func (s *projectFixture) attentionRows(a fleet.Actor) (rows []string) {
	s.t.Helper()
	if _, err := s.RefreshCounters(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
	o, err := s.Overview(s.t.Context(), a)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, x := range o.Attention {
		var names []string
		for _, object := range x.Objects {
			names = append(names, strings.TrimSpace(object.Name+" "+object.Text))
		}
		rows = append(rows, fmt.Sprintf("%d %s %v: %s -> %s (%s)", x.Count, x.Kind, names, x.Text, x.Remedy, x.List))
	}
	return rows
}

func TestNeedsAttentionListHasOneRowPerCause(t *testing.T) {
	s := newProjectFixture(t)
	const helper = "Child process (/usr/bin/mount) unexpected exit status 32: mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program."
	archive := s.addPool("archive", `{"kind":"nfs","path":"/mnt/archive","server":"nas","export":"/archive","shared":true}`, s.h1, s.h2)
	for _, pool := range []fleet.PoolID{s.nfs, archive} {
		s.execSQL(`UPDATE assignments SET status = jsonb_build_object('state', 'failed', 'error', $2::text) WHERE pool_id = $1`, pool, helper)
	}
	for _, name := range []string{"a1", "a2", "b"} {
		v := s.createVM(name, fleet.Running)
		s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('power', 'stopped', 'errorOf', 'vm.start', 'error', $2::text) WHERE id = $1`, v.ID,
			map[bool]string{true: "cannot open " + name + ".qcow2: No space left on device", false: "no firmware"}[name != "b"])
	}
	for _, name := range []string{"d1", "d2"} {
		s.driftedVM(name, fleet.Drift{Field: "cpus", Applied: "1", Actual: "3", Take: rawJSON("3")})
	}
	s.execSQL(`DELETE FROM jobs`)
	s.execSQL(`DELETE FROM tasks`)
	const full = "Free space in the pool, or move disks to another pool."
	want := []string{
		"2 pool [archive on 2 hosts nfs on 2 hosts]: Failed: " + helper + " -> Install nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat) on the host. (/pools?filter=health:bad)",
		"2 vm [a1 a2]: Start failed: cannot open ….qcow2: No space left on device -> " + full + " (/vms?filter=attention:yes)",
		"1 vm [b]: Start failed: no firmware ->  (/vms?filter=attention:yes)",
		"2 vm []: Changed on the host: the definition there differs from what was set here (drift). -> " + remedy.Drift + " (/vms?filter=drift:yes)",
	}
	if diff := cmp.Diff(want, s.attentionRows(chief)); diff != "" {
		t.Error(diff)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds'`)
	hosts := "2 host [h1 h2]: Its agent is offline. Its last report may be outdated. -> " + remedy.ForHost(fleet.HostUnknown) + " (/hosts?filter=state:unknown)"
	if diff := cmp.Diff([]string{hosts}, s.attentionRows(chief)); diff != "" {
		t.Error(diff)
	}
}

// A tenant's counters and Needs attention list agree: each unhealthy object has a row, and the texts name no host.
func TestTenantDashboardCountsAreConsistent(t *testing.T) {
	s := newProjectFixture(t)
	s.createVM("web", fleet.Running)
	s.execSQL(`DELETE FROM jobs`)
	s.execSQL(`DELETE FROM tasks`)
	if rows := s.attentionRows(s.member); len(rows) != 0 {
		t.Errorf("a member whose VMs and pools are well reads %q", rows)
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: timed out at h1"}' WHERE pool_id = $1`, s.nfs)
	if rows := s.attentionRows(s.member); len(rows) != 0 {
		t.Errorf("no VM has a disk in the failed pool, but a member reads %q", rows)
	}
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'a')))`, s.nfs)
	if diff := cmp.Diff([]string{"1 pool [nfs]: Affects 1 VM of yours. ->  (/pools?filter=health:bad)"}, s.attentionRows(s.member)); diff != "" {
		t.Error(diff)
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds'`)
	rows := s.attentionRows(s.member)
	if len(rows) != 1 || !strings.HasPrefix(rows[0], "1 vm []: The state is unknown") {
		t.Errorf("with offline hosts a member reads %q", rows)
	}
	o, err := s.Overview(t.Context(), s.member)
	if err != nil || o.VMsNeedingAttention != 1 || o.StorageBytes != 0 || o.CPUThreads != 0 {
		t.Errorf("a member's totals are %+v, %v", o, err)
	}
}

// The dashboard has many drifted VMs and, later by name, a VM near its expiry and a VM whose snapshot schedule fails.
func TestManyDriftedVMsDoNotHideOtherAttentionCauses(t *testing.T) {
	s := newProjectFixture(t)
	for name, sql := range map[string]string{
		"crashed":   `status = status || '{"power": "crashed"}'`,
		"expiring":  `expires_at = '2030-01-02 10:00Z', expiry = 'soon'`,
		"scheduled": `schedule_trouble = 'The snapshot of the schedule "nightly" failed.'`,
	} {
		v := s.createVM(name, fleet.Running)
		s.execSQL(`UPDATE vms SET `+sql+` WHERE id = $1`, v.ID)
	}
	s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec, status, observed_generation)
		SELECT '00000000-0000-7000-9000-' || lpad(n::text, 12, '0'), $1, $2, 'a' || n, '{"power": "running", "cpus": 1, "memoryMiB": 512, "firmware": "bios"}',
			'{"power": "running", "cpus": 1, "memoryMiB": 512, "drift": [{"field": "cpus", "applied": "1", "actual": "3"}]}', 1 FROM generate_series(1, 501) n`, s.red, s.h1)
	s.execSQL(`DELETE FROM jobs`)
	s.execSQL(`DELETE FROM tasks`)
	const list = " ->  (/vms?filter=attention:yes)"
	want := []string{
		"1 vm [crashed]: Crashed" + list,
		"1 vm [expiring]: The VM expires on 2 January 2030, 10:00 UTC. Renew the VM, or delete it." + list,
		"1 vm [scheduled]: The snapshot of the schedule \"nightly\" failed." + list,
		"501 vm []: Changed on the host: the definition there differs from what was set here (drift). -> " + remedy.Drift + " (/vms?filter=drift:yes)",
	}
	if diff := cmp.Diff(want, s.attentionRows(s.member)); diff != "" {
		t.Error(diff)
	}
	for what, list := range map[string]func() (fleet.Page[fleet.VMView], error){
		"the list": func() (fleet.Page[fleet.VMView], error) {
			return s.ListVMRows(t.Context(), s.member, fleet.Query{Filter: "attention:yes -drift:yes"})
		},
		"API clients": func() (fleet.Page[fleet.VMView], error) {
			return s.ListVMs(t.Context(), s.member, fleet.Query{Filter: "attention:yes -drift:yes"})
		},
	} {
		page, err := list()
		var names []string
		for _, v := range page.Items {
			if v.Attention {
				names = append(names, v.Name)
			}
		}
		if diff := cmp.Diff([]string{"crashed", "expiring", "scheduled"}, names); diff != "" || err != nil {
			t.Errorf("%s: VMs that need attention: %s, %v", what, diff, err)
		}
	}
}
