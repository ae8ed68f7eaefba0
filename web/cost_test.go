package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
	"quantix/internal/testkit"
)

// largePortal is a portal with a given number of hosts, each with three shared pools and two networks. The number of
// VMs is always 1,000.
type largePortal struct {
	*portal
	listener *queryRecorder
	*browser
}

func newLargePortal(t *testing.T, hosts int) *largePortal {
	t.Helper()
	url := testkit.DatabaseURL(t)
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	l := &queryRecorder{}
	cfg.ConnConfig.Tracer = l
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testkit.Seed(t, pool, hosts, 1000)
	p := newPortalOn(t, pool)
	c := &largePortal{portal: p, listener: l}
	for _, sql := range []string{
		`INSERT INTO pools (id, name, spec) VALUES ('00000000-0000-7000-8000-000000002003', 'nfs', '{"kind":"nfs","path":"/srv/nfs","server":"nas","export":"/vm","shared":true}')`,
		`INSERT INTO networks (id, name, kind) VALUES ('00000000-0000-7000-8000-000000003001', 'br0', 'bridge')`,
		`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
			SELECT 'pool', '00000000-0000-7000-8000-000000002003', host_id, asked, CASE WHEN host_id LIKE '%7' THEN '{"state":"failed","error":"no route"}' ELSE status END, 1, now()
			FROM assignments WHERE object_id = '00000000-0000-7000-8000-000000002001'`,
		`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', '00000000-0000-7000-8000-000000003001', id, '{"active":true}' FROM hosts`,
		`INSERT INTO networks (id, name, kind) VALUES ('00000000-0000-7000-8000-000000003009', 'theirs', 'libvirt')`,
		`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', '00000000-0000-7000-8000-000000003009', id, '{"active":true,"definition":{"spec":{"mode":"isolated"}}}' FROM hosts`,
		`UPDATE hosts SET status = status || '{"discoveredPools":[{"name":"theirs","kind":"dir","spec":{"kind":"dir","path":"/srv/theirs"}}]}'`,
		`INSERT INTO pool_grants (pool_id, granted_by) SELECT id, 'ann' FROM pools ON CONFLICT DO NOTHING`,
		`INSERT INTO images (id, name, created_by) VALUES ('` + anImage + `', 'Debian 12', 'ann')`,
		`INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by) SELECT '` + anImage + `', '` + anImage + `', 1, v->>'format', (v->>'capacityBytes')::bigint, 'ann'
			FROM assignments a, jsonb_array_elements(a.status->'volumes') v WHERE v->>'name' = 'debian.qcow2' LIMIT 1`,
		`INSERT INTO image_copies (version_id, pool_id, volume, added_by) VALUES ('` + anImage + `', '` + aPool + `', 'debian.qcow2', 'ann')`,
		`INSERT INTO image_grants (image_id, granted_by) VALUES ('` + anImage + `', 'ann')`,
		`INSERT INTO templates (id, project_id, name, created_by) VALUES ('` + aTemplate + `', '` + aProject + `', 'Web', 'ann')`,
		`INSERT INTO template_versions (id, template_id, number, spec, created_by) VALUES ('` + aTemplate + `', '` + aTemplate + `', 1,
			'{"cpus":1,"memoryMiB":128,"firmware":"bios","nics":[],"disks":[{"poolId":"` + aPool + `","volume":"","sizeBytes":0,"imageId":"` + anImage + `","versionId":"` + anImage + `"}]}', 'ann')`,
		`INSERT INTO found_vms (host_id, id, name, status) VALUES ('00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000009001', 'strange', '{"power":"running"}')`,
	} {
		p.execSQL(sql)
	}
	c.browser = p.newSignedInBrowser("ann", fleet.RoleAdmin)
	p.execSQL(`INSERT INTO customizations (id, name, description, kind, variables, by_key, sealed, changed_by) VALUES ($1, 'web', '', 'cloud-init', '{}', 'x', 'x', 'ann')`, aSpec)
	p.execSQL(`INSERT INTO customization_grants (customization_id, granted_by) VALUES ($1, 'ann')`, aSpec)
	p.execSQL(`INSERT INTO flavors (id, name, cpus, memory_mib) SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid()::text END, 'flavor-' || n, n, n * 1024 FROM generate_series(1, 200) n`, aFlavor)
	p.execSQL(`INSERT INTO device_classes (id, name) SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid()::text END, 'class-' || n FROM generate_series(1, 100) n`, aDeviceClass)
	p.execSQL(`INSERT INTO device_class_grants (class_id, granted_by) SELECT id, 'ann' FROM device_classes`)
	p.execSQL(`INSERT INTO device_class_members (class_id, host_id, device) SELECT $1, id, 'pci/0000:41:00.0' FROM hosts ORDER BY id LIMIT 100`, aDeviceClass)
	p.execSQL(`INSERT INTO requests (id, project_id, requested_by, kind, name, reason, wanted, key)
		SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid()::text END, $2, 'tom', 'pool', 'Pool ' || n, 'r', '{}', n::text FROM generate_series(1, 200) n`, aRequest, aProject)
	p.execSQL(`INSERT INTO console_sessions (id, subject, uuid, vm_id, project_id, vm_name, kind, user_id, user_name, session, address, opened_at, ended_at)
		SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid()::text END, 'vm:' || $2, $2, $2, $3, 'vm-000001', 'vnc', 'ann', 'ann', 's', '192.0.2.1', now() - n * interval '1 minute', CASE WHEN n > 3 THEN now() END
		FROM generate_series(1, 300) n`, aSession, aVM, aProject)
	p.execSQL(`INSERT INTO flavor_grants (flavor_id, granted_by) SELECT id, 'ann' FROM flavors`)
	p.execSQL(`INSERT INTO security_groups (id, name, spec) VALUES ($1, 'web', '{"rules":[]}')`, aGroup)
	p.execSQL(`INSERT INTO alarm_rules (id, name, spec) VALUES ($1, 'lost', '{"severity":"critical","condition":"host.lost"}')`, anAlarm)
	p.execSQL(`INSERT INTO alarms (id, rule_id, subject, subject_name, cause, severity, text, plain, raised_at)
		SELECT CASE WHEN h.id = $2 THEN $1 ELSE gen_random_uuid()::text END, $1, 'host:' || h.id, h.name, 'Its agent is offline.', 'critical', 'Its agent is offline.', 'Its agent is offline.', now() FROM hosts h`, anAlarm, aHost)
	p.execSQL(`INSERT INTO health_policies (id, name, spec) SELECT CASE WHEN n = 1 THEN $1 ELSE gen_random_uuid()::text END, 'policy-' || n, '{"expression":"true","severity":"info","actions":{"cordon":true}}' FROM generate_series(1, 100) n`, anAlarm)
	p.execSQL(`INSERT INTO health_matches (policy_id, host_id, check_name, object, code, text, severity, actions, dry_run, momentary) SELECT $1, id, 'gpu', 'gpu/0', 'xid-79', 'XID 79.', 'critical', '{"cordon":true}', false, false FROM hosts`, anAlarm)
	p.execSQL(`INSERT INTO channels (id, name, spec, target, signed) VALUES ($1, 'ops', '{"kind":"email","to":["ops@example.org"]}', 'ops@example.org', false)`, anAlarm)
	p.execSQL(`INSERT INTO deliveries (id, channel_id, message, summary, events, state, due_at, ended_at) SELECT n, $1, '{}', 'Host lost', 1, 'sent', now(), now() FROM generate_series(1, 100) n`, anAlarm)
	p.execSQL(`INSERT INTO snapshot_schedules (id, vm_id, spec, created_by) VALUES ($1, $2, '{"name":"nightly","enabled":true,"times":{"at":"03:00"},"keep":{"last":1}}', 'ann')`, aSchedule, aVM)
	p.execSQL(`UPDATE vms SET status = status || jsonb_build_object('snapshots', jsonb_build_object('snapshots', jsonb_build_array(jsonb_build_object('id', $2::text, 'name', 'old')))) WHERE id = $1`, aVM, aSnapshot)
	p.execSQL(`UPDATE vms SET deleted_at = now(), recycled_at = now(), recycled_by = 'ann', purge_at = now() + interval '7 days' WHERE id = $1`, aRecycledVM)
	p.execSQL(`INSERT INTO tokens (id, user_id, name, hash) VALUES ($1, 'ann', 'ci', '')`, aToken)
	p.execSQL(`INSERT INTO vm_plans (id, user_id, project_id, host_id, vm_id, vm, asked, drawing) VALUES ($1, 'ann', $2, $3, $4, '{"name":"vm-000001"}', '{}', '{"lines":[]}')`, aTask, aProject, aHost, aVM)
	testkit.TaskWithJob{ID: aTask, Host: aHost, Project: aProject, Kind: fleet.VMStart, Subject: fleet.SubjectVM(aVM), Name: "vm-000001", State: fleet.JobDone}.Add(t, pool)
	p.execSQL(`INSERT INTO host_artifacts (id, host_id, kind, job_id, task_id, created_by, size, summary, archive)
		SELECT CASE WHEN h.id = $2 AND k = 'diagnostics' THEN $1 ELSE gen_random_uuid()::text END, h.id, k, gen_random_uuid()::text, $3, 'ann', $4, $5, $6 FROM hosts h, unnest(ARRAY['diagnostics', 'agent-log']) k`,
		anArtifact, aHost, aTask, len(anArchive), `{"items":[{"name":"agent-log","title":"Agent log","status":"ok","seconds":1,"bytes":10}]}`, anArchive)
	p.execSQL(`VACUUM ANALYZE`)
	return c
}

