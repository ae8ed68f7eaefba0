package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// The portal executes a repeated POST with the same idempotency key and body only once. It refuses the same key with
// another body. The test covers every POST of the API.
func TestEveryPostIsIdempotent(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	admin := s.newAPIClient("ann", fleet.RoleAdmin, nil)
	project, pool := s.addProject("lab"), s.addPool("fast", s.host.id)
	off := s.addVM(project, s.host.id, "off", fleet.Stopped)
	var waiting struct{ ID string }
	if err := json.Unmarshal([]byte(admin.call("POST", "/api/v1/vms/"+string(off)+"/actions", `{"action":"start"}`).requireStatus(t, http.StatusAccepted).body), &waiting); err != nil {
		t.Fatal(err)
	}
	vm := "/vms/" + string(s.vm)
	sick := map[string]string{} // ids of VMs with a problem, one for each action that resolves a problem
	for _, act := range []string{"detach", "replace", "accept-drift", "ignore-drift", "show-drift", "reapply", "place", "migrate", "release"} {
		id, disk := addTroubledVM(s.portal, s.addProject("of-"+act), "host-"+act)
		sick[act] = "/vms/" + string(id)
		sick[act+" disk"] = `{"disk":{"poolId":"` + string(disk.PoolID) + `","volume":"` + disk.Volume + `"}`
	}
	s.execSQL(`INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven, alarm) VALUES ($1, $2, 'running', 1, true, true)`, strings.TrimPrefix(sick["place"], "/vms/"), s.host.id)
	s.execSQL(`UPDATE vms SET spec = spec || '{"power":"stopped","firmware":"bios","disks":[],"nics":[]}', status = '{"power":"stopped","cpus":1,"memoryMiB":128}', generation = 1, observed_generation = 1 WHERE id = $1`, strings.TrimPrefix(sick["migrate"], "/vms/"))
	foreign := fleet.NewID[fleet.VMID]()
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'foreign', '{"power":"running"}')`, s.host.id, foreign)
	discovered := "/hosts/" + string(s.host.id) + "/discovered-vms/" + string(foreign)
	s.execSQL(`INSERT INTO host_conditions VALUES ($1, 'gpu', 'gpu/0', 'xid-79', 'critical', 'text', '{}', '{}', now(), now(), 1, true)`, s.host.id)
	s.execSQL(`UPDATE hosts SET status = status || '{"discoveredPools":[{"name":"theirs","kind":"dir","spec":{"kind":"dir","path":"/srv/theirs"}}]}' WHERE id = $1`, s.host.id)
	s.execSQL(`INSERT INTO networks (id, name, kind) VALUES ('00000000-0000-7000-8000-00000000a001', 'theirs', 'libvirt')`)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, status) VALUES ('net', '00000000-0000-7000-8000-00000000a001', $1, '{"active":true,"definition":{"spec":{"mode":"isolated"}}}')`, s.host.id)
	place := func(host fleet.HostID) string { return `{"hostId":"` + string(host) + `"}` }
	var placed fleet.HostID
	if err := s.pool.QueryRow(t.Context(), "SELECT id FROM hosts WHERE name = 'host-place'").Scan(&placed); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed"}' WHERE pool_id = $1`, pool)
	sickPool := s.addPool("sick", s.host.id)
	s.execSQL(`UPDATE assignments SET status = '{"state":"failed"}' WHERE pool_id = $1`, sickPool)
	volumes := "/pools/" + string(s.addVolumes("stock", "clone-me.raw", "grow-me.raw", "wipe-me.raw", "name-me.raw", "convert-me.vhdx")) + "/volumes"
	san := s.addPool("san", s.host.id)
	s.execSQL(`UPDATE pools SET spec = '{"kind":"iscsi-direct","portal":"10.0.0.5","target":"iqn.2026-01.org.example:vms","user":"quantix"}' WHERE id = $1`, san)
	stock := s.addVolumes("stock-of-images", "golden.raw", "next.raw", "first.raw", "second.raw", "third.raw")
	shelve := func(name string) string {
		id := string(fleet.NewID[fleet.ImageID]())
		s.execSQL("INSERT INTO images (id, name, created_by) VALUES ($1, $2, 'ann')", id, name)
		s.execSQL("INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by) SELECT $1, $1, 1, v->>'format', (v->>'capacityBytes')::bigint, 'ann' FROM assignments a, jsonb_array_elements(a.status->'volumes') v WHERE a.pool_id = $2 AND v->>'name' = $3 LIMIT 1", id, stock, name)
		s.execSQL("INSERT INTO image_copies (version_id, pool_id, volume, added_by) VALUES ($1, $2, $3, 'ann')", id, stock, name)
		return "/images/" + id
	}
	versioned, forgotten, verified := shelve("first.raw"), shelve("second.raw"), shelve("third.raw")
	file := func(name string) string { return `{"poolId":"` + string(stock) + `","volume":"` + name + `"}` }
	sickCopies := s.addVolumes("copies-of-images")
	lan := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'lan', 'libvirt', '{"mode":"isolated"}')`, lan)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) VALUES ('net', $1, $2, 'assign', '{"active":false}')`, lan, s.host.id)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true') WHERE id = $1`, s.host.id)
	s.setCommands(s.host.id)
	edited := s.addPool("edited", s.host.id)
	s.execSQL(`UPDATE assignments SET status = '{"state":"active","drift":[{"field":"path","applied":"/a","actual":"/b"}]}' WHERE pool_id = $1`, edited)
	editedPool := "/pools/" + string(edited) + "/hosts/" + string(s.host.id)
	wan := fleet.NewID[fleet.NetworkID]()
	s.execSQL(`INSERT INTO networks (id, name, kind, spec) VALUES ($1, 'wan', 'libvirt', '{"mode":"isolated"}')`, wan)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status) VALUES ('net', $1, $2, 'assign', '{"active":true,"drift":[{"field":"mtu","applied":"default","actual":"9000","take":9000}]}')`, wan, s.host.id)
	editedNetwork := "/networks/" + string(wan) + "/hosts/" + string(s.host.id)
	group := fleet.NewID[fleet.SecurityGroupID]()
	s.execSQL(`INSERT INTO security_groups (id, project_id, name, spec) VALUES ($1, $2, 'web', '{"rules":[]}')`, group, project)
	disk, slow := `{"disk":{"poolId":"`+string(pool)+`","volume":"web-1.qcow2"},"poolId":"`, s.addPool("slow-disks", s.host.id)
	s.execSQL(`UPDATE assignments SET status = '{"state":"active","capacityBytes":1099511627776,"availableBytes":1099511627776}' WHERE pool_id = $1`, slow)
	outgoing := s.addVM(project, s.host.id, "outgoing", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'outgoing-1.qcow2', 'sizeBytes', 1048576))) WHERE id = $1`, outgoing, slow)
	shot, shotDisk := s.addVM(project, s.host.id, "shot", fleet.Stopped), `{"disk":{"poolId":"`+string(slow)+`","volume":"shot-1.qcow2"},"name":`
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'shot-1.qcow2', 'sizeBytes', 1048576))) WHERE id = $1`, shot, slow)
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'web-1.qcow2', 'sizeBytes', 1048576))) WHERE id = $1`, s.vm, pool)
	pattern := s.addVM(project, s.host.id, "pattern", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = spec || '{"disks":[],"nics":[]}' WHERE id = $1`, pattern)
	template := func() string {
		id := string(fleet.NewID[fleet.TemplateID]())
		s.execSQL("INSERT INTO templates (id, project_id, name, created_by) VALUES ($1, $2, $1, 'ann')", id, project)
		s.execSQL(`INSERT INTO template_versions (id, template_id, number, spec, created_by) VALUES ($1, $1, 1, '{"cpus":1,"memoryMiB":128,"firmware":"bios","disks":[],"nics":[]}', 'ann')`, id)
		return id
	}
	fresh, old := template(), template()
	ofPattern := `"vmId":"` + string(pattern) + `"`
	growing, grow := "/vms/"+string(off), `{"disk":{"poolId":"`+string(slow)+`","volume":"off-1.qcow2"},"sizeBytes":`
	s.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'off-1.qcow2', 'sizeBytes', 524288))) WHERE id = $1`, off, slow)
	snapped := func(name string) string {
		id := s.addVM(project, s.host.id, name, fleet.Stopped)
		s.execSQL(`UPDATE vms SET observed_generation = generation, spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', $3::text, 'sizeBytes', 1048576))),
			status = '{"power":"stopped","cpus":1,"memoryMiB":128,"snapshots":{"merges":1,"snapshots":[{"id":"old","name":"old"}]}}' WHERE id = $1`, id, slow, name+".qcow2")
		return "/vms/" + string(id)
	}
	asked := s.addVM(project, s.host.id, "asked", fleet.Running)
	s.execSQL(`UPDATE vms SET status = status || '{"guest":{"agent":"answers"}}' WHERE id = $1`, asked)
	alarmRule := string(fleet.NewID[fleet.AlarmRuleID]())
	s.execSQL(`INSERT INTO alarm_rules (id, name, spec) VALUES ($1, 'mine', '{"severity":"info","condition":"vm.io"}')`, alarmRule)
	alarm := func(cause string) string {
		id := string(fleet.NewID[fleet.AlarmID]())
		s.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, cause, severity, text, plain, raised_at) VALUES ($1, $2, 'host:' || $3, 'h', $4, 'info', $4, $4, now())`, id, alarmRule, s.host.id, cause)
		return "/alarms/" + id
	}
	session := func(name string) string {
		id := string(fleet.NewID[fleet.PairID]())
		s.execSQL(`INSERT INTO console_sessions (id, subject, uuid, vm_id, project_id, vm_name, kind, user_id, user_name, session, address) VALUES ($1, $2, $3, $3, $4, 'web', 'vnc', 'ann', 'ann', 's', '')`, id, "vm:"+name, s.vm, project)
		return "/console-sessions/" + id
	}
	request := func(key string) string {
		id := string(fleet.NewID[fleet.AlarmID]())
		s.execSQL(`INSERT INTO requests (id, project_id, user_id, requested_by, kind, name, reason, wanted, key) VALUES ($1, $2, 'ann', 'ann', 'quota', '9 vCPUs', 'r', '{}', $3)`, id, project, key)
		return "/requests/" + id
	}
	channelID := string(fleet.NewID[fleet.AlarmID]())
	s.execSQL(`INSERT INTO channels (id, name, spec, target, signed) VALUES ($1, 'mine', '{"kind":"email","to":["a@example.org"]}', 'a@example.org', false)`, channelID)
	s.execSQL(`INSERT INTO host_bmcs (host_id, spec, by_key, sealed) VALUES ($1, '{"address":"https://10.0.8.11","user":"root","trust":"pin"}', 'k', '')`, s.host.id)
	s.execSQL(`UPDATE hosts SET has_bmc = true WHERE id = $1`, s.host.id)
	s.execSQL(`INSERT INTO health_policies (id, name, spec) VALUES ($1, 'mine', '{"expression":"true","severity":"info","actions":{"cordon":true}}')`, alarmRule)
	healthMatch := ""
	if err := s.pool.QueryRow(t.Context(), `INSERT INTO health_matches (policy_id, host_id, check_name, object, code, text, severity, actions, dry_run, momentary)
		VALUES ($1, $2, 'gpu', 'gpu/7', 'xid-79', 'XID 79.', 'critical', '{"cordon":true}', false, false) RETURNING id::text`, alarmRule, s.host.id).Scan(&healthMatch); err != nil {
		t.Fatal(err)
	}
	acknowledged, silenced, ofGroup := alarm("a"), alarm("b"), `{"ruleId":"`+alarmRule+`","cause":"`
	alarm("c")
	silence := func(hour string) string {
		return `"until":"` + time.Now().AddDate(0, 0, 7).UTC().Format("2006-01-02") + `T0` + hour + `:00:00Z"}`
	}
	recycled := s.addVM(project, s.host.id, "recycled", fleet.Stopped)
	s.execSQL(`UPDATE vms SET deleted_at = now(), recycled_at = now(), purge_at = now() + interval '7 days' WHERE id = $1`, recycled)
	expired, expiredToo := s.addVM(project, s.host.id, "expired", fleet.Stopped), s.addVM(project, s.host.id, "expired-too", fleet.Stopped)
	s.execSQL(`UPDATE vms SET expires_at = now(), expiry = 'over' WHERE id IN ($1, $2)`, expired, expiredToo)
	expired2 := s.addVM(project, s.host.id, "expired-2", fleet.Stopped)
	s.execSQL(`UPDATE vms SET expires_at = now(), expiry = 'over' WHERE id = $1`, expired2)
	until := func(day string) string { return `"expiresAt":"2040-01-` + day + `T00:00:00Z"}` }
	s.offerRelease("2.0.0", s.host.id)
	bodies := map[string]struct{ path, body, other string }{
		"/recycle-bin/{id}/restore":                    {"/recycle-bin/" + string(recycled) + "/restore", `{"name":"restored"}`, `{"name":"restored-2"}`},
		"/vms/{id}/renew":                              {"/vms/" + string(expired) + "/renew", `{` + until("01"), `{` + until("02")},
		"/vms/renew":                                   {"/vms/renew", `{"ids":["` + string(expiredToo) + `"],` + until("01"), `{"ids":["` + string(expiredToo) + `"],` + until("02")},
		"/channels":                                    {"/channels", `{"name":"ops","spec":{"kind":"email","to":["a@example.org"]}}`, `{"name":"ops-2","spec":{"kind":"email","to":["a@example.org"]}}`},
		"/flavors":                                     {"/flavors", `{"name":"small","cpus":1,"memoryMiB":256}`, `{"name":"small-2","cpus":1,"memoryMiB":256}`},
		"/device-classes":                              {"/device-classes", `{"name":"gpu","members":[]}`, `{"name":"gpu-2","members":[]}`},
		"/channels/{id}/test":                          {"/channels/" + channelID + "/test", ``, ``},
		"/alarm-rules":                                 {"/alarm-rules", `{"name":"io","spec":{"severity":"info","condition":"vm.io"}}`, `{"name":"io-2","spec":{"severity":"info","condition":"vm.io"}}`},
		"/policies":                                    {"/policies", `{"name":"gpus","spec":{"expression":"event.check == \"gpu\"","severity":"info","actions":{}}}`, `{"name":"gpus-2","spec":{"expression":"event.check == \"gpu\"","severity":"info","actions":{}}}`},
		"/policies/try":                                {"/policies/try", `{"expression":"true"}`, `{"expression":"false"}`},
		"/health-matches/{match}/release":              {"/health-matches/" + healthMatch + "/release", ``, ``},
		"/alarms/{id}/acknowledge":                     {acknowledged + "/acknowledge", `{"note":"mine"}`, `{"note":"yours"}`},
		"/alarms/{id}/silence":                         {silenced + "/silence", `{` + silence("1"), `{` + silence("2")},
		"/alarms/groups/acknowledge":                   {"/alarms/groups/acknowledge", ofGroup + `c","note":"mine"}`, ofGroup + `c","note":"yours"}`},
		"/alarms/groups/silence":                       {"/alarms/groups/silence", ofGroup + `c",` + silence("1"), ofGroup + `c",` + silence("2")},
		"/vms/{id}/guest":                              {"/vms/" + string(asked) + "/guest", `{"action":"trim"}`, `{"action":"clock"}`},
		"/vms/{id}/migrate":                            {sick["migrate"] + "/migrate", place(s.host.id), place(placed)},
		"/vms/migrate":                                 {"/vms/migrate", `{"ids":["` + string(s.vm) + `"]}`, `{"ids":["` + string(s.vm) + `"],"mode":"live"}`},
		"/vms/{id}/snapshots":                          {snapped("taken") + "/snapshots", `{"name":"before"}`, `{"name":"after"}`},
		"/vms/{id}/snapshots/{snapshot}/revert":        {snapped("reverted") + "/snapshots/old/revert", `{}`, `{"start":true}`},
		"/vms/{id}/snapshot-schedules":                 {snapped("scheduled") + "/snapshot-schedules", `{"name":"nightly","enabled":true,"times":{"at":"03:00"},"keep":{"last":1}}`, `{"name":"daily","enabled":true,"times":{"at":"03:00"},"keep":{"last":1}}`},
		"/vms/{id}/consolidate":                        {snapped("merged") + "/consolidate", ``, ``},
		"/vms/{id}/disks/grow":                         {growing + "/disks/grow", grow + `1048576}`, grow + `2097152}`},
		"/vms/{id}/disks/move":                         {vm + "/disks/move", disk + string(slow) + `"}`, disk + string(pool) + `"}`},
		"/vms/{id}/place":                              {sick["place"] + "/place", place(placed), place(s.host.id)},
		"/vms":                                         {"/vms", vmBody(project, "web-2"), vmBody(project, "web-3")},
		"/vms/bulk-create":                             {"/vms/bulk-create", strings.TrimSuffix(vmBody(project, "many-{n}"), "}") + `,"count":3}`, strings.TrimSuffix(vmBody(project, "many-{n}"), "}") + `,"count":4}`},
		"/customizations":                              {"/customizations", `{"name":"web-servers","firstBoot":{"kind":"cloud-init","cloudInit":{"hostname":"web"}}}`, `{"name":"other-servers","firstBoot":{"kind":"cloud-init","cloudInit":{"hostname":"web"}}}`},
		"/templates":                                   {"/templates", `{"name":"Web",` + ofPattern + `}`, `{"name":"Other",` + ofPattern + `}`},
		"/templates/{id}/versions":                     {"/templates/" + fresh + "/versions", `{` + ofPattern + `}`, `{` + ofPattern + `,"note":"other"}`},
		"/requests":                                    {"/requests", `{"projectId":"` + string(project) + `","kind":"pool","text":"fast","reason":"r"}`, `{"projectId":"` + string(project) + `","kind":"pool","text":"slow","reason":"r"}`},
		"/console-sessions/{id}/ask":                   {session("a") + "/ask", ``, ``},
		"/console-sessions/{id}/keyboard":              {session("b") + "/keyboard", ``, ``},
		"/requests/{id}/approve":                       {request("a") + "/approve", `{}`, `{"comment":"w"}`},
		"/requests/{id}/refuse":                        {request("b") + "/refuse", `{"comment":"no"}`, `{"comment":"never"}`},
		"/requests/{id}/withdraw":                      {request("c") + "/withdraw", ``, ``},
		"/templates/{id}/versions/{version}/deprecate": {"/templates/" + old + "/versions/" + old + "/deprecate", `{"deprecated":true}`, `{"deprecated":false}`},
		"/vms/{id}/actions":                            {vm + "/actions", `{"action":"reset"}`, `{"action":"stop"}`},
		"/vms/actions":                                 {"/vms/actions", `{"action":"pause","ids":["` + string(s.vm) + `"]}`, `{"action":"stop","ids":["` + string(s.vm) + `"]}`},
		"/vms/{id}/plan":                               {vm + "/plan", `{"labels":{"a":"b"}}`, `{"labels":{"a":"c"}}`},
		"/vms/edit":                                    {"/vms/edit", `{"ids":["` + string(s.vm) + `"],"edit":{"labels":{"a":"b"}}}`, `{"ids":["` + string(s.vm) + `"],"edit":{"labels":{"a":"c"}}}`},
		"/vms/plan":                                    {"/vms/plan", vmBody(project, "planned"), vmBody(project, "planned-2")},
		"/vms/{id}/console":                            {vm + "/console", ``, ``},
		"/vms/{id}/disks/detach":                       {sick["detach"] + "/disks/detach", sick["detach disk"] + `}`, sick["replace disk"] + `}`},
		"/vms/{id}/disks/replace":                      {sick["replace"] + "/disks/replace", sick["replace disk"] + `,"volume":"new.qcow2"}`, sick["replace disk"] + `,"volume":"x.qcow2"}`},
		"/vms/{id}/accept-drift":                       {sick["accept-drift"] + "/accept-drift", `{"fields":{"cpus":"3"}}`, `{"fields":{"cpus":"4"}}`},
		"/vms/{id}/ignore-drift":                       {sick["ignore-drift"] + "/ignore-drift", `{"fields":["cpus"]}`, `{"fields":["watchdog"]}`},
		"/vms/{id}/show-drift":                         {sick["show-drift"] + "/show-drift", `{"fields":["cpus"]}`, `{"fields":["watchdog"]}`},
		"/pools/{id}/hosts/{host}/reapply":             {editedPool + "/reapply", ``, ``},
		"/pools/{id}/hosts/{host}/ignore-drift":        {editedPool + "/ignore-drift", `{"fields":["path"]}`, `{"fields":["kind"]}`},
		"/pools/{id}/hosts/{host}/show-drift":          {editedPool + "/show-drift", `{"fields":["path"]}`, `{"fields":["kind"]}`},
		"/networks/{id}/hosts/{host}/reapply":          {editedNetwork + "/reapply", ``, ``},
		"/networks/{id}/hosts/{host}/accept-drift":     {editedNetwork + "/accept-drift", `{"fields":{"mtu":"9000"}}`, `{"fields":{"mtu":"1400"}}`},
		"/networks/{id}/hosts/{host}/ignore-drift":     {editedNetwork + "/ignore-drift", `{"fields":["mtu"]}`, `{"fields":["domain"]}`},
		"/networks/{id}/hosts/{host}/show-drift":       {editedNetwork + "/show-drift", `{"fields":["mtu"]}`, `{"fields":["domain"]}`},
		"/vms/{id}/reapply":                            {sick["reapply"] + "/reapply", ``, ``},
		"/agent-upgrades":                              {"/agent-upgrades", `{"version":"2.0.0","canary":["` + string(s.host.id) + `"]}`, `{"version":"3.0.0","canary":["` + string(s.host.id) + `"]}`},
		"/hosts/{id}/bmc/test":                         {"/hosts/" + string(s.host.id) + "/bmc/test", ``, ``},
		"/hosts/{id}/actions":                          {"/hosts/" + string(s.host.id) + "/actions", `{"action":"clear-conflict"}`, `{"action":"x"}`},
		"/hosts/{id}/discovered-vms/{vm}/actions":      {discovered + "/actions", `{"action":"pause"}`, `{"action":"reset"}`},
		"/hosts/{id}/discovered-vms/{vm}/console":      {discovered + "/console", ``, ``},
		"/hosts/{id}/diagnostics":                      {"/hosts/" + string(s.host.id) + "/diagnostics", `{"site":["raid"]}`, `{}`},
		"/hosts/{id}/agent-log":                        {"/hosts/" + string(s.host.id) + "/agent-log", ``, ``},
		"/hosts/{id}/health/resolve":                   {"/hosts/" + string(s.host.id) + "/health/resolve", `{"check":"gpu","object":"gpu/0","code":"xid-79"}`, `{"check":"gpu","object":"gpu/1","code":"xid-79"}`},
		"/hosts/{id}/discovered-pools/{name}/adopt":    {"/hosts/" + string(s.host.id) + "/discovered-pools/theirs/adopt", `{}`, `{"hostIds":["` + string(s.host.id) + `"]}`},
		"/hosts/{id}/discovered-networks/{name}/adopt": {"/hosts/" + string(s.host.id) + "/discovered-networks/theirs/adopt", `{}`, `{"hostIds":["` + string(s.host.id) + `"]}`},
		"/hosts/{id}/discovered-vms/{vm}/adopt":        {discovered + "/adopt", `{"projectId":"` + string(project) + `","name":"adopted"}`, `{"projectId":"` + string(project) + `","name":"other"}`},
		"/discovered-vms/adopt":                        {"/discovered-vms/adopt", `{"projectId":"` + string(project) + `","vms":[{"hostId":"` + string(s.host.id) + `","id":"` + string(foreign) + `"}]}`, `{"projectId":"` + string(project) + `","vms":[]}`},
		"/discovered-vms/actions":                      {"/discovered-vms/actions", `{"action":"pause","vms":[{"hostId":"` + string(s.host.id) + `","id":"` + string(foreign) + `"}]}`, `{"action":"reset","vms":[]}`},
		"/vms/release":                                 {"/vms/release", `{"ids":["` + string(s.vm) + `"]}`, `{"ids":[]}`},
		"/vms/{id}/release":                            {sick["release"] + "/release", ``, ``},
		"/clusters":                                    {"/clusters", `{"name":"rack-4"}`, `{"name":"rack-5"}`},
		"/pools":                                       {"/pools", `{"name":"slow","spec":{"kind":"dir","path":"/srv/slow"},"hostIds":["` + string(s.host.id) + `"]}`, `{"name":"other"}`},
		"/pools/{id}/credentials":                      {"/pools/" + string(san) + "/credentials", `{"secret":"secretsecret1"}`, `{"secret":"secretsecret2"}`},
		"/pools/{id}/hosts/{host}/retry":               {"/pools/" + string(pool) + "/hosts/" + string(s.host.id) + "/retry", ``, ``},
		"/pools/{id}/retry":                            {"/pools/" + string(sickPool) + "/retry", ``, ``},
		"/networks/{id}/retry":                         {"/networks/" + string(lan) + "/retry", ``, ``},
		"/networks":                                    {"/networks", `{"name":"quiet","spec":{"mode":"isolated","dns":false},"hostIds":["` + string(s.host.id) + `"]}`, `{"name":"other","spec":{"mode":"isolated","dns":true},"hostIds":[]}`},
		"/networks/{id}/hosts/{host}/retry":            {"/networks/" + string(lan) + "/hosts/" + string(s.host.id) + "/retry", ``, ``},
		"/security-groups":                             {"/security-groups", `{"projectId":"` + string(project) + `","name":"db"}`, `{"projectId":"` + string(project) + `","name":"app"}`},
		"/security-groups/{id}/retry":                  {"/security-groups/" + string(group) + "/retry", ``, ``},
		"/images":                                      {"/images", `{"name":"Golden","source":` + file("golden.raw") + `}`, `{"name":"Other","source":` + file("golden.raw") + `}`},
		"/image-catalog":                               {"/image-catalog", `{"name":"Ours","url":"https://example.org/ours.qcow2"}`, `{"name":"Theirs","url":"https://example.org/theirs.qcow2"}`},
		"/image-catalog/restore":                       {"/image-catalog/restore", ``, ``},
		"/image-catalog/{id}/pull":                     {"/image-catalog/00000000-0000-7000-8000-000000440001/pull", `{"poolId":"` + string(stock) + `"}`, `{"poolId":"` + string(pool) + `"}`},
		"/vms/{id}/disks/image":                        {"/vms/" + string(shot) + "/disks/image", shotDisk + `"Web"}`, shotDisk + `"Other"}`},
		"/images/{id}/versions":                        {versioned + "/versions", file("next.raw"), file("golden.raw")},
		"/images/{id}/copies":                          {versioned + "/copies", `{"versionId":"` + strings.TrimPrefix(versioned, "/images/") + `","poolId":"` + string(sickCopies) + `"}`, `{"poolId":"` + string(stock) + `"}`},
		"/images/{id}/copies/{pool}/{volume}/verify":   {verified + "/copies/" + string(stock) + "/third.raw/verify", ``, ``},
		"/images/{id}/copies/{pool}/{volume}/forget":   {forgotten + "/copies/" + string(stock) + "/second.raw/forget", ``, ``},
		"/projects":                                    {"/projects", `{"name":"shop-2"}`, `{"name":"shop-3"}`},
		"/users":                                       {"/users", `{"name":"cora"}`, `{"name":"dora"}`},
		"/tasks/{id}/cancel":                           {"/tasks/" + waiting.ID + "/cancel", ``, ``},
		"/tokens":                                      {"/tokens", `{"name":"backup"}`, `{"name":"other"}`},
		"/join-tokens":                                 {"/join-tokens", `{}`, `{"hostId":"` + string(s.host.id) + `"}`},
		"/pools/{id}/volumes":                          {volumes, `{"name":"new.raw","format":"raw","sizeBytes":1048576}`, `{"name":"other.raw","format":"raw","sizeBytes":1048576}`},
		"/pools/{id}/downloads":                        {strings.TrimSuffix(volumes, "volumes") + "downloads", `{"url":"https://example.org/a.qcow2"}`, `{"url":"https://example.org/b.qcow2"}`},
		"/pools/{id}/volumes/{volume}/rename":          {volumes + "/name-me.raw/rename", `{"name":"named.raw"}`, `{"name":"named-2.raw"}`},
		"/pools/{id}/volumes/{volume}/convert":         {volumes + "/convert-me.vhdx/convert", `{"name":"converted.qcow2"}`, `{"name":"converted-2.qcow2"}`},
		"/vms/{id}/exports":                            {"/vms/" + string(outgoing) + "/exports", `{"format":"ova"}`, `{"format":"qcow2"}`},
		"/pools/{id}/volumes/{volume}/clone":           {volumes + "/clone-me.raw/clone", `{"name":"copy.raw"}`, `{"name":"copy-2.raw"}`},
		"/pools/{id}/volumes/{volume}/grow":            {volumes + "/grow-me.raw/grow", `{"sizeBytes":2097152}`, `{"sizeBytes":4194304}`},
		"/pools/{id}/volumes/{volume}/wipe":            {volumes + "/wipe-me.raw/wipe?confirm=wipe-me.raw", ``, ``},
	}
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal([]byte(admin.get("/api/v1/openapi.json").body), &api); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range api.Paths {
		op, isPost := methods["post"]
		if !isPost {
			continue
		}
		tried++
		path = strings.TrimPrefix(path, "/api/v1")
		c, known := bodies[path]
		if len(op.Parameters) == 0 || !known {
			t.Errorf("POST %s: parameters %+v; in this test's table: %v", path, op.Parameters, known)
			continue
		}
		if path == "/hosts/{id}/actions" { // the action needs a conflict to clear
			s.execSQL("UPDATE host_sessions SET conflict = 'A copy of this host is at work.' WHERE host_id = $1", s.host.id)
		}
		before := s.countRows("audit")
		first := admin.call("POST", "/api/v1"+c.path, c.body, "Idempotency-Key", path)
		if first.status/100 != 2 {
			t.Errorf("POST %s: %d %s", path, first.status, first.body)
			continue
		}
		again := admin.call("POST", "/api/v1"+c.path, c.body, "Idempotency-Key", path)
		if again.status != first.status || again.body != first.body || again.header.Get("Location") != first.header.Get("Location") || again.header.Get("ETag") != first.header.Get("ETag") {
			t.Errorf("POST %s answers\n%d %s, and the second time\n%d %s", path, first.status, first.body, again.status, again.body)
		}
		want := 1
		if path == "/policies/try" { // a trial changes nothing
			want = 0
		}
		if n := s.countRows("audit") - before; n != want {
			t.Errorf("POST %s was done %d times", path, n)
		}
		if c.other != "" {
			admin.call("POST", "/api/v1"+c.path, c.other, "Idempotency-Key", path).requireProblem(t, http.StatusConflict, "")
		}
	}
	if tried != len(bodies) {
		t.Errorf("%d POSTs are tested, but this test's table has %d", tried, len(bodies))
	}
	// The path is part of the request: the same key with another path is refused.
	admin.call("POST", "/api/v1/vms/"+string(off)+"/actions", `{"action":"reset"}`, "Idempotency-Key", "/vms/{id}/actions").requireProblem(t, http.StatusConflict, "")
}
