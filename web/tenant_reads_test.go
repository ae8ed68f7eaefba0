package web_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// readIDs are the values of the parameters in the paths of routes, by the segment before the parameter. Routes in
// measuredAddresses do not need them.
var readIDs = map[string][]string{
	"vms": {aVM}, "hosts": {aHost}, "pools": {aPool, aVisiblePool}, "networks": {aNet, aBridge}, "images": {anImage}, "templates": {aTemplate}, "tasks": {aTask},
	"projects": {aProject}, "security-groups": {aGroup}, "flavors": {aFlavor}, "device-classes": {aDeviceClass}, "alarms": {anAlarm}, "alarm-rules": {anAlarm}, "channels": {anAlarm}, "policies": {anAlarm}, "health-matches": {"1"},
	"plans": {aTask}, "clusters": {aCluster}, "users": {"me", "ann"}, "tokens": {aToken}, "customizations": {aSpec}, "snapshots": {aSnapshot},
	"snapshot-schedules": {aSchedule}, "schedules": {aSchedule}, "exports": {aTask}, "uploads": {aTask}, "discovered-vms": {"00000000-0000-7000-8000-000000009001"},
	"found": {"00000000-0000-7000-8000-000000009001"}, "well-known-images": {aCatalogEntry}, "volumes": {aVolume}, "menus": {aVM}, "host": {aHost}, "vm": {aVM},
	"port-groups": {"web"}, "deliveries": {"1"}, "consoles": {aTask}, "tests": {aTask}, "drift": {"cpus"}, "views": {"vms"}, "image-catalog": {aCatalogEntry}, "recycle-bin": {aRecycledVM}, "requests": {aRequest}, "console-sessions": {aSession}, "diagnostics": {anArtifact}, anArtifact: {"agent-log"},
}

const aVisiblePool = "00000000-0000-7000-8000-000000002001"

var pathParameter = regexp.MustCompile(`^(:\w+|\{\w+\})$`)

// addressesOf returns the addresses to request of a route; none: readIDs lacks a value.
func addressesOf(path string) (out []string) {
	if known, ok := measuredAddresses[path]; ok {
		for _, x := range known {
			out = append(out, x.at)
		}
		return out
	}
	out = []string{""}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		values := []string{segment}
		if pathParameter.MatchString(segment) {
			if values = nil; i > 0 {
				values = readIDs[segments[i-1]]
			}
		}
		var next []string
		for _, before := range out {
			for _, v := range values {
				next = append(next, before+"/"+v)
			}
		}
		out = next
	}
	return out
}

// No page, export or answer of the API reveals hosts, their paths, administrators' descriptions, or pools and networks
// that are not published, to a member or viewer of a project. The test reads all routes.
func TestTenantsReadNothingOfHostsAndUnpublishedObjects(t *testing.T) {
	t.Parallel()
	p := newLargePortal(t, 10)
	for _, sql := range []string{
		`UPDATE hosts SET name = 'qzx-' || name, spec = spec || '{"description":"secret words"}', status = status || '{"inventory":{"hostname":"qzx-name"}}'`,
		`UPDATE pools SET name = 'qzx-pool', spec = spec || '{"description":"secret words"}' WHERE id = '` + aPool + `'`,
		`UPDATE pools SET spec = spec || '{"description":"secret words"}'`,
		`DELETE FROM pool_grants WHERE pool_id = '` + aPool + `'`,
		`DELETE FROM network_grants`,
		`UPDATE networks SET spec = '{"mode":"nat","description":"secret words"}' WHERE id = '` + aNet + `'`,
		`INSERT INTO network_grants (network_id, project_id) VALUES ('` + aNet + `', '` + aProject + `')`,
		`UPDATE networks SET name = 'qzx-bridge' WHERE id = '` + aBridge + `'`,
		`UPDATE clusters SET spec = spec || '{"description":"secret words"}'`,
		`UPDATE vms SET project_id = '` + aProject + `', spec = spec || '{"disks":[{"poolId":"` + aPool + `","volume":"secretless.qcow2","sizeBytes":1073741824}]}',
			status = status || jsonb_build_object('errorOf', 'vm.start', 'error', (SELECT name FROM hosts h WHERE h.id = vms.host_id) || ': /srv/a.qcow2 failed') ||
				'{"disks":[{"target":"vda","path":"/srv/a.qcow2","volume":{"poolId":"` + aPool + `","volume":"secretless.qcow2"}}]}' WHERE id = '` + aVM + `'`,
		`UPDATE tasks SET error = 'qzx-host-001: /srv/secret.qcow2 failed' WHERE id = '` + aTask + `'`,
		`INSERT INTO project_quotas (project_id, limits, changed_by) VALUES ('` + aProject + `', '{"cpus":{"soft":1},"pools":{"` + aPool + `":{"hard":1}}}', 'ann')`,
	} {
		p.execSQL(sql)
	}
	p.raiseAlarms()
	routes := p.server.Reads()
	for _, role := range []fleet.Role{fleet.RoleMember, fleet.RoleViewer} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			answers := 0
			name := "tenant-" + string(role)
			reader := p.newAPIClient(name, fleet.RoleNone, map[fleet.ProjectID]fleet.Role{aProject: role})
			signedIn := p.newBrowser()
			signedIn.post("/sign-in", map[string][]string{"name": {name}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
			for _, route := range routes {
				addresses := addressesOf(route)
				if len(addresses) == 0 {
					t.Errorf("%s is not read: add the values of its parameters to readIDs", route)
				}
				for _, at := range addresses {
					answer := signedIn.get(at)
					if strings.HasPrefix(at, "/api/") {
						answer = reader.call("GET", at, "")
					}
					answers++
					if answer.status >= http.StatusInternalServerError {
						t.Errorf("%s: %d %s", at, answer.status, answer.body)
					}
					checkNoSecret(t, role, at, answer)
				}
			}
			if t.Logf("%d answers of %d routes", answers, len(routes)); answers < 200 {
				t.Errorf("only %d answers were read", answers)
			}
		})
	}
}

var hostIDs = regexp.MustCompile(`00000000-0000-7000-8000-0000000000(0[1-9]|10)\b`)

// checkNoSecret fails if the answer has one of the texts that tenants must not see. An address that the request itself
// named may occur in it.
func checkNoSecret(t *testing.T, role fleet.Role, at string, a answer) {
	t.Helper()
	body := a.body
	for _, id := range []string{aPool, aHost, aBridge} {
		if strings.Contains(at, id) && a.status >= http.StatusBadRequest {
			body = strings.ReplaceAll(body, id, "")
		}
	}
	if strings.Contains(at, "clusters") {
		body = strings.ReplaceAll(body, aCluster, "") // the first host has the same ID here
	}
	if strings.HasPrefix(at, "/help") {
		return // the manual is the same for everybody
	}
	found := hostIDs.FindAllString(body, 1)
	for _, secret := range []string{"qzx-", "secret words", "/srv/", aPool, aBridge} {
		if strings.Contains(body, secret) {
			found = append(found, secret)
		}
	}
	for _, secret := range slices.Compact(found) {
		i := strings.Index(body, secret)
		t.Errorf("%s %s (%d) reveals %q: …%s…", role, at, a.status, secret, body[max(0, i-150):min(len(body), i+len(secret)+80)])
	}
}