func (c *largePortal) measure(path string, header ...string) queryCost {
	c.portal.t.Helper()
	c.get(path, header...) // fills caches, so that the measured request finds them filled
	c.listener.takeQueries()
	a := c.get(path, header...)
	if a.status >= http.StatusInternalServerError {
		c.portal.t.Fatalf("%s: %d %s", path, a.status, a.pageContent())
	}
	out := explainCost(c.portal.t.(*testing.T), c.pool, c.listener.takeQueries())
	out.bytes = len(a.body)
	return out
}

// anArchive is an archive with a log of one line.
var anArchive = func() []byte {
	text := "time=2026-01-02T03:04:05.006Z level=WARN msg=\"a line of qzx-host\" path=/srv/secret words\n"
	archive, err := hostcommand.WriteArchive([]hostcommand.Item{{Name: hostcommand.LogItem, Title: "Agent log", Status: hostcommand.ItemOK}}, []string{text}, time.Now())
	if err != nil {
		panic(err)
	}
	return archive
}()

// IDs of objects that exist in every large portal.
const (
	aHost         = "00000000-0000-7000-8000-000000000001"
	aVM           = "00000000-0000-7000-8000-000001000001"
	aRecycledVM   = "00000000-0000-7000-8000-000001000999"
	anArtifact    = "00000000-0000-7000-8000-00000000b101"
	aSnapshot     = "00000000-0000-7000-8000-00000000a001"
	anAlarm       = "00000000-0000-7000-8000-00000000a003"
	aSchedule     = "00000000-0000-7000-8000-00000000a002"
	aPool         = "00000000-0000-7000-8000-000000002003" // failed on some hosts
	aSpec         = "00000000-0000-7000-8000-000000007001"
	aFlavor       = "00000000-0000-7000-8000-00000000a004"
	aDeviceClass  = "00000000-0000-7000-8000-00000000a016"
	aSession      = "00000000-0000-7000-8000-00000000a017"
	aRequest      = "00000000-0000-7000-8000-00000000a006"
	aGroup        = "00000000-0000-7000-8000-000000006001"
	aMAC          = "52:54:00:00:00:01"
	aNet          = "00000000-0000-7000-8000-000000003000"
	aBridge       = "00000000-0000-7000-8000-000000003001"
	aCluster      = string(fleet.DefaultClusterID)
	aProject      = "00000000-0000-7000-8000-000000001001"
	aTask         = "00000000-0000-7000-8000-000000005001"
	aVolume       = "debian.qcow2" // of each pool
	aCatalogEntry = "00000000-0000-7000-8000-000000440001"
	anImage       = "00000000-0000-7000-8000-000000007001"
	aTemplate     = "00000000-0000-7000-8000-000000007002"
	aToken        = "00000000-0000-7000-8000-000000005002"
)

