package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// newPoolPortal returns a portal with a pool that is healthy on host-1, failed on host-2 and unknown on host-3.
func newPoolPortal(t *testing.T) (p *portal, pool fleet.PoolID, hosts []fleet.HostID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	hosts = []fleet.HostID{p.addHost("host-1", 0), p.addHost("host-2", 0), p.addHost("host-3", 5*time.Minute)}
	pool = p.addPool("shared-nfs", hosts...)
	p.execSQL("UPDATE assignments SET status = $2 WHERE noun = 'pool' AND host_id = $1", hosts[1],
		mustJSON(fleet.PoolStatus{State: fleet.PoolFailed, Error: "mount.nfs: Connection refused"}))
	p.addVM(p.addProject("shop"), hosts[0], "web-01", fleet.Running, func(vm *fleet.VM) {
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "debian-12.qcow2", SizeBytes: 3 << 30}}
	})
	return p, pool, hosts
}

func TestPoolPageShowsFaultAndRemedyPerHost(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	b.get("/pools").requireStatus(t, http.StatusOK).contains(t, "shared-nfs", "1 of 3 hosts healthy", "10.0.0.5:/exports/shared-nfs", "498 GiB of 2 TiB")
	a := b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, "1 of 3 hosts healthy", "host-2 cannot use this pool.", "mount.nfs: Connection refused", "Retry host-2",
		"Last known: active, 498 GiB of 2 TiB used.", "shared: counted once", "498 GiB used", "1.5 TiB of 2 TiB free", "The host is offline. It retries when it is online again.")
	a.excludes(t, "host-3 cannot use")
	b.get(path+"?tab=volumes").requireStatus(t, http.StatusOK).contains(t, "debian-12.qcow2", "web-01", "installer.iso", "ISO")
	b.get(path+"?tab=vms").requireStatus(t, http.StatusOK).contains(t, "web-01")
	b.get(path+"?tab=vms&filter=host:host-2").requireStatus(t, http.StatusOK).contains(t, "No VM that matches the filter")
	b.get(path+"?tab=vms&filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity).contains(t, `role="alert"`)
	b.get(path+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, "Type and path of a pool are fixed.")
	b.getFragment(path, "pool-head").requireStatus(t, http.StatusOK).contains(t, "1 of 3 hosts healthy")
	b.getFragment(path, "pool-body").requireStatus(t, http.StatusOK).contains(t, "Connection refused")

	b.post(path+"/hosts/"+string(hosts[1])+"/retry", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"?tab=tasks").contains(t, "Assign pool", "Waiting for host-2")
	b.get("/pools?filter=health:warn").contains(t, "shared-nfs")
	b.get("/pools?filter=health:ok").contains(t, "No pool matches")
}

// The page of a pool that was stopped outside of Quantix shows the stopped state and offers to start the pool. A full
// pool is shown as full.
func TestPoolPageShowsStoppedAndFullPools(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	p.execSQL("UPDATE assignments SET status = $2 WHERE noun = 'pool' AND host_id = $1", hosts[1], mustJSON(fleet.PoolStatus{State: fleet.PoolInactive, StoppedOutside: true}))
	p.execSQL(`UPDATE assignments SET status = status || '{"usedBytes": 2180000000000}' WHERE noun = 'pool' AND host_id = $1`, hosts[0])
	a := b.get(path).requireStatus(t, http.StatusOK)
	a.contains(t, "Stopped on the host outside Quantix.", "Start on host-2", "The pool was stopped on the host outside Quantix. Start the pool to use it again.",
		"Full: 99 % used", "1 of 3 hosts healthy, full")
	a.excludes(t, "Retry host-2", "Defined on the host")
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "99 % of the space is used.")
	b.get("/hosts/"+string(hosts[1])+"?tab=storage").requireStatus(t, http.StatusOK).contains(t, "Stopped on the host outside Quantix.")
	b.post(path+"/hosts/"+string(hosts[1])+"/retry", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.get("/pools?filter=health:bad").contains(t, "shared-nfs", "1 of 3 hosts healthy, full")
}

func TestPoolPageHidesHostsFromTenants(t *testing.T) {
	p, pool, _ := newPoolPortal(t)
	b := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	a := b.get("/pools/"+string(pool)).requireStatus(t, http.StatusOK)
	a.contains(t, "Available", "Capacity")
	a.excludes(t, "hosts healthy", "Assign to hosts", "permission", "host-2", "10.0.0.5", "Connection refused")
	b.get("/hosts").requireStatus(t, http.StatusForbidden)
}

