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
	p.execSQL("UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL")
	mara, wes, tom := p.newSignedInBrowser("mara", fleet.RoleAdmin), p.newSignedInBrowser("wes", fleet.RoleViewer), p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	const list, debian = "/images/well-known", "00000000-0000-7000-8000-000000440001"
	mara.get("/images").requireStatus(t, http.StatusOK).contains(t, `href="`+list+`"`)
	mara.get(list).requireStatus(t, http.StatusOK).contains(t, "Debian 12", "Fedora 44", "bookworm/latest/SHA512SUMS", `form="pull"`, "Restore the original set", "Publish new images")
	seen := wes.get(list).requireStatus(t, http.StatusOK)
	seen.contains(t, "Debian 12", "You do not have permission to change hosts")
	seen.excludes(t, `form="pull"`)
	tom.get(list).requireStatus(t, http.StatusForbidden)
	for _, at := range []string{"/pull", "/restore", "/new", "/" + debian + "/edit", "/" + debian + "/delete"} {
		wes.post(list+at, url.Values{"entry": {debian}, "pool": {string(pool)}}).requireStatus(t, http.StatusForbidden)
		tom.post(list+at, url.Values{}).requireStatus(t, http.StatusForbidden)
	}
	mara.post(list+"/pull", url.Values{"entry": {debian}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose the pool")
	mara.post(list+"/pull", url.Values{"entry": {debian}, "pool": {string(pool)}, "public": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	mara.get(list).requireStatus(t, http.StatusOK).contains(t, "Pulling 0 %", "The image is already being downloaded.")
	p.execSQL("UPDATE tasks SET state = 'failed', error = 'The host cannot find cloud.debian.org: no such host.', ended_at = now() WHERE kind = 'volume.fetch'")
	p.execSQL("UPDATE jobs SET state = 'failed', error = 'The host cannot find cloud.debian.org: no such host.', ended_at = now() WHERE kind = 'volume.fetch'")
	seen = mara.get(list).requireStatus(t, http.StatusOK)
	seen.contains(t, "Failed", "The host cannot find cloud.debian.org")
	seen.excludes(t, "The image is already being downloaded.")

	for says, in := range map[string]url.Values{
		"Plain http needs a checksum": {"name": {"X"}, "url": {"http://example.org/x.qcow2"}},
		"not both":                    {"name": {"X"}, "url": {"https://example.org/x.qcow2"}, "checksum": {digest64}, "checksumUrl": {"https://example.org/SUMS"}},
		"http needs a checksum":       {"name": {"X"}, "url": {"https://example.org/x.qcow2"}, "checksumUrl": {"http://example.org/SUMS"}},
		"Enter a name: one line":      {"name": {""}, "url": {"https://example.org/x.qcow2"}},
	} {
		mara.post(list+"/new", in).requireStatus(t, http.StatusUnprocessableEntity).contains(t, says)
	}
	mara.post(list+"/"+debian+"/edit", url.Values{"name": {"Ours"}, "url": {"https://mirror.example.org/x.qcow2"}, "file": {"x.qcow2"}}).requireStatus(t, http.StatusSeeOther)
	seen = mara.get(list).requireStatus(t, http.StatusOK)
	seen.contains(t, "mirror.example.org", "No checksum", "changed by mara")
	seen.excludes(t, "Debian 12")
	mara.post(list+"/00000000-0000-7000-8000-000000440006/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	mara.get(list).requireStatus(t, http.StatusOK).excludes(t, "Fedora")
	mara.post(list+"/restore", url.Values{}).requireStatus(t, http.StatusSeeOther)
	seen = mara.get(list).requireStatus(t, http.StatusOK)
	seen.contains(t, "Debian 12", "Fedora 44")
	seen.excludes(t, "mirror.example.org", "changed by")
	mara.get(list+"/"+"00000000-0000-7000-8000-000000449999"+"/edit").requireStatus(t, http.StatusNotFound)
}

const digest64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
