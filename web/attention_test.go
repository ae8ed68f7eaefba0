package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/remedy"
)

func TestDriftShownAsBadgeAndFilterInVMList(t *testing.T) {
	p, _, _ := newPoolPortal(t)
	p.execSQL(`UPDATE vms SET status = status || '{"drift": [{"field": "cpus", "applied": "2", "actual": "3"}, {"field": "memoryMiB", "applied": "4096 MiB", "actual": "8192 MiB"}]}'
		WHERE name = 'web-01'`)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	const badge = `title="Changed on its host: vCPUs, memory"`
	b.get("/vms").requireStatus(t, http.StatusOK).contains(t, badge, "Drift (2)")
	b.get("/vms?filter="+url.QueryEscape("drift:yes")).requireStatus(t, http.StatusOK).contains(t, "web-01", badge)
	b.get("/vms?filter="+url.QueryEscape("drift:no")).requireStatus(t, http.StatusOK).excludes(t, "web-01", badge)
	b.get("/vms?tab=attention").requireStatus(t, http.StatusOK).contains(t, "web-01", badge)
	var vm string
	if err := p.pool.QueryRow(t.Context(), `SELECT id FROM vms WHERE name = 'web-01'`).Scan(&vm); err != nil {
		t.Fatal(err)
	}
	b.get("/vms/"+vm).requireStatus(t, http.StatusOK).contains(t, badge)
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, ">web-01</a>", "The definition on the host differs from what was set here (drift).", remedy.Drift)
}

func TestNeedsAttentionRowShowsCountNamesAndRemedy(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	p.execSQL(`UPDATE assignments SET status = '{"state": "failed", "error": "mount.nfs is missing on the host"}' WHERE object_id = $1`, pool)
	p.execSQL(`INSERT INTO pools (id, name, spec) SELECT $1, 'second', spec || '{"export": "/second", "path": "/mnt/second"}' FROM pools WHERE id = $2`, fleet.NewID[fleet.PoolID](), pool)
	p.execSQL(`INSERT INTO pool_grants (pool_id, granted_by) SELECT id, 'mara' FROM pools WHERE name = 'second'`)
	p.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT 'pool', s.id, a.host_id, a.asked, a.status, a.observed_generation, a.reported_at FROM assignments a, pools s WHERE a.object_id = $1 AND s.name = 'second'`, pool)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	const remedy = "Install nfs-common (Debian, Ubuntu) or nfs-utils (Fedora, Red Hat) on the host."
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "places", "mount.nfs is missing on the host", remedy, "second")
	b.get("/pools/"+string(pool)).requireStatus(t, http.StatusOK).contains(t, "mount.nfs is missing on the host", remedy)
	b.get("/hosts/"+string(hosts[0])+"?tab=storage").requireStatus(t, http.StatusOK).contains(t, "mount.nfs is missing on the host", remedy)
	var project fleet.ProjectID
	if err := p.pool.QueryRow(t.Context(), `SELECT id FROM projects WHERE name = 'shop'`).Scan(&project); err != nil {
		t.Fatal(err)
	}
	page := p.newTenantBrowser("tom", project).get("/").requireStatus(t, http.StatusOK)
	page.excludes(t, "pools</a>", "hosts healthy", "mount.nfs", remedy) // no VM of the project has a disk there
	p.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'a'))) WHERE project_id = $2`, pool, project)
	page = p.newTenantBrowser("tim", project).get("/").requireStatus(t, http.StatusOK)
	page.contains(t, "Affects 1 VM of yours")
	page.excludes(t, "hosts healthy", "mount.nfs", remedy)
}
