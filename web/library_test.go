package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// An image's page shows no pools, hosts and users to tenants. To infrastructure administrators it shows each copy with
// its actions.
func TestImagePageHidesHostsAndCopiesFromTenants(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	p.execSQL("UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL")
	p.execSQL("DELETE FROM vms") // a VM of the test fleet has a disk of that name
	mara, tom := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	var id, project string
	if err := p.pool.QueryRow(t.Context(), "SELECT i.id, (SELECT min(o.id) FROM projects o) FROM images i WHERE i.name LIKE 'debian%' LIMIT 1").Scan(&id, &project); err != nil {
		t.Fatal(err)
	}
	at := "/images/" + id
	mara.get("/images").requireStatus(t, http.StatusOK).contains(t, "debian-12.qcow2", "all projects", "1 of 1", `href="/images/new"`)
	mara.get(at).requireStatus(t, http.StatusOK).contains(t, "Not verified", "Verify checksum", "This is the last copy of the version.", "This is the only copy of the image, so the image and its publications are deleted, too.", "not computed yet", "/pools/"+string(pool))
	mara.get("/images.csv").requireStatus(t, http.StatusOK).contains(t, "id,name,owner", "debian-12.qcow2")
	mara.get("/search?q=debian").requireStatus(t, http.StatusOK).contains(t, `href="`+at+`"`)
	tom.get("/images").requireStatus(t, http.StatusOK).contains(t, "debian-12.qcow2")
	told := tom.get(at).requireStatus(t, http.StatusOK)
	told.contains(t, "Version 1")
	told.excludes(t, "You do not have permission to", "Delete image", "host-", string(pool), "mara", "/srv/", "Copies of version")
	for _, below := range []string{"/edit", "/delete", "/versions/new", "/copies/new"} {
		tom.get(at+below).requireStatus(t, http.StatusForbidden)
	}

	// The image is withdrawn from all projects and published to one.
	mara.post(at+"/grants", url.Values{"project": {"all"}, "revoke": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	tom.get(at).requireStatus(t, http.StatusNotFound)
	tom.get("/images").requireStatus(t, http.StatusOK).excludes(t, "debian-12.qcow2")
	tom.get("/vms/new").requireStatus(t, http.StatusOK).excludes(t, "debian-12.qcow2")
	tom.get("/search?q=debian").requireStatus(t, http.StatusOK).excludes(t, at)
	mara.post(at+"/grants", url.Values{"project": {project}}).requireStatus(t, http.StatusSeeOther)
	tom.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "image:"+id, "Overlay on an image")

	// A tenant creates a VM from the image with the form.
	typed := url.Values{
		"name": {"from-library"}, "projectId": {project}, "spec.cpus": {"1"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"}, "spec.nics": {""},
		"spec.disks[0].source": {"overlay"}, "spec.disks[0].image": {"image:" + id + ":"}, "spec.disks[0].poolId": {string(pool)}, "spec.disks[0].sizeBytes": {"20"},
	}
	tom.post("/vms", typed).requireStatus(t, http.StatusSeeOther)
	var spec []byte
	if err := p.pool.QueryRow(t.Context(), "SELECT spec->'disks'->0 FROM vms WHERE name = 'from-library'").Scan(&spec); err != nil {
		t.Fatal(err)
	}
	var disk fleet.Disk
	if err := json.Unmarshal(spec, &disk); err != nil || !disk.Overlay || string(disk.ImageID) != id || disk.Image == nil || disk.Image.Volume != "debian-12.qcow2" || disk.VersionID == "" {
		t.Errorf("the disk is %s %v", spec, err)
	}
	mara.get(at).requireStatus(t, http.StatusOK).contains(t, "VM from-library", "backed by the ")
	mara.post(at+"/delete", url.Values{"confirm": {"x"}}).requireStatus(t, http.StatusConflict).contains(t, "VM from-library")

	// Invalid input in an image form is refused at its fields.
	mara.get("/images/new?start=00000000-0000-7000-8000-000000440001").requireStatus(t, http.StatusOK).contains(t, "cloud.debian.org", "Alpine")
	for field, in := range map[string]url.Values{
		"Give the address":            {"name": {"X"}, "from": {"url"}, "pool": {string(pool)}},
		"Choose the pool":             {"name": {"X"}, "from": {"file"}, "volume": {"a.qcow2"}},
		"Give the UUID":               {"name": {"X"}, "from": {"vm"}, "pool": {string(pool)}},
		"no volume":                   {"name": {"X"}, "from": {"file"}, "pool": {string(pool)}, "volume": {"nothing.qcow2"}},
		"Enter a name: one line":      {"name": {""}, "from": {"url"}, "pool": {string(pool)}, "url": {"https://example.org/x.qcow2"}},
		"Plain http needs a checksum": {"name": {"X"}, "from": {"url"}, "pool": {string(pool)}, "url": {"http://example.org/x.qcow2"}},
		"is in the library alre":      {"name": {"debian-12.qcow2 of " + p.poolNameByID(pool)}, "from": {"url"}, "pool": {string(pool)}, "host": {string(hosts[0])}, "url": {"https://example.org/y.qcow2"}},
	} {
		a := mara.post("/images", in)
		if a.status != http.StatusUnprocessableEntity && a.status != http.StatusConflict && a.status != http.StatusNotFound || !strings.Contains(a.body, field) {
			t.Errorf("%s: %d %.300s", field, a.status, a.body)
		}
	}
}

func (p *portal) poolNameByID(id fleet.PoolID) (name string) {
	if err := p.pool.QueryRow(p.t.Context(), "SELECT name FROM pools WHERE id = $1", id).Scan(&name); err != nil {
		p.t.Fatal(err)
	}
	return name
}
