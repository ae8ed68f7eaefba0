package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"quantix/agent/pooldir"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// The pages of the pool and the host show storage faults as agents report them. The pool has the fault only on host-2;
// on host-1 it has the same path and is healthy. The agent's tests cause each of these faults for real.
func TestStorageFaultsShownOnPoolAndHostPages(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path, here := "/pools/"+string(pool), func(i int) string { return "/hosts/" + string(hosts[i]) + "?tab=storage" }
	kept := pooldir.RecordedPool{ID: "00000000-0000-7000-8000-00000000aaaa", Path: "/srv/shared-nfs", Place: &pooldir.RecordedDir{Marked: true}}
	failed := func(words string) fleet.PoolStatus { return fleet.PoolStatus{State: fleet.PoolFailed, Error: words} }
	active := func(words string) fleet.PoolStatus {
		return fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 2 << 40, UsedBytes: 1 << 40, AvailableBytes: 1 << 40, Error: words}
	}
	for name, c := range map[string]struct {
		says fleet.PoolStatus
		want []string // texts on the pool's page, in addition to the host's message
	}{
		"a wrong server":        {failed("mount.nfs: Failed to resolve server nowhere: Name or service not known"), []string{"host-2 cannot use this pool.", "Retry host-2"}},
		"a refused mount":       {failed("mount.nfs: access denied by server while mounting 10.0.0.5:/exports/shared-nfs"), []string{"host-2 cannot use this pool.", "Retry host-2"}},
		"a stale handle":        {failed("cannot open directory '/srv/shared-nfs': Stale file handle"), []string{"host-2 cannot use this pool.", "Retry host-2"}},
		"a read-only remount":   {active("Nothing can be written to /srv/shared-nfs: it is mounted read-only."), []string{"degraded", "Degraded"}},
		"a device that is gone": {failed("A trial of writing to /srv/shared-nfs and reading it back failed: input/output error"), []string{"host-2 cannot use this pool."}},
		"an export that is gone": {
			failed(kept.CheckDir(pooldir.DirReading{}).Error()), []string{"host-2 cannot use this pool.", "is missing"},
		},
		"one export by two names": {
			failed(kept.CheckDir(pooldir.DirReading{Exists: true, Marker: "00000000-0000-7000-8000-00000000bbbb"}).Error()), []string{"host-2 cannot use this pool.", "belongs to another pool"},
		},
		"storage that hangs": {fleet.PoolStatus{State: fleet.PoolStalled, Error: "The storage has not answered since 12:00 UTC."}, []string{"host-2 cannot use this pool.", "Not answering"}},
		"a full pool":        {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 2 << 40, UsedBytes: 2 << 40}, []string{"Full: 100 % used"}},
	} {
		p.execSQL("UPDATE assignments SET status = $3 WHERE object_id = $1 AND host_id = $2", pool, hosts[1], mustJSON(c.says))
		words := html.EscapeString(c.says.Error)
		a := b.get(path).requireStatus(t, http.StatusOK)
		if a.contains(t, words); t.Failed() {
			t.Fatalf("%s: the pool's page lacks the host's message", name)
		}
		if a.contains(t, c.want...); t.Failed() {
			t.Fatalf("%s: the pool's page lacks a text", name)
		}
		if b.get(here(1)).requireStatus(t, http.StatusOK).contains(t, words); t.Failed() {
			t.Fatalf("%s: the host's page lacks a text", name)
		}
		if other := b.get(here(0)).requireStatus(t, http.StatusOK); words != "" && strings.Contains(other.body, words) {
			t.Fatalf("%s: the fault of host-2 is shown for host-1", name)
		}
	}
}

// QEMU paused the VM because the VM's storage failed or is full. The VM's page shows the reason, with a link to the
// pool's fault.
func TestVMPausedByStorageFaultShown(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.execSQL(`UPDATE assignments SET status = '{"state":"failed","error":"mount.nfs: Connection refused"}' WHERE object_id = $1 AND host_id = $2`, pool, hosts[0])
	p.execSQL(`UPDATE vms SET status = $1 WHERE name = 'web-01'`, mustJSON(fleet.VMStatus{
		Power: fleet.Paused, Reason: "I/O error", CPUs: 2, MemoryMiB: 4096,
		Faults: []fleet.Fault{{Code: fleet.FaultIO, Text: "QEMU paused it: its storage fails."}},
	}))
	b.get("/pools/"+string(pool)).requireStatus(t, http.StatusOK).contains(t, "host-1 cannot use this pool.", "1 VM")
	b.get("/pools/"+string(pool)+"?tab=vms").requireStatus(t, http.StatusOK).contains(t, "web-01", "Paused")
	var vm string
	if err := p.pool.QueryRow(t.Context(), `SELECT id FROM vms WHERE name = 'web-01'`).Scan(&vm); err != nil {
		t.Fatal(err)
	}
	b.get("/vms/"+vm).requireStatus(t, http.StatusOK).contains(t, "QEMU paused it: its storage fails.")
	b.get("/vms?tab=attention").requireStatus(t, http.StatusOK).contains(t, "web-01")
}

