package web_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/release"
)

// offerRelease writes a signed release for linux-amd64, and lets the hosts trust its key.
func (p *portal) offerRelease(version string, hosts ...fleet.HostID) {
	p.t.Helper()
	key, _, err := release.NewKey()
	if err != nil {
		p.t.Fatal(err)
	}
	on := release.Platform{OS: "linux", Arch: "amd64"}
	m, err := release.Sign(key, strings.NewReader("program"), version, on)
	if err != nil {
		p.t.Fatal(err)
	}
	sig, err := m.Encode()
	if err != nil {
		p.t.Fatal(err)
	}
	for name, content := range map[string][]byte{release.FileName(version, on): []byte("program"), release.FileName(version, on) + release.SignatureSuffix: sig} {
		if err := os.WriteFile(filepath.Join(p.releases, name), content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, id := range hosts {
		p.execSQL(`UPDATE hosts SET status = status || jsonb_build_object('agentVersion', '1.0.0', 'platform', 'linux-amd64', 'settings', COALESCE(status->'settings', '{}') || jsonb_build_object('upgradeKeys', jsonb_build_array($2::text))) WHERE id = $1`, id, key.Public().ID())
	}
}

func TestUpgradePageShowsVersionsAndReasons(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	one, two := p.addHost("host-1", 0), p.addHost("host-2", 0)
	b.get("/hosts/upgrade").requireStatus(t, http.StatusOK).contains(t, "No releases", "agentReleases")
	p.offerRelease("1.9.0", two)
	p.offerRelease("2.0.0", one)
	b.get("/hosts").requireStatus(t, http.StatusOK).contains(t, `href="/hosts/upgrade"`)
	newest := b.get("/hosts/upgrade").requireStatus(t, http.StatusOK)
	newest.contains(t, "2.0.0", "1.9.0", "1 of 2 hosts can be upgraded", "host-1", `name="role.`+string(one), "does not trust")
	newest.excludes(t, `name="role.`+string(two))
	older := b.get("/hosts/upgrade?version=1.9.0&filter=name:host-2").requireStatus(t, http.StatusOK)
	older.contains(t, `name="role.`+string(two))
	older.excludes(t, `name="role.`+string(one))
	b.get("/hosts/upgrade?host="+string(one)).requireStatus(t, http.StatusOK).contains(t, `<option value="canary" selected`)
	b.get("/hosts/upgrade?filter=wrong:x").requireStatus(t, http.StatusOK).contains(t, "wrong")
	send := func(role, soak string) answer {
		return b.post("/hosts/upgrade", url.Values{"version": {"2.0.0"}, "soak": {soak}, "role." + string(one): {role}})
	}
	send("follow", "2").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "at least one host that is upgraded first", `<option value="follow" selected`)
	send("canary", "never").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Enter minutes")
	b.get("/menus/host/"+string(one)).requireStatus(t, http.StatusOK).contains(t, "Upgrade agent", "/hosts/upgrade?host="+string(one))
	if a := send("canary", "0.5").requireStatus(t, http.StatusSeeOther); !strings.HasPrefix(a.header.Get("Location"), "/tasks/") {
		t.Errorf("the answer leads to %s", a.header.Get("Location"))
	}
	send("canary", "2").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "in progress already")
	watcher := p.newSignedInBrowser("vera", fleet.RoleViewer)
	watcher.get("/hosts/upgrade").requireStatus(t, http.StatusForbidden)
}

func TestUpgradesThroughAPI(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	admin, watcher := p.newAPIClient("ann", fleet.RoleAdmin, nil), p.newAPIClient("wes", fleet.RoleViewer, nil)
	one := p.addHost("host-1", 0)
	path := "/api/v1/hosts/" + string(one)
	admin.call("GET", path, "").requireStatus(t, http.StatusOK).contains(t, `"upgrade-agent"`, "too old to be upgraded by the portal")
	admin.call("POST", path+"/actions", `{"action":"upgrade-agent","version":"2.0.0"}`).requireProblem(t, http.StatusConflict, "")
	p.offerRelease("2.0.0", one)
	watcher.call("GET", "/api/v1/agent-releases", "").requireStatus(t, http.StatusOK).contains(t, `"version":"2.0.0"`, `"os":"linux"`, `"keyId"`)
	watcher.call("POST", "/api/v1/agent-upgrades", `{"version":"2.0.0","canary":["`+string(one)+`"]}`).requireStatus(t, http.StatusForbidden)
	admin.call("POST", "/api/v1/agent-upgrades", `{"version":"2.0.0","canary":[]}`).requireProblem(t, http.StatusUnprocessableEntity, "canary")
	admin.call("POST", path+"/actions", `{"action":"upgrade-agent","version":"0.1.0"}`).requireProblem(t, http.StatusConflict, "")
	admin.call("POST", path+"/actions", `{"action":"upgrade-agent","version":"2.0.0"}`).requireStatus(t, http.StatusOK).contains(t, `"kind":"host.agent.upgrade"`)
}
