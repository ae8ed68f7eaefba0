package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

func TestVolumePublishedAndWithdrawn(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	p.exec("DELETE FROM vms")
	p.exec(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || '{"name":"50% dump #1.raw","path":"/srv/d","format":"raw","capacityBytes":7}') WHERE noun = 'pool' AND host_id = $1`, hosts[0])
	b.get(path+"?tab=volumes").is(t, http.StatusOK).has(t, ">Published</span>", "published by mara", "The volume is not published.", "publish?volume=50%25+dump+%231.raw")
	tom := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	form := tom.get("/vms/new").is(t, http.StatusOK)
	form.has(t, "debian-12.qcow2", "installer.iso")
	form.lacks(t, "dump")
	tab := tom.get(path+"?tab=volumes").is(t, http.StatusOK)
	tab.has(t, "debian-12.qcow2")
	tab.lacks(t, "dump", "Publish to tenants", "mara")
	at := func(act string) string {
		return path + "/" + act + "?" + url.Values{"volume": {"50% dump #1.raw"}}.Encode()
	}
	tom.post(at("publish"), url.Values{}).is(t, http.StatusForbidden)

	b.post(at("publish"), url.Values{}, hx("")...).is(t, http.StatusNoContent)
	tom.get("/vms/new").is(t, http.StatusOK).has(t, "50% dump #1.raw")
	b.post(at("withdraw"), url.Values{}).is(t, http.StatusSeeOther)
	tom.get("/vms/new").is(t, http.StatusOK).lacks(t, "dump")

	program := p.apiClient("ann", fleet.RoleAdmin, nil)
	published := func() (out []string) {
		volumes, err := program.Volumes(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range volumes {
			if v.Published != nil {
				out = append(out, v.Name)
			}
		}
		return out
	}
	if err := program.PublishImage(t.Context(), pool, "50% dump #1.raw", ""); err != nil || len(published()) != 3 {
		t.Errorf("published volumes %q: %v", published(), err)
	}
	if err := program.WithdrawImage(t.Context(), pool, "50% dump #1.raw", ""); err != nil || len(published()) != 2 {
		t.Errorf("published volumes %q: %v", published(), err)
	}
	if err := program.PublishImage(t.Context(), pool, "nothing.raw", hosts[0]); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("publishing a missing volume: %v", err)
	}
}