// measuredAddresses maps the route of each page to the addresses that the test requests. sums is the number of rows per
// host that PostgreSQL aggregates for the page. all marks pages that show all hosts: their cost may grow with the
// number of hosts.
var measuredAddresses = map[string][]struct {
	at   string
	sums int
	all  bool
}{
	"/sign-in":                                   {{at: "/sign-in?again=1"}},
	"/account/password":                          {{at: "/account/password"}},
	"/account":                                   {{at: "/account"}},
	"/account/tokens":                            {{at: "/account/tokens"}},
	"/account/tokens/:id/delete":                 {{at: "/account/tokens/" + aToken + "/delete"}},
	"/":                                          {{at: "/", sums: 5}}, // three pools, and the hosts twice
	"/search":                                    {{at: "/search?q=host-00", sums: 1}, {at: "/search?q=nfs", sums: 1}},
	"/search/suggest":                            {{at: "/search/suggest?q=host-00", sums: 1}},
	"/complete":                                  {{at: "/complete?noun=vms&q=host:h"}, {at: "/complete?noun=pools&q=health:"}},
	"/choices/:noun":                             {{at: "/choices/hosts?q=host-00", sums: 1}, {at: "/choices/pools", sums: 4}, {at: "/choices/images", sums: 3}, {at: "/choices/isos", sums: 3}, {at: "/choices/networks", sums: 2}, {at: "/choices/projects"}},
	"/tree/:view":                                {{at: "/tree/hosts"}, {at: "/tree/vms"}, {at: "/tree/storage"}, {at: "/tree/networks", sums: 2}},
	"/tree/:view/:node":                          {{at: "/tree/hosts/host:" + aHost}, {at: "/tree/storage/storage:shared", sums: 3}, {at: "/tree/vms/project:" + aProject}},
	"/views/:list":                               {{at: "/views/vms"}},
	"/vms":                                       {{at: "/vms"}, {at: "/vms?columns=state,cpu1h,memory1h"}},
	"/vms/bulk/:id":                              {{at: "/vms/bulk/" + aTask}},
	"/vms/new":                                   {{at: "/vms/new", sums: 8}, {at: "/vms/new?template=" + aTemplate, sums: 10}, {at: "/vms/new?clone=" + aVM, sums: 8}, {at: "/vms/new?clone=" + aVM + "&snapshot=" + aSnapshot, sums: 8}},
	"/vms/:id":                                   {{at: "/vms/" + aVM}, {at: "/vms/" + aVM + "?tab=monitor"}, {at: "/vms/" + aVM + "?tab=events"}, {at: "/vms/" + aVM + "?tab=configure", sums: 5}},
	"/plans/:id":                                 {{at: "/plans/" + aTask}},
	"/vms/edit":                                  {{at: "/vms/edit?id=" + aVM}},
	"/vms/import":                                {{at: "/vms/import", sums: 4}},
	"/vms/:id/export":                            {{at: "/vms/" + aVM + "/export"}},
	"/vms/compare":                               {{at: "/vms/compare?id=" + aVM + "&with=" + aVM, sums: 2}, {at: "/vms/compare?id=" + aVM + "&template=" + aTemplate, sums: 4}, {at: "/vms/compare?template=" + aTemplate, sums: 2}},
	"/vms/:id/delete":                            {{at: "/vms/" + aVM + "/delete"}},
	"/vms/:id/snapshots/take":                    {{at: "/vms/" + aVM + "/snapshots/take"}, {at: "/vms/" + aVM + "?tab=snapshots"}},
	"/vms/:id/snapshots/:snapshot/revert":        {{at: "/vms/" + aVM + "/snapshots/" + aSnapshot + "/revert"}},
	"/vms/:id/snapshots/:snapshot/delete":        {{at: "/vms/" + aVM + "/snapshots/" + aSnapshot + "/delete"}},
	"/vms/:id/schedules/new":                     {{at: "/vms/" + aVM + "/schedules/new"}},
	"/vms/:id/schedules/:schedule":               {{at: "/vms/" + aVM + "/schedules/" + aSchedule}},
	"/vms/:id/schedules/:schedule/delete":        {{at: "/vms/" + aVM + "/schedules/" + aSchedule + "/delete"}},
	"/vms/:id/guest/freeze":                      {{at: "/vms/" + aVM + "/guest/freeze"}},
	"/vms/:id/guest/guestpassword":               {{at: "/vms/" + aVM + "/guest/guestpassword"}},
	"/vms/:id/guest/exec":                        {{at: "/vms/" + aVM + "/guest/exec"}},
	"/vms/:id/protection":                        {{at: "/vms/" + aVM + "/protection"}},
	"/vms/:id/renew":                             {{at: "/vms/" + aVM + "/renew"}},
	"/recycle-bin":                               {{at: "/recycle-bin"}},
	"/recycle-bin/settings":                      {{at: "/recycle-bin/settings"}},
	"/recycle-bin/:id":                           {{at: "/recycle-bin/" + aRecycledVM}},
	"/recycle-bin/:id/restore":                   {{at: "/recycle-bin/" + aRecycledVM + "/restore"}},
	"/recycle-bin/:id/purge":                     {{at: "/recycle-bin/" + aRecycledVM + "/purge"}},
	"/menus/recycled/:id":                        {{at: "/menus/recycled/" + aRecycledVM}},
	"/projects/:id/recycle-bin":                  {{at: "/projects/" + aProject + "/recycle-bin", sums: 1}},
	"/vms/:id/disks/detach":                      {{at: "/vms/" + aVM + "/disks/detach?disk=0"}},
	"/vms/:id/disks/image":                       {{at: "/vms/" + aVM + "/disks/image?disk=0"}},
	"/vms/:id/template":                          {{at: "/vms/" + aVM + "/template", sums: 3}},
	"/templates":                                 {{at: "/templates", sums: 2}},
	"/templates/:id":                             {{at: "/templates/" + aTemplate, sums: 2}, {at: "/templates/" + aTemplate + "?tab=grants", sums: 2}},
	"/templates/:id/edit":                        {{at: "/templates/" + aTemplate + "/edit", sums: 2}},
	"/templates/:id/delete":                      {{at: "/templates/" + aTemplate + "/delete", sums: 2}},
	"/templates/:id/versions/delete":             {{at: "/templates/" + aTemplate + "/versions/delete?version=" + aTemplate, sums: 2}},
	"/menus/template/:id":                        {{at: "/menus/template/" + aTemplate, sums: 2}},
	"/vms/:id/migrate":                           {{at: "/vms/" + aVM + "/migrate"}},
	"/vms/:id/disks/grow":                        {{at: "/vms/" + aVM + "/disks/grow?disk=0"}},
	"/vms/:id/disks/move":                        {{at: "/vms/" + aVM + "/disks/move?disk=0"}},
	"/vms/:id/disks/replace":                     {{at: "/vms/" + aVM + "/disks/replace?disk=0"}},
	"/vms/:id/console":                           {{at: "/vms/" + aVM + "/console"}},
	"/vms/:id/metrics":                           {{at: "/vms/" + aVM + "/metrics"}},
	"/menus/vm/:id":                              {{at: "/menus/vm/" + aVM}},
	"/hosts/:host/found/:id":                     {{at: "/hosts/" + aHost + "/found/00000000-0000-7000-8000-000000009001"}},
	"/hosts/:host/found/:id/console":             {{at: "/hosts/" + aHost + "/found/00000000-0000-7000-8000-000000009001/console"}},
	"/hosts":                                     {{at: "/hosts", sums: 1}, {at: "/hosts?columns=state,cpu1h,memory1h", sums: 1}, {at: "/hosts?tab=attention", sums: 7}},
	"/hosts/upgrade":                             {{at: "/hosts/upgrade"}},
	"/hosts/join":                                {{at: "/hosts/join"}},
	"/hosts/:id":                                 {{at: "/hosts/" + aHost}, {at: "/hosts/" + aHost + "?tab=monitor"}, {at: "/hosts/" + aHost + "?tab=health"}, {at: "/hosts/" + aHost + "?tab=vms"}, {at: "/hosts/" + aHost + "?tab=hardware"}, {at: "/hosts/" + aHost + "?tab=storage"}, {at: "/hosts/" + aHost + "?tab=networks"}, {at: "/hosts/" + aHost + "?tab=topology"}, {at: "/hosts/" + aHost + "?tab=configure"}, {at: "/hosts/" + aHost + "?tab=tasks"}, {at: "/hosts/" + aHost + "?tab=diagnostics"}, {at: "/hosts/" + aHost + "?tab=agent-log"}},
	"/hosts/:id/restart-agent":                   {{at: "/hosts/" + aHost + "/restart-agent"}},
	"/hosts/:id/diagnostics":                     {{at: "/hosts/" + aHost + "/diagnostics"}},
	"/hosts/:id/diagnostics/:artifact/:item":     {{at: "/hosts/" + aHost + "/diagnostics/" + anArtifact + "/agent-log"}},
	"/hosts/monitor":                             {{at: "/hosts/monitor", sums: 1}},
	"/hosts/metrics":                             {{at: "/hosts/metrics"}, {at: "/hosts/metrics?range=1y"}},
	"/clusters/:id/metrics":                      {{at: "/clusters/" + aCluster + "/metrics", sums: 2}},
	"/hosts/:id/metrics":                         {{at: "/hosts/" + aHost + "/metrics"}},
	"/hosts/:id/delete":                          {{at: "/hosts/" + aHost + "/delete"}},
	"/hosts/:id/maintenance":                     {{at: "/hosts/" + aHost + "/maintenance", all: true}},
	"/hosts/:id/leave-maintenance":               {{at: "/hosts/" + aHost + "/leave-maintenance"}},
	"/hosts/:id/reboot":                          {{at: "/hosts/" + aHost + "/reboot"}},
	"/hosts/:id/shutdown":                        {{at: "/hosts/" + aHost + "/shutdown"}},
	"/hosts/:id/bmc":                             {{at: "/hosts/" + aHost + "/bmc"}},
	"/hosts/:id/power-on":                        {{at: "/hosts/" + aHost + "/power-on"}},
	"/hosts/:id/power-off":                       {{at: "/hosts/" + aHost + "/power-off"}},
	"/hosts/:id/reset":                           {{at: "/hosts/" + aHost + "/reset"}},
	"/hosts/:id/terminate":                       {{at: "/hosts/" + aHost + "/terminate", all: true}},
	"/menus/host/:id":                            {{at: "/menus/host/" + aHost}},
	"/alarms":                                    {{at: "/alarms", sums: 3}, {at: "/alarms?tab=all", sums: 1}},
	"/alarms/acknowledge":                        {{at: "/alarms/acknowledge?id=" + anAlarm}},
	"/alarms/silence":                            {{at: "/alarms/silence?id=" + anAlarm}},
	"/alarms/:id":                                {{at: "/alarms/" + anAlarm}},
	"/channels":                                  {{at: "/channels"}},
	"/channels/new":                              {{at: "/channels/new", sums: 1}},
	"/channels/:id":                              {{at: "/channels/" + anAlarm, sums: 1}},
	"/channels/:id/delete":                       {{at: "/channels/" + anAlarm + "/delete"}},
	"/alarm-rules":                               {{at: "/alarm-rules", sums: 1}},
	"/alarm-rules/new":                           {{at: "/alarm-rules/new", sums: 1}},
	"/alarm-rules/:id":                           {{at: "/alarm-rules/" + anAlarm, sums: 1}},
	"/alarm-rules/:id/delete":                    {{at: "/alarm-rules/" + anAlarm + "/delete", sums: 1}},
	"/clusters":                                  {{at: "/clusters", sums: 1}},
	"/clusters/new":                              {{at: "/clusters/new", sums: 1}},
	"/clusters/:id":                              {{at: "/clusters/" + aCluster, sums: 3}, {at: "/clusters/" + aCluster + "?tab=monitor", sums: 2}, {at: "/clusters/" + aCluster + "?tab=hosts", sums: 4}, {at: "/clusters/" + aCluster + "?tab=vms", sums: 3}, {at: "/clusters/" + aCluster + "?tab=configure", sums: 2}},
	"/clusters/:id/hosts":                        {{at: "/clusters/" + aCluster + "/hosts", sums: 2}},
	"/clusters/:id/delete":                       {{at: "/clusters/" + aCluster + "/delete", sums: 1}},
	"/menus/cluster/:id":                         {{at: "/menus/cluster/" + aCluster, sums: 1}},
	"/pools":                                     {{at: "/pools", sums: 3}},
	"/pools/matrix":                              {{at: "/pools/matrix", sums: 3}},
	"/pools/new":                                 {{at: "/pools/new", all: true}},
	"/pools/:id/metrics":                         {{at: "/pools/" + aPool + "/metrics", sums: 4}},
	"/pools/:id":                                 {{at: "/pools/" + aPool, sums: 4}, {at: "/pools/" + aPool + "?filter=health:bad", sums: 5}, {at: "/pools/" + aPool + "?tab=monitor", sums: 4}, {at: "/pools/" + aPool + "?tab=vms", sums: 4}, {at: "/pools/" + aPool + "?tab=grants", sums: 4}, {at: "/pools/" + aPool + "?tab=configure", sums: 4}, {at: "/pools/" + aPool + "?tab=tasks", sums: 4}, {at: "/pools/" + aPool + "?tab=volumes", all: true}},
	"/pools/:id/assign":                          {{at: "/pools/" + aPool + "/assign", all: true}},
	"/pools/:id/hosts/:host/release":             {{at: "/pools/" + aPool + "/hosts/" + aHost + "/release", sums: 4}},
	"/pools/:id/labels":                          {{at: "/pools/" + aPool + "/labels", sums: 4}, {at: "/pools/" + aPool + "/labels?selector=rack", sums: 4}},
	"/vms/:id/first-boot":                        {{at: "/vms/" + aVM + "/first-boot"}},
	"/policies":                                  {{at: "/policies", sums: 2}},
	"/policies/new":                              {{at: "/policies/new"}},
	"/policies/settings":                         {{at: "/policies/settings"}},
	"/policies/:id":                              {{at: "/policies/" + anAlarm, sums: 2}},
	"/policies/:id/delete":                       {{at: "/policies/" + anAlarm + "/delete", sums: 2}},
	"/console-sessions":                          {{at: "/console-sessions"}, {at: "/console-sessions?filter=open:yes"}, {at: "/console-sessions?project=" + aProject}},
	"/menus/console/:id":                         {{at: "/menus/console/" + aSession}},
	"/requests":                                  {{at: "/requests"}, {at: "/requests?filter=state:open"}},
	"/requests/new":                              {{at: "/requests/new?project=" + aProject}},
	"/requests/:id":                              {{at: "/requests/" + aRequest}},
	"/requests/:id/decide":                       {{at: "/requests/" + aRequest + "/decide", sums: 6}},
	"/flavors":                                   {{at: "/flavors"}},
	"/flavors/new":                               {{at: "/flavors/new"}},
	"/flavors/:id":                               {{at: "/flavors/" + aFlavor}},
	"/flavors/:id/delete":                        {{at: "/flavors/" + aFlavor + "/delete"}},
	"/device-classes":                            {{at: "/device-classes"}},
	"/device-classes/new":                        {{at: "/device-classes/new"}},
	"/device-classes/:id":                        {{at: "/device-classes/" + aDeviceClass, all: true}},
	"/device-classes/:id/devices":                {{at: "/device-classes/" + aDeviceClass + "/devices", all: true}},
	"/device-classes/:id/delete":                 {{at: "/device-classes/" + aDeviceClass + "/delete", all: true}},
	"/projects/:id/rules":                        {{at: "/projects/" + aProject + "/rules"}},
	"/customizations":                            {{at: "/customizations"}},
	"/customizations/new":                        {{at: "/customizations/new"}},
	"/customizations/:id":                        {{at: "/customizations/" + aSpec}},
	"/customizations/:id/delete":                 {{at: "/customizations/" + aSpec + "/delete"}},
	"/security-groups":                           {{at: "/security-groups"}},
	"/security-groups/test":                      {{at: "/security-groups/test"}},
	"/security-groups/new":                       {{at: "/security-groups/new"}},
	"/security-groups/:id":                       {{at: "/security-groups/" + aGroup}, {at: "/security-groups/" + aGroup + "?tab=nics"}, {at: "/security-groups/" + aGroup + "?tab=hosts"}},
	"/security-groups/:id/edit":                  {{at: "/security-groups/" + aGroup + "/edit"}},
	"/security-groups/:id/delete":                {{at: "/security-groups/" + aGroup + "/delete"}},
	"/vms/:id/filters":                           {{at: "/vms/" + aVM + "/filters?mac=" + aMAC}},
	"/networks/:id/labels":                       {{at: "/networks/" + aNet + "/labels", sums: 3}},
	"/hosts/labelled":                            {{at: "/hosts/labelled?of=pool:" + aPool + "&selector=rack=4"}},
	"/pools/:id/credentials":                     {{at: "/pools/" + aPool + "/credentials", sums: 4}},
	"/pools/:id/delete":                          {{at: "/pools/" + aPool + "/delete", sums: 4}},
	"/menus/pool/:id":                            {{at: "/menus/pool/" + aPool, sums: 4}},
	"/networks/topology":                         {{at: "/networks/topology", sums: 2}},
	"/networks":                                  {{at: "/networks", sums: 2}},
	"/networks/:id":                              {{at: "/networks/" + aNet, sums: 3}, {at: "/networks/" + aNet + "?filter=name:host-00*", sums: 3}, {at: "/networks/" + aNet + "?tab=vms", sums: 1}, {at: "/networks/" + aNet + "?tab=topology", sums: 3}, {at: "/networks/" + aBridge + "?tab=grants", sums: 2}},
	"/networks/:id/port-groups":                  {{at: "/networks/" + aNet + "/port-groups", sums: 3}},
	"/networks/:id/reservations":                 {{at: "/networks/" + aNet + "/reservations", sums: 3}},
	"/networks/new":                              {{at: "/networks/new", all: true}},
	"/networks/:id/assign":                       {{at: "/networks/" + aNet + "/assign", all: true}},
	"/networks/:id/hosts/:host/release":          {{at: "/networks/" + aNet + "/hosts/" + aHost + "/release", sums: 3}},
	"/networks/:id/delete":                       {{at: "/networks/" + aNet + "/delete", sums: 3}},
	"/menus/network/:id":                         {{at: "/menus/network/" + aNet, sums: 3}},
	"/images":                                    {{at: "/images", sums: 2}},
	"/images/new":                                {{at: "/images/new", all: true}},
	"/images/well-known":                         {{at: "/images/well-known", sums: 4, all: true}},
	"/images/well-known/new":                     {{at: "/images/well-known/new"}},
	"/images/well-known/:id/edit":                {{at: "/images/well-known/" + aCatalogEntry + "/edit", sums: 2}},
	"/images/well-known/:id/delete":              {{at: "/images/well-known/" + aCatalogEntry + "/delete", sums: 2}},
	"/images/:id":                                {{at: "/images/" + anImage, sums: 2}, {at: "/images/" + anImage + "?tab=grants", sums: 2}},
	"/images/:id/versions/new":                   {{at: "/images/" + anImage + "/versions/new", all: true}},
	"/images/:id/copies/new":                     {{at: "/images/" + anImage + "/copies/new", all: true}},
	"/images/:id/copies/delete":                  {{at: "/images/" + anImage + "/copies/delete?pool=" + aPool + "&volume=" + aVolume, all: true}},
	"/images/:id/edit":                           {{at: "/images/" + anImage + "/edit", all: true}},
	"/images/:id/delete":                         {{at: "/images/" + anImage + "/delete", all: true}},
	"/menus/image/:id":                           {{at: "/menus/image/" + anImage, sums: 2}},
	"/help":                                      {{at: "/help"}, {at: "/help?q=host"}},
	"/help/:chapter":                             {{at: "/help/storage"}},
	"/projects":                                  {{at: "/projects"}},
	"/projects/switch":                           {{at: "/projects/switch"}},
	"/projects/new":                              {{at: "/projects/new", sums: 6}},
	"/projects/:id":                              {{at: "/projects/" + aProject}},
	"/projects/:id/edit":                         {{at: "/projects/" + aProject + "/edit", sums: 6}},
	"/projects.csv":                              {{at: "/projects.csv"}},
	"/projects/:id/usage":                        {{at: "/projects/" + aProject + "/usage"}},
	"/projects/:id/quota":                        {{at: "/projects/" + aProject + "/quota", sums: 6}},
	"/projects/:id/delete":                       {{at: "/projects/" + aProject + "/delete"}},
	"/users":                                     {{at: "/users"}},
	"/users/new":                                 {{at: "/users/new"}},
	"/users/:id":                                 {{at: "/users/ann"}},
	"/users/:id/password":                        {{at: "/users/ann/password"}},
	"/users/:id/delete":                          {{at: "/users/ann/delete"}},
	"/tasks":                                     {{at: "/tasks"}},
	"/tasks/recent":                              {{at: "/tasks/recent"}},
	"/tasks/running":                             {{at: "/tasks/running"}},
	"/tasks/:id":                                 {{at: "/tasks/" + aTask}},
	"/pools/:id/volumes/new":                     {{at: "/pools/" + aPool + "/volumes/new", all: true}},
	"/pools/:id/volumes/upload":                  {{at: "/pools/" + aPool + "/volumes/upload", all: true}},
	"/pools/:id/volumes/fetch":                   {{at: "/pools/" + aPool + "/volumes/fetch?start=debian-12.qcow2", all: true}},
	"/pools/:id/volumes/grow":                    {{at: "/pools/" + aPool + "/volumes/grow?volume=" + aVolume, all: true}},
	"/pools/:id/volumes/rename":                  {{at: "/pools/" + aPool + "/volumes/rename?volume=" + aVolume, all: true}},
	"/pools/:id/volumes/convert":                 {{at: "/pools/" + aPool + "/volumes/convert?volume=" + aVolume, all: true}},
	"/pools/:id/volumes/clone":                   {{at: "/pools/" + aPool + "/volumes/clone?volume=" + aVolume, all: true}},
	"/pools/:id/volumes/wipe":                    {{at: "/pools/" + aPool + "/volumes/wipe?volume=" + aVolume, all: true}},
	"/pools/:id/volumes/delete":                  {{at: "/pools/" + aPool + "/volumes/delete?volume=" + aVolume, all: true}},
	"/hosts/:id/discovered-pools/:name/adopt":    {{at: "/hosts/" + aHost + "/discovered-pools/theirs/adopt", all: true}},
	"/hosts/:id/discovered-networks/:name/adopt": {{at: "/hosts/" + aHost + "/discovered-networks/theirs/adopt", all: true}},
	"/hosts/:host/found/:id/adopt":               {{at: "/hosts/" + aHost + "/found/00000000-0000-7000-8000-000000009001/adopt"}},
	"/menus/found/:host/:id":                     {{at: "/menus/found/" + aHost + "/00000000-0000-7000-8000-000000009001"}},
	"/vms/:id/release":                           {{at: "/vms/" + aVM + "/release"}},
}

