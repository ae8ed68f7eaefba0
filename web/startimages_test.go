package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// Entries of the image catalog can be downloaded with one click, edited and restored. Tenants do not see the catalog;
// viewers see the actions disabled, with the reason.
func TestImageCatalogShownAndPulled(t *testing.T) {
	p, pool, _ := newPoolPortal(t)
	p.exec("UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL")
	mara, wes, tom := p.signedIn("mara", fleet.RoleAdmin), p.signedIn("wes", fleet.RoleViewer), p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	const list, debian = "/images/well-known", "00000000-0000-7000-8000-000000440001"
	mara.get("/images").is(t, http.StatusOK).has(t, `href="`+list+`"`)
	mara.get(list).is(t, http.StatusOK).has(t, "Debian 12", "Fedora 44", "bookworm/latest/SHA512SUMS", `form="pull"`, "Restore the original set", "Publish new images")
	seen := wes.get(list).is(t, http.StatusOK)
	seen.has(t, "Debian 12", "You do not have permission to change hosts")
	seen.lacks(t, `form="pull"`)
	tom.get(list).is(t, http.StatusForbidden)
	for _, at := range []string{"/pull", "/restore", "/new", "/" + debian + "/edit", "/" + debian + "/delete"} {
		wes.post(list+at, url.Values{"entry": {debian}, "pool": {string(pool)}}).is(t, http.StatusForbidden)
		tom.post(list+at, url.Values{}).is(t, http.StatusForbidden)
	}
	mara.post(list+"/pull", url.Values{"entry": {debian}}).is(t, http.StatusUnprocessableEntity).has(t, "Choose the pool")
	mara.post(list+"/pull", url.Values{"entry": {debian}, "pool": {string(pool)}, "public": {"yes"}}).is(t, http.StatusSeeOther)
	mara.get(list).is(t, http.StatusOK).has(t, "Pulling 0 %", "The image is already being downloaded.")
	p.exec("UPDATE tasks SET state = 'failed', error = 'The host cannot find cloud.debian.org: no such host.', ended_at = now() WHERE kind = 'volume.fetch'")
	p.exec("UPDATE jobs SET state = 'failed', error = 'The host cannot find cloud.debian.org: no such host.', ended_at = now() WHERE kind = 'volume.fetch'")
	seen = mara.get(list).is(t, http.StatusOK)
	seen.has(t, "Failed", "The host cannot find cloud.debian.org")
	seen.lacks(t, "The image is already being downloaded.")

	for says, in := range map[string]url.Values{
		"Plain http needs a checksum": {"name": {"X"}, "url": {"http://example.org/x.qcow2"}},
		"not both":                    {"name": {"X"}, "url": {"https://example.org/x.qcow2"}, "checksum": {digest64}, "checksumUrl": {"https://example.org/SUMS"}},
		"http needs a checksum":       {"name": {"X"}, "url": {"https://example.org/x.qcow2"}, "checksumUrl": {"http://example.org/SUMS"}},
		"The name of the image must":  {"name": {""}, "url": {"https://example.org/x.qcow2"}},
	} {
		mara.post(list+"/new", in).is(t, http.StatusUnprocessableEntity).has(t, says)
	}
	mara.post(list+"/"+debian+"/edit", url.Values{"name": {"Ours"}, "url": {"https://mirror.example.org/x.qcow2"}, "file": {"x.qcow2"}}).is(t, http.StatusSeeOther)
	seen = mara.get(list).is(t, http.StatusOK)
	seen.has(t, "mirror.example.org", "No checksum", "changed by mara")
	seen.lacks(t, "Debian 12")
	mara.post(list+"/00000000-0000-7000-8000-000000440006/delete", url.Values{}).is(t, http.StatusSeeOther)
	mara.get(list).is(t, http.StatusOK).lacks(t, "Fedora")
	mara.post(list+"/restore", url.Values{}).is(t, http.StatusSeeOther)
	seen = mara.get(list).is(t, http.StatusOK)
	seen.has(t, "Debian 12", "Fedora 44")
	seen.lacks(t, "mirror.example.org", "changed by")
	mara.get(list+"/"+"00000000-0000-7000-8000-000000449999"+"/edit").is(t, http.StatusNotFound)
}

const digest64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
