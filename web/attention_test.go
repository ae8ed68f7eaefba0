package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestDriftShownAsBadgeAndFilterInVMList(t *testing.T) {
	p, _, _ := newPoolPortal(t)
	p.exec(`UPDATE vms SET status = status || '{"drift": [{"field": "cpus", "applied": "2", "actual": "3"}, {"field": "memoryMiB", "applied": "4096 MiB", "actual": "8192 MiB"}]}'
		WHERE name = 'web-01'`)
	b := p.signedIn("mara", fleet.RoleAdmin)
	const badge = `title="Changed on its host: vCPUs, memory"`
	b.get("/vms").is(t, http.StatusOK).has(t, badge)
	b.get("/vms?filter="+url.QueryEscape("drift:yes")).is(t, http.StatusOK).has(t, "web-01", badge)
	b.get("/vms?filter="+url.QueryEscape("drift:no")).is(t, http.StatusOK).lacks(t, "web-01", badge)
	b.get("/vms?tab=attention").is(t, http.StatusOK).has(t, "web-01", badge)
	var vm string
	if err := p.pool.QueryRow(t.Context(), `SELECT id FROM vms WHERE name = 'web-01'`).Scan(&vm); err != nil {
		t.Fatal(err)
	}
	b.get("/vms/"+vm).is(t, http.StatusOK).has(t, badge)
	b.get("/").is(t, http.StatusOK).has(t, `id="attention-vm-drift:yes"`, `href="/vms?filter=drift:yes"`, "1 VM", fleet.DriftRemedy)
}

func TestNeedsAttentionRowShowsCountNamesAndRemedy(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	p.exec(`UPDATE assignments SET status = '{"state": "failed", "error": "mount.nfs is missing on the host"}' WHERE object_id = $1`, pool)
	p.exec(`INSERT INTO pools (id, name, spec) SELECT $1, 'second', spec || '{"export": "/second", "path": "/mnt/second"}' FROM pools WHERE id = $2`, fleet.NewID[fleet.PoolID](), pool)
	p.exec(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT 'pool', s.id, a.host_id, a.asked, a.status, a.observed_generation, a.reported_at FROM assignments a, pools s WHERE a.object_id = $1 AND s.name = 'second'`, pool)
	b := p.signedIn("mara", fleet.RoleAdmin)
	const remedy = "Install nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat) on the host."
	b.get("/").is(t, http.StatusOK).has(t, `<a href="/pools?filter=tone:bad">2 pools</a>`, "mount.nfs is missing on the host", remedy, "second")
	b.get("/pools/"+string(pool)).is(t, http.StatusOK).has(t, "mount.nfs is missing on the host", remedy)
	b.get("/hosts/"+string(hosts[0])+"?tab=storage").is(t, http.StatusOK).has(t, "mount.nfs is missing on the host", remedy)
	var project fleet.ProjectID
	if err := p.pool.QueryRow(t.Context(), `SELECT id FROM projects WHERE name = 'shop'`).Scan(&project); err != nil {
		t.Fatal(err)
	}
	page := p.tenant("tom", project).get("/").is(t, http.StatusOK)
	page.has(t, ">2 pools</a>", "0 of 3 hosts healthy")
	page.lacks(t, "mount.nfs", remedy)
}