// The number of queries of a page is constant, and the queries return only the rows shown on the page and in its tree.
// Scanned rows and read blocks may also grow with the rows that PostgreSQL aggregates.
func TestPageQueriesScaleWithShownRows(t *testing.T) {
	t.Parallel()
	const most = 1000
	few, many := newLargePortal(t, 10), newLargePortal(t, most)
	for _, path := range few.server.Pages() {
		if len(measuredAddresses[path]) == 0 {
			t.Errorf("%s is not measured: add its address", path)
		}
	}
	for _, looks := range measuredAddresses {
		for _, x := range looks {
			f, m := few.measure(x.at), many.measure(x.at)
			// the number of statements differs if a cache became stale between the two requests, so try again
			for tries := 0; f.statements != m.statements && tries < 3; tries++ {
				f, m = few.measure(x.at), many.measure(x.at)
			}
			t.Logf("%-60s at 10 and 1,000 hosts: statements %d %d, rows %d %d, visited %d %d, blocks %d %d, bytes %d %d",
				x.at, f.statements, m.statements, f.rows, m.rows, f.scannedRows, m.scannedRows, f.blocks, m.blocks, f.bytes, m.bytes)
			if x.all {
				continue
			}
			if m.statements != f.statements {
				t.Errorf("%s: %d statements, and %d at 1,000 hosts", x.at, f.statements, m.statements)
			}
			for what, n := range map[string]struct{ few, many, grows int }{
				"rows":    {f.rows, m.rows, 2 * rowsReadPerPage},
				"visits":  {f.scannedRows, m.scannedRows, 6*rowsReadPerPage + 7*x.sums*most},
				"blocks":  {f.blocks, m.blocks, 9*rowsReadPerPage + x.sums*most/2},
				"letters": {f.bytes, m.bytes, 2 * rowsReadPerPage * 1024},
			} {
				if n.many > n.few+n.grows {
					t.Errorf("%s: %d %s, and %d at 1,000 hosts, most in %.160s", x.at, n.few, what, n.many, strings.Join(strings.Fields(m.worst), " "))
				}
			}
		}
	}
}

const rowsReadPerPage = 101 // rows of a list read for one page
