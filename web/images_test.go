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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	p.execSQL("DELETE FROM vms")
	p.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || '{"name":"50% dump #1.raw","path":"/srv/d","format":"raw","capacityBytes":7}') WHERE noun = 'pool' AND host_id = $1`, hosts[0])
	b.get(path+"?tab=volumes").requireStatus(t, http.StatusOK).contains(t, ">Published</span>", "published by mara", "The volume is not published.", "publish?volume=50%25+dump+%231.raw")
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	form := tom.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, "debian-12.qcow2", "installer.iso")
	form.excludes(t, "dump")
	tom.get(path+"?tab=volumes").requireStatus(t, http.StatusNotFound)
	at := func(act string) string {
		return path + "/" + act + "?" + url.Values{"volume": {"50% dump #1.raw"}}.Encode()
	}
	tom.post(at("publish"), url.Values{}).requireStatus(t, http.StatusForbidden)

	b.post(at("publish"), url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	tom.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "50% dump #1.raw")
	b.post(at("withdraw"), url.Values{}).requireStatus(t, http.StatusSeeOther)
	tom.get("/vms/new").requireStatus(t, http.StatusOK).excludes(t, "dump")

	program := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	published := func() (out []string) {
		volumes, err := program.Volumes(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range volumes {
			if v.Publication != nil {
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
