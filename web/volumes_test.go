package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestVolumeFormsQueueVolumeTasks(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	pool := s.addVolumes("stock", "data.raw", "web-0123456789ab-1.qcow2")
	b := s.newSignedInBrowser("olga", fleet.RoleOperator)
	tab := "/pools/" + string(pool) + "?tab=volumes"
	at := func(act string) string { return "/pools/" + string(pool) + "/volumes/" + act }
	tasks := func() int { return s.countRows("tasks WHERE kind LIKE 'volume.%'") }

	page := b.get(tab)
	page.requireStatus(t, http.StatusOK)
	for _, says := range []string{"2 orphans, 2 MiB", "New volume", "Download by URL", "Orphan", "3 d ago", `href="` + at("grow") + `?volume=data.raw"`} {
		if !strings.Contains(page.body, says) {
			t.Errorf("the tab lacks %q", says)
		}
	}
	if only := b.get(tab + "&only=orphans"); !strings.Contains(only.body, "Show all 2 volumes") || !strings.Contains(only.body, "hosts report no use of these volumes") {
		t.Errorf("the orphans alone: %s", only.pageContent())
	}

	send := func(what, path string, form url.Values, want int, says string) {
		t.Helper()
		before := tasks()
		a := b.post(path, form)
		if a.status != want || !strings.Contains(a.body, says) {
			t.Errorf("%s: %d %s", what, a.status, a.pageContent())
		}
		if asked := tasks() > before; asked != (want == http.StatusSeeOther) {
			t.Errorf("%s: a task is queued: %v", what, asked)
		}
	}
	one := at("grow") + "?volume=data.raw"
	for _, act := range []string{"new", "grow", "clone", "wipe", "delete"} {
		b.get(at(act)+"?volume=data.raw").requireStatus(t, http.StatusOK)
	}
	send("a name with a slash", at("new"), url.Values{"name": {"a/b"}, "format": {"raw"}, "size": {"1"}}, http.StatusUnprocessableEntity, "letters, digits")
	send("no number", at("new"), url.Values{"name": {"new.raw"}, "format": {"raw"}, "size": {"lots"}}, http.StatusUnprocessableEntity, "number of GiB")
	send("no room", at("new"), url.Values{"name": {"new.raw"}, "format": {"raw"}, "size": {"4000"}}, http.StatusUnprocessableEntity, "not provisioned to volumes")
	send("a new one", at("new"), url.Values{"name": {"new.raw"}, "format": {"raw"}, "size": {"1"}, "full": {"yes"}}, http.StatusSeeOther, "")
	send("no address", at("fetch"), url.Values{"url": {"image.qcow2"}, "name": {"a.qcow2"}}, http.StatusUnprocessableEntity, "Enter the complete address, such as https://example.org/image.qcow2.")
	send("a password", at("fetch"), url.Values{"url": {"https://me:secret@example.org/a.qcow2"}}, http.StatusUnprocessableEntity, "The address must not contain a user name or")
	send("http without a checksum", at("fetch"), url.Values{"url": {"http://example.org/a.qcow2"}}, http.StatusUnprocessableEntity, "Plain http needs a checksum, because the file could")
	send("no checksum", at("fetch"), url.Values{"url": {"https://example.org/a.qcow2"}, "checksum": {"abc"}}, http.StatusUnprocessableEntity, "64 digits of a SHA-256")
	send("no name", at("fetch"), url.Values{"url": {"https://example.org/"}}, http.StatusUnprocessableEntity, "letters, digits")
	send("a taken name", at("fetch"), url.Values{"url": {"https://example.org/data.raw"}}, http.StatusUnprocessableEntity, "Choose another name")
	send("a secret in the address", at("fetch"), url.Values{"url": {"https://example.org/a.qcow2?token=x"}}, http.StatusUnprocessableEntity, "question mark")
	send("a download", at("fetch"), url.Values{"url": {" https://example.org/images/debian.qcow2 "}, "checksum": {strings.Repeat("AB", 32)}}, http.StatusSeeOther, "")
	if start := b.get(at("fetch") + "?start=00000000-0000-7000-8000-000000440001"); !strings.Contains(start.body, `value="https://cloud.debian.org/images/cloud/bookworm/latest/SHA512SUMS"`) || !strings.Contains(start.body, "The checksum differs for each build of Debian 12") {
		t.Errorf("the form of a well-known image: %s", start.pageContent())
	}
	b.get(one).contains(t, `name="size" type="text" value="1"`, `<option value="MiB" selected>`)
	send("no larger", one, url.Values{"size": {"0.0009"}}, http.StatusUnprocessableEntity, "cannot shrink")
	send("no larger in MiB", one, url.Values{"size": {"0.9"}, "unit": {"MiB"}}, http.StatusUnprocessableEntity, "cannot shrink")
	send("no number of MiB", one, url.Values{"size": {"lots"}, "unit": {"MiB"}}, http.StatusUnprocessableEntity, "number of MiB")
	send("a wrong name", at("delete")+"?volume=data.raw", url.Values{"confirm": {"data"}}, http.StatusUnprocessableEntity, "Type the volume")
	send("larger", one, url.Values{"size": {"2"}, "unit": {"MiB"}}, http.StatusSeeOther, "")
	send("a second order", at("delete")+"?volume=data.raw", url.Values{"confirm": {"data.raw"}}, http.StatusConflict, "grow volume")
	b.get("/pools/"+string(pool)+"?tab=tasks").requireStatus(t, http.StatusOK)
	if list := b.get("/pools/" + string(pool) + "?tab=tasks").body; !strings.Contains(list, "Grow volume") || !strings.Contains(list, "Create volume") {
		t.Errorf("the pool's tasks lack those of its volumes: %s", list)
	}
	if got := b.get(at("grow") + "?volume=none"); got.status != http.StatusNotFound {
		t.Errorf("a missing volume: %d", got.status)
	}
}