// The host's page lists all 200 pools that existed in libvirt before the host joined. No such pool becomes a managed
// pool.
func TestUnmanagedPoolsListedOnHostPageOnly(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	h := p.addHost("host-1", 0)
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("their-pool-%03d", i))
	}
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{otherPools}', $2) WHERE id = $1`, h, mustJSON(names))
	a := b.get("/hosts/"+string(h)+"?tab=storage").requireStatus(t, http.StatusOK)
	a.contains(t, names...)
	a.contains(t, "Discovered pools", "not managed by Quantix and never changed")
	b.get("/pools").requireStatus(t, http.StatusOK).excludes(t, "their-pool-000")
	found := []fleet.DiscoveredPool{{Name: "default", Kind: "dir", Place: "at /srv/imgs", Active: true}, {Name: "z1", Kind: "zfs"}, {Name: "odd", Error: "no such thing"}}
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{discoveredPools}', $2) WHERE id = $1`, h, mustJSON(found))
	a = b.get("/hosts/"+string(h)+"?tab=storage").requireStatus(t, http.StatusOK)
	a.contains(t, `<td>Directory</td><td class="mono">/srv/imgs</td>`, "Active, without autostart", "<td>ZFS</td>", "Inactive", "Cannot be read: no such thing")
	a.excludes(t, "their-pool-000")
}

// Forms refuse impossible values at the field where they were typed.
func TestImpossibleFormValuesRefusedAtField(t *testing.T) {
	p, path, hosts := newNetworkPortal(t)
	p.addPool("fast", hosts[0])
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/pools", url.Values{"name": {"twice"}, "kind": {"dir"}, "path": {"/srv/fast/"}, "host": {string(hosts[0])}}, htmxFormHeaders("pool-form")...).requireStatus(t, 422).
		contains(t, "Pool fast uses /srv/fast on host-1")
	network := func(gateway, ranges string) answer {
		return b.post("/networks", url.Values{"name": {"b"}, "mode": {"nat"}, "gateway4": {gateway}, "dhcp4": {"yes"}, "ranges4": {ranges}, "host": {string(hosts[0])}}, htmxFormHeaders("network-form")...).requireStatus(t, 422)
	}
	network("10.6.0.1/24", "10.7.0.10-10.7.0.20").contains(t, "10.7.0.10 is outside the subnet 10.6.0.0/24.")
	network("10.5.0.129/25", "10.5.0.130-10.5.0.140").contains(t, "10.5.0.128/25 of network b overlaps 10.5.0.0/24 of network lan on host-1.")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "host-1")
}

// The page of a failed task shows the error message from the host.
func TestTaskPageShowsErrorFromHost(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	h := p.addHost("host-1", 0)
	pool := p.addPool("fast", h)
	for name, c := range map[string]struct {
		kind  fleet.JobKind
		words string
	}{
		"a redirect to a private address": {fleet.VolumeFetch, "The server leads to 169.254.169.254, which is a private or reserved address."},
		"bytes of another checksum":       {fleet.VolumeFetch, "What arrived has the SHA-256 checksum aa11, and bb22 was asked for. Nothing of it was kept."},
		"a loop of bridges":               {fleet.NetworkApply, "The bridge qx-wire has eth2 as a port: with eth1, they are a loop."},
		"a full pool":                     {fleet.VolumeFetch, "The pool has no room for it: no space left on device."},
		"a mount that the server refuses": {fleet.PoolApply, "mount.nfs: access denied by server while mounting nas:/vm"},
	} {
		id := fleet.NewID[fleet.TaskID]()
		subject := fleet.SubjectPool(pool)
		if c.kind == fleet.NetworkApply {
			subject = fleet.SubjectNetwork("n")
		}
		testkit.TaskWithJob{ID: id, Host: h, Kind: c.kind, Subject: subject, Name: "fast", State: fleet.JobFailed}.Add(t, p.pool)
		p.execSQL(`UPDATE tasks SET error = $2 WHERE id = $1`, id, c.words)
		p.execSQL(`UPDATE jobs SET error = $2 WHERE task_id = $1`, id, c.words)
		if b.get("/tasks/"+string(id)).requireStatus(t, http.StatusOK).contains(t, html.EscapeString(c.words)); t.Failed() {
			t.Fatalf("%s: the task's page lacks the host's message", name)
		}
	}
}

// A rule may name its own group as remote side, so that the members may reach each other. The group's page shows the
// name of that remote group.
func TestSelfReferencingSecurityGroupShown(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	shop := p.addProject("shop")
	id := fleet.NewID[fleet.SecurityGroupID]()
	p.execSQL(`INSERT INTO security_groups (id, project_id, name, spec) VALUES ($1, $2, 'peers', '{"rules":[]}')`, id, shop)
	path := "/security-groups/" + string(id)
	a := b.post(path+"/rules", url.Values{"generation": {"1"}, "direction": {"ingress"}, "protocol": {"any"}, "remote": {string(id)}})
	if !slices.Contains([]int{http.StatusSeeOther, http.StatusOK}, a.status) {
		t.Fatalf("adding the rule answers %d: %s", a.status, a.pageContent())
	}
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "peers", "members of this group")
	var rules string
	if err := p.pool.QueryRow(t.Context(), `SELECT spec->>'rules' FROM security_groups WHERE id = $1`, id).Scan(&rules); err != nil || !strings.Contains(rules, string(id)) {
		t.Errorf("the rules are %s, %v", rules, err)
	}
}
