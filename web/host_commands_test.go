package web_test

import (
	"archive/zip"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

// addArtifact stores an archive with one item of each status.
func (p *portal) addArtifact(host fleet.HostID, kind hostcommand.ArtifactKind, texts map[string]string) hostcommand.ArtifactID {
	p.t.Helper()
	id := fleet.NewID[hostcommand.ArtifactID]()
	var items []hostcommand.Item
	var all []string
	for _, status := range []hostcommand.ItemStatus{hostcommand.ItemOK, hostcommand.ItemTruncated, hostcommand.ItemFailed, hostcommand.ItemTimedOut, hostcommand.ItemSkipped} {
		i := hostcommand.Item{Name: string(status), Title: "Item " + string(status), Status: status, Seconds: 1.25}
		if status != hostcommand.ItemOK {
			i.Reason = "because of " + string(status)
		}
		items, all = append(items, i), append(all, texts[string(status)])
	}
	if text, ok := texts[hostcommand.LogItem]; ok {
		items, all = []hostcommand.Item{{Name: hostcommand.LogItem, Title: "Agent log", Status: hostcommand.ItemOK, Bytes: len(text)}}, []string{text}
	}
	archive, err := hostcommand.WriteArchive(items, all, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	p.execSQL(`INSERT INTO host_artifacts (id, host_id, kind, job_id, task_id, created_by, size, summary, archive) VALUES ($1, $2, $3, $1, $1, 'mara', $4, $5, $6)`,
		id, host, kind, len(archive), mustJSON(hostcommand.Summary{Items: items}), archive)
	return id
}

func (p *portal) setCommands(host fleet.HostID) {
	p.execSQL(`UPDATE hosts SET status = status || '{"settings":{"commands":["host.diagnose","host.agent.log","host.agent.restart"],"diagnostics":["raid","smart-all"]}}' WHERE id = $1`, host)
}

func TestDiagnosticsArePickedRunReadAndDownloaded(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	path := "/hosts/" + string(well)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	viewer := p.newSignedInBrowser("vera", fleet.RoleViewer)
	b.get(path+"?tab=diagnostics").requireStatus(t, http.StatusOK).contains(t, "No diagnostics", "does not support this. Upgrade the agent.")
	b.get("/hosts/"+string(silent)+"/diagnostics").contains(t, "host-2 is offline.")
	p.setCommands(well)
	b.get(path+"/diagnostics").contains(t, "Secrets are removed", `value="raid"`, `value="smart-all"`, ">Run diagnostics<")
	b.post(path+"/diagnostics", url.Values{"site": {"other"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "The host has no diagnostic &#34;other&#34;")
	b.post(path+"/diagnostics", url.Values{"site": {"raid"}}).requireStatus(t, http.StatusSeeOther)
	b.get(path+"?tab=diagnostics").contains(t, "Run diagnostics", "is in progress")

	id := p.addArtifact(well, hostcommand.Diagnostics, map[string]string{"ok": "first line\n<script>alert(1)</script>\x1b[31m\n"})
	for _, reader := range []*browser{b, viewer} {
		reader.get(path+"?tab=diagnostics").requireStatus(t, http.StatusOK).contains(t, "5 items, 2 failed, 1 truncated", "Timed out", "because of failed", "Not available", "1.2 s")
		reader.get(path+"/diagnostics/"+string(id)+"/ok").requireStatus(t, http.StatusOK).contains(t, "first line", "&lt;script&gt;", `\x1b[31m`)
		reader.get(path+"/diagnostics/"+string(id)+"/nosuch").requireStatus(t, http.StatusNotFound)
		a := reader.get(path+"/diagnostics/"+string(id)).requireStatus(t, http.StatusOK)
		z, err := zip.NewReader(strings.NewReader(a.body), int64(len(a.body)))
		if err != nil || len(z.File) != 6 || a.header.Get("Content-Type") != "application/zip" || !strings.HasPrefix(a.header.Get("Content-Disposition"), `attachment; filename="diagnostics-`) {
			t.Errorf("the download is %v %v", a.header, err)
		}
	}
	b.get("/hosts/"+string(silent)+"/diagnostics/"+string(id)).requireStatus(t, http.StatusNotFound)
	viewer.get(path+"?tab=diagnostics").contains(t, "You do not have permission")
	viewer.post(path+"/diagnostics", url.Values{}).requireStatus(t, http.StatusForbidden)
	viewer.post(path+"/agent-log", url.Values{}).requireStatus(t, http.StatusForbidden)
	viewer.post(path+"/restart-agent", url.Values{}).requireStatus(t, http.StatusForbidden)
}

func TestAgentLogShowsLinesByLevel(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	path := "/hosts/" + string(well)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get(path+"/agent-log.txt").requireStatus(t, http.StatusNotFound)
	p.setCommands(well)
	b.get(path+"?tab=agent-log").contains(t, "The log was not read yet", ">Refresh<")
	b.post(path+"/agent-log", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path+"?tab=agent-log").contains(t, "Read agent log", "is in progress")
	p.addArtifact(well, hostcommand.AgentLog, map[string]string{hostcommand.LogItem: "time=2026-01-02T03:04:05.006Z level=INFO msg=\"agent is running\" host=h1\n" +
		"time=2026-01-02T03:04:06.006Z level=ERROR msg=\"libvirt <b>failed</b>\\nlevel=INFO\" n=2\nodd line\n"})
	b.get(path+"?tab=agent-log").requireStatus(t, http.StatusOK).contains(t, "agent is running host=h1", "libvirt &lt;b&gt;failed&lt;/b&gt;\\nlevel=INFO n=2", "odd line", "3 of 3 lines", "by mara")
	a := b.get(path + "?tab=agent-log&level=ERROR")
	a.contains(t, "libvirt &lt;b&gt;failed", "2 of 3 lines")
	a.excludes(t, "agent is running")
	if a := b.get(path+"/agent-log.txt").requireStatus(t, http.StatusOK); !strings.HasPrefix(a.body, "time=2026-01-02") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
		t.Errorf("the download is %v %q", a.header, a.body)
	}
}

func TestRestartOfAgentNamesWhatItInterrupts(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	path := "/hosts/" + string(well)
	p.setCommands(well)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/menus/host/"+string(well)).contains(t, ">Run diagnostics<", ">Restart agent<")
	a := b.get(path+"/restart-agent").requireStatus(t, http.StatusOK)
	a.contains(t, "VMs keep running.")
	a.excludes(t, "Interrupt these jobs")
	p.execSQL(`INSERT INTO tasks (id, host_id, kind, subject, subject_name, created_by) VALUES ('t', $1, 'volume.copy', 'volume:p/a.qcow2', 'a.qcow2', 'mara')`, well)
	p.execSQL(`INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation, state, epoch, lease_until, started_at) SELECT id, id, host_id, kind, subject, '{}', 0, 'running', 7, now() + interval '1 hour', now() FROM tasks WHERE id = 't'`)
	b.get(path+"/restart-agent").contains(t, "The restart interrupts 1 running job:", "Copy volume a.qcow2", "Interrupt these jobs")
	b.post(path+"/restart-agent", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "would interrupt 1 running job")
	b.post(path+"/restart-agent", url.Values{"force": {"yes"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"?tab=tasks").contains(t, "Restart agent")
}

func TestHostCommandsOverAPI(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	p.setCommands(well)
	path := "/api/v1/hosts/" + string(well)
	admin, member := p.newAPIClient("auto", fleet.RoleOperator, nil), p.newAPIClient("tenant", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{p.addProject("ci"): fleet.RoleMember})
	admin.call("POST", path+"/diagnostics", `{"site":["raid"]}`).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"host.diagnose"`)
	admin.call("POST", path+"/diagnostics", `{"site":["/bin/sh"]}`).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "has no diagnostic")
	admin.call("POST", path+"/agent-log", ``).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"host.agent.log"`)
	admin.call("POST", path+"/actions", `{"action":"restart-agent"}`).requireStatus(t, http.StatusOK).contains(t, `"kind":"host.agent.restart"`)
	admin.call("GET", path+"/agent-log", "").requireStatus(t, http.StatusOK).contains(t, `"lines":[]`)
	id := p.addArtifact(well, hostcommand.Diagnostics, map[string]string{"ok": "text"})
	p.addArtifact(well, hostcommand.AgentLog, map[string]string{hostcommand.LogItem: "time=2026-01-02T03:04:05.006Z level=WARN msg=x\n"})
	admin.call("GET", path+"/agent-log", "").requireStatus(t, http.StatusOK).contains(t, `"level":"WARN"`, `"by":"mara"`)
	var list struct{ Items []hostcommand.Artifact }
	if err := json.Unmarshal([]byte(admin.call("GET", path+"/diagnostics", "").body), &list); err != nil || len(list.Items) != 1 || list.Items[0].ID != id || len(list.Items[0].Items) != 5 {
		t.Errorf("the list is %+v, %v", list, err)
	}
	a := admin.call("GET", path+"/diagnostics/"+string(id), "").requireStatus(t, http.StatusOK)
	if _, err := zip.NewReader(strings.NewReader(a.body), int64(len(a.body))); err != nil || a.header.Get("Content-Type") != "application/zip" {
		t.Errorf("the download: %v, %v", a.header, err)
	}
	for _, at := range []string{"/diagnostics", "/diagnostics/" + string(id), "/agent-log"} {
		if a := member.call("GET", path+at, ""); a.status != http.StatusForbidden && a.status != http.StatusNotFound {
			t.Errorf("a member gets %d of %s", a.status, at)
		}
	}
}