func TestPoolFormShowsErrorsAndCreatesPool(t *testing.T) {
	p, _, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/pools/new").requireStatus(t, http.StatusOK).contains(t, "host-1", "host-3", "Shared storage")
	a := b.post("/pools", url.Values{"name": {"Scratch!"}, "kind": {"dir"}, "path": {"/etc"}, "host": {string(hosts[0])}}, htmxFormHeaders("pool-form")...).requireStatus(t, 422)
	a.contains(t, "A name has 1–63 lower-case letters", "/etc belongs to the system", `value="Scratch!"`, "checked")
	// Without JavaScript the form also sends the fields of pool kinds that are not chosen.
	form := url.Values{"name": {"scratch"}, "kind": {"dir"}, "path": {"/srv/scratch"}, "source[server]": {"nas"}, "source[format]": {"xfs"}, "host": {string(hosts[0]), string(hosts[1])}}
	a = b.post("/pools", form).requireStatus(t, http.StatusSeeOther)
	b.get(a.header.Get("Location")).requireStatus(t, http.StatusOK).contains(t, "scratch", "0 of 2 hosts healthy", "Pending", "each host has its own data")
}

// The form requires the fields of the chosen kind, and shows the unmet requirements beside each host.
func TestPoolFormRequiresFieldsOfItsKind(t *testing.T) {
	p, _, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	const gap = "mount.glusterfs is missing. Install glusterfs-client."
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,poolGaps}', '[{"kind":"glusterfs","why":"`+gap+`"}]') WHERE id = $1`, hosts[0])
	b.get("/pools/new").requireStatus(t, http.StatusOK).contains(t, "No GlusterFS pools: "+gap, `data-show-when="kind=glusterfs"`, `data-show-when="kind=nfs|glusterfs"`, `name="source[device]"`, `value="btrfs"`)
	ask := func(kind string, more ...string) url.Values {
		v := url.Values{"name": {"p-" + kind}, "kind": {kind}, "path": {"/srv/" + kind}, "host": {string(hosts[0])}}
		for i := 0; i < len(more); i += 2 {
			v.Set("source["+more[i]+"]", more[i+1])
		}
		return v
	}
	b.post("/pools", ask("fs", "device", "/etc/shadow", "format", "vfat")).requireStatus(t, 422).contains(t, "Enter the path of a block device on the", "Choose one of ext4, xfs, btrfs.", `value="/etc/shadow"`)
	b.post("/pools", ask("glusterfs", "server", "gl-1", "volume", "-o")).requireStatus(t, 422).contains(t, "Enter the volume", `value="gl-1"`)
	b.post("/pools", ask("tape")).requireStatus(t, 422).contains(t, "A pool&#39;s kind is &#34;dir&#34;, &#34;fs&#34;, &#34;nfs&#34;, &#34;glusterfs&#34;, &#34;iscsi-direct&#34;, &#34;iscsi&#34;, &#34;rbd&#34; or &#34;logical&#34;.")
	both := ask("fs", "device", "/dev/disk/by-id/wwn-1", "format", "ext4")
	both["host"] = []string{string(hosts[0]), string(hosts[1])}
	b.post("/pools", both).requireStatus(t, 422).contains(t, "identifies a single disk:")
	for kind, c := range map[string]struct {
		source []string
		want   []string
	}{
		"fs":        {[]string{"device", "/dev/disk/by-id/wwn-1", "format", "ext4"}, []string{"File system", "/dev/disk/by-id/wwn-1", "each host has its own data"}},
		"glusterfs": {[]string{"server", "gl-1", "volume", "gv0", "export", "/of/another/kind"}, []string{"GlusterFS", "gl-1:/gv0", "the same data on every host"}},
	} {
		at := b.post("/pools", ask(kind, c.source...)).requireStatus(t, http.StatusSeeOther).header.Get("Location")
		b.get(at+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, c.want...)
		if kind == "fs" {
			b.post(at+"/assign", url.Values{"host": {string(hosts[1])}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "identifies a single disk:")
			b.post(at+"/assign", url.Values{"host": {string(hosts[0])}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
		}
	}
}

func TestAssignReleaseAndDeletePool(t *testing.T) {
	p, pool, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/pools/" + string(pool)
	dialog := b.getFragment(path+"/assign", "dialog").requireStatus(t, http.StatusOK)
	dialog.contains(t, "This pool is already assigned to every host.", `href="`+path+`">Done</a>`)
	dialog.excludes(t, "<html")
	more := p.addHost("host-4", 0)
	b.get(path+"/assign").requireStatus(t, http.StatusOK).contains(t, "host-4")
	b.post(path+"/assign", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Choose at least one host.")
	b.post(path+"/assign", url.Values{"host": {string(more)}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, "host-4", "1 of 4 hosts healthy")

	b.get(path+"/hosts/"+string(hosts[0])+"/release").requireStatus(t, http.StatusOK).contains(t, "Release shared-nfs from host-1?", "No data is deleted")
	b.post(path+"/hosts/"+string(hosts[0])+"/release", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "web-01")
	b.post(path+"/hosts/"+string(more)+"/release", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"/hosts/"+string(fleet.NewID[fleet.HostID]())+"/release").requireStatus(t, http.StatusNotFound)

	b.get(path+"/delete").requireStatus(t, http.StatusOK).contains(t, "Delete shared-nfs?", "host-1")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "web-01")
	p.execSQL("DELETE FROM vms")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).contains(t, "Being deleted")
	p.newSignedInBrowser("vera", fleet.RoleViewer).post(path+"/delete", url.Values{}).requireStatus(t, http.StatusForbidden)
}

// A typed secret appears on no page, in no response and in no log. A pool kind that needs a secret refuses a form
// without one, with the error at the secret's field.
func TestPoolSecretsNeverReturned(t *testing.T) {
	p, _, hosts := newPoolPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	const secret = "a-secret-of-storage"
	form := url.Values{
		"name": {"san"}, "kind": {"iscsi-direct"}, "path": {"/typed/for/another/kind"}, "host": {string(hosts[0])}, "secret": {secret},
		"source[portal]": {"10.0.0.5"}, "source[target]": {"not an iqn"}, "source[initiator]": {"iqn.2026-01.org.example:quantix"}, "source[user]": {"quantix"},
	}
	quiet := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) {
			t.Errorf("%s repeats the secret", what)
		}
	}
	a := b.post("/pools", form, htmxFormHeaders("pool-form")...).requireStatus(t, 422)
	a.contains(t, "Enter the target&#39;s iSCSI name", `value="quantix"`, `value="10.0.0.5"`)
	quiet("a refused form", a.body)
	form.Set("source[target]", "iqn.2026-01.org.example:vms")
	form.Del("secret")
	b.post("/pools", form).requireStatus(t, 422).contains(t, "Enter the secret of quantix.")
	form.Set("secret", secret)
	path := b.post("/pools", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	for _, tab := range []string{"", "?tab=configure", "?tab=volumes", "?tab=tasks"} {
		a := b.get(path+tab).requireStatus(t, http.StatusOK)
		quiet("the pool's page "+tab, a.body)
		if tab == "?tab=configure" {
			a.contains(t, "iqn.2026-01.org.example:vms", "10.0.0.5", "quantix", "iSCSI direct")
		}
	}
	b.get(path).contains(t, "Change credentials", path+"/credentials")
	dialog := path + "/credentials"
	b.get(dialog).requireStatus(t, http.StatusOK).contains(t, "Change the credentials of san", "CHAP password", `type="password"`)
	b.post(dialog, url.Values{"secret": {""}}).requireStatus(t, 422).contains(t, "Enter the secret of quantix.")
	a = b.post(dialog, url.Values{"secret": {secret + "\n2"}}).requireStatus(t, 422)
	a.contains(t, "A password is one line of at most 255")
	quiet("a refused change", a.body)
	b.post(dialog, url.Values{"secret": {secret + "-2"}}).requireStatus(t, http.StatusSeeOther)

	root := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	for _, at := range []string{"/api/v1/pools", "/api/v1" + path, "/api/v1/tasks"} {
		quiet(at, root.call("GET", at, "").requireStatus(t, http.StatusOK).body)
	}
	a = root.call("POST", "/api/v1"+path+"/credentials", `{"secret":"`+secret+`-3"}`).requireStatus(t, http.StatusAccepted)
	quiet("the API's change", a.body)
	quiet("the log", p.log.String())
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	tom.post(dialog, url.Values{"secret": {secret}}).requireStatus(t, http.StatusForbidden)
}
