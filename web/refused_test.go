package web_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
)

// requestValues holds the non-default values of a request by path, such as "spec.disks[0].bus".
type requestValues map[string]any

// refusal is a test case: a request that must be refused at a field with a message, without any write to the database.
type refusal struct {
	what string
	sent requestValues
	at   string // path of the field with the error; empty: the path of the only value
	says string

	operation caseOperation
	status    int // 0: 422
}

// withStatus returns a copy of the case that expects another status.
func (c refusal) withStatus(status int) refusal {
	c.status = status
	return c
}

// caseOperation is the operation of a case's request, and the user who sends it.
type caseOperation int

const (
	newAndEditedVM  caseOperation = iota // a new VM, and an edit of a stopped VM
	newVM                                // a new VM only
	editedVM                             // an edit only
	editedRunningVM                      // an edit of a running VM
	bulkCreate                           // a bulk create
	tenantCreate                         // a new VM, by a tenant
	tenantEdit                           // an edit, by a tenant
)

// refusalPortal is a portal with the objects to which the refused requests refer.
type refusalPortal struct {
	*portal
	admin, tenant        *apiClient
	host, other          fleet.HostID
	project              fleet.ProjectID
	stored, local, blind fleet.PoolID // the pool of the VMs, a local pool of the second host, a pool without a host
	off, on              fleet.VMID
	fresh                map[string]any // a valid VM, as a request body
	tables, last         string         // the query that detects writes, and the query's last result
}

func newRefusalPortal(t *testing.T) *refusalPortal {
	t.Helper()
	p := newPortal(t)
	r := &refusalPortal{portal: p, project: p.addProject("shop"), host: p.addHost("host-1", 0), other: p.addHost("host-2", 0)}
	p.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,vmFields}', $1::text::jsonb), '{inventory,hugePages}', '[{"sizeKiB":2048,"total":600,"free":600}]')`, mustJSON(fleet.OptionalFieldNames()))
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,devices}', '[{"device":"pci/0000:41:00.0","iommu":"7"},{"device":"usb/046d:c52b"},{"device":"pci/0000:42:00.0"},{"device":"blk/ata-A","busy":"mounted"}]') WHERE id = $1`, r.host)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmGaps}', $2::text::jsonb) WHERE id = $1`, r.host, mustJSON(fleet.NICLimitGaps("The kernel lacks sch_sfq.")))
	r.stored, r.local, r.blind = p.addPool("nfs", r.host, r.other), p.addPool("far", r.other), p.addPool("blind")
	p.addNetwork("default", r.host, r.other)
	p.addNetwork("elsewhere")
	disk := func(vm *fleet.VM) {
		vm.Spec.MemoryMiB, vm.Status.MemoryMiB = 1024, 1024
		vm.Spec.Disks = []fleet.Disk{{PoolID: r.stored, Volume: vm.Name + "-1.qcow2", SizeBytes: 2 << 30}}
	}
	r.off, r.on = p.addVM(r.project, r.host, "off", fleet.Stopped, disk), p.addVM(r.project, r.host, "on", fleet.Running, disk)
	r.admin = p.newAPIClient("ann", fleet.RoleAdmin, nil)
	r.tenant = p.newAPIClient("tom", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{r.project: fleet.RoleMember})
	r.fresh = map[string]any{
		"projectId": r.project, "name": "fresh", "labels": map[string]any{"env": "test"}, "description": "A VM", "spec": map[string]any{
			"cpus": 2, "memoryMiB": 1024, "firmware": "uefi", "disks": []any{map[string]any{"poolId": r.stored, "sizeBytes": 1 << 30}}, "nics": []any{map[string]any{"network": "default"}},
		},
	}
	r.admin.call("GET", "/api/v1/vms", "").requireStatus(t, http.StatusOK) // a token's first use writes to the database; do that before the comparison
	r.tenant.call("GET", "/api/v1/vms", "").requireStatus(t, http.StatusOK)
	rows, err := p.pool.Query(t.Context(), "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('tokens', 'sessions', 'browsers') ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var parts []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if name == "host_sessions" { // without the last-seen times, which the test kit keeps updating
			parts = append(parts, `SELECT 'host_sessions ' || md5(string_agg((to_jsonb(s) - '{seen_at,last_look,looked_at}'::text[])::text, '' ORDER BY host_id)) AS said FROM host_sessions s`)
			continue
		}
		parts = append(parts, fmt.Sprintf(`SELECT '%[1]s ' || count(*) || ' ' || COALESCE(max(xmin::text::bigint), 0) AS said FROM %[1]q`, name))
	}
	if len(parts) < 20 {
		t.Fatalf("%d tables", len(parts))
	}
	r.tables = "SELECT string_agg(said, E'\n' ORDER BY said) FROM (" + strings.Join(parts, " UNION ALL ") + ") all_of_them"
	return r
}

// tableChangeCounts returns, for each table, the number of rows and the last transaction that wrote a row.
func (r *refusalPortal) tableChangeCounts(t *testing.T) (out string) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), r.tables).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// expectNoWrites fails if anything was written since the last call.
func (r *refusalPortal) expectNoWrites(t *testing.T, what string) {
	t.Helper()
	now := r.tableChangeCounts(t)
	if r.last != "" && r.last != now {
		t.Errorf("%s has written to the database: %s", what, cmp.Diff(strings.Split(r.last, "\n"), strings.Split(now, "\n")))
	}
	r.last = now
}

// unchangedEdit returns the body of an edit that leaves the VM unchanged.
func (r *refusalPortal) unchangedEdit(t *testing.T, id fleet.VMID) map[string]any {
	t.Helper()
	a := r.admin.call("GET", "/api/v1/vms/"+string(id), "").requireStatus(t, http.StatusOK)
	var vm map[string]any
	if err := json.Unmarshal([]byte(a.body), &vm); err != nil {
		t.Fatal(err)
	}
	spec := vm["spec"].(map[string]any)
	spec["iso"] = nil // the response has null here; the key lets setJSONValue set fields of the ISO
	return map[string]any{"name": vm["name"], "labels": vm["labels"], "description": vm["description"], "spec": spec}
}

var pathElement = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*)(?:\[(\d+)\])?$`)

// setJSONValue sets the value at a path in a JSON object. It extends lists as needed, with empty objects.
func setJSONValue(t *testing.T, object map[string]any, path string, value any) {
	t.Helper()
	name, rest, more := strings.Cut(path, ".")
	m := pathElement.FindStringSubmatch(name)
	if m == nil {
		t.Fatalf("%q is not a valid path", path)
	}
	if m[2] == "" {
		if !more {
			object[name] = value
			return
		}
		below, _ := object[name].(map[string]any)
		if below == nil {
			below = map[string]any{}
		}
		object[name] = below
		setJSONValue(t, below, rest, value)
		return
	}
	all, _ := object[m[1]].([]any)
	i, _ := strconv.Atoi(m[2])
	for len(all) <= i {
		all = append(all, map[string]any{})
	}
	object[m[1]] = all
	if !more {
		all[i] = value
		return
	}
	setJSONValue(t, all[i].(map[string]any), rest, value)
}

// deepCopy returns a deep copy of a JSON object.
func deepCopy(t *testing.T, object map[string]any) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustJSON(object)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// maxErrorSize is the maximum size of an error response, so that errors do not echo large requests.
const maxErrorSize = 32 << 10

// expectRefusal sends body with the case's values. It fails unless the portal refuses the request as the case expects.
func (r *refusalPortal) expectRefusal(t *testing.T, c refusal, by *apiClient, method, path string, body map[string]any) {
	t.Helper()
	at := c.at
	body = deepCopy(t, body)
	for _, place := range slices.Sorted(maps.Keys(c.sent)) {
		if setJSONValue(t, body, place, c.sent[place]); at == "" {
			at = place
		}
	}
	a := by.call(method, path, mustJSON(body), "If-Match", "")
	r.expectNoWrites(t, c.what+": "+method+" "+path)
	var p problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %s %s: %d %.400s is not a problem response: %v", c.what, method, path, a.status, a.body, err)
		return
	}
	status := c.status
	if status == 0 {
		status = http.StatusUnprocessableEntity
	}
	found := at == "-" && len(p.Errors) == 0 && strings.Contains(p.Detail, c.says)
	for _, e := range p.Errors {
		found = found || e.Location == at && strings.Contains(e.Message, c.says)
	}
	if a.status != status || !found || c.says == "" {
		t.Errorf("%s: %s %s: %d, want %d with %q at %q: %.1200s", c.what, method, path, a.status, status, c.says, at, a.body)
	}
	if len(a.body) > maxErrorSize {
		t.Errorf("%s: %s %s: the error response has %d bytes", c.what, method, path, len(a.body))
	}
}

// runCase sends the case's request for each part of its operation. off and on are unchanged edits of a stopped and a
// running VM.
func (r *refusalPortal) runCase(t *testing.T, c refusal, off, on map[string]any) {
	t.Helper()
	const all, one = "/api/v1/vms", "/api/v1/vms/"
	switch c.operation {
	case newVM:
		r.expectRefusal(t, c, r.admin, "POST", all, r.fresh)
	case newAndEditedVM:
		r.expectRefusal(t, c, r.admin, "POST", all, r.fresh)
		r.expectRefusal(t, c, r.admin, "PATCH", one+string(r.off), off)
	case editedVM:
		r.expectRefusal(t, c, r.admin, "PATCH", one+string(r.off), off)
	case editedRunningVM:
		r.expectRefusal(t, c, r.admin, "PATCH", one+string(r.on), on)
	case bulkCreate:
		r.expectRefusal(t, c, r.admin, "POST", all+"/bulk-create", r.fresh)
	case tenantCreate:
		r.expectRefusal(t, c, r.tenant, "POST", all, r.fresh)
	case tenantEdit:
		r.expectRefusal(t, c, r.tenant, "PATCH", one+string(r.off), off)
	}
}

// minRefusalCases is the minimum number of cases, so that a missing table of generated cases is noticed.
const minRefusalCases = 250

func TestInvalidRequestsRefusedAtFieldWithoutWrites(t *testing.T) {
	t.Parallel()
	r := newRefusalPortal(t)
	off, on := r.unchangedEdit(t, r.off), r.unchangedEdit(t, r.on)
	r.expectNoWrites(t, "no request")
	cases := slices.Concat(r.fieldTableCases(t), r.nameCases(), r.hardwareCases(), r.deviceCases(), r.contradictionCases(), r.policyCases(), r.sourceCases(), r.firstBootCases(), r.tenantCases(t), r.editCases())
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.what] {
			t.Errorf("%s: two cases have this name", c.what)
		}
		seen[c.what] = true
		r.runCase(t, c, off, on)
	}
	if len(seen) < minRefusalCases {
		t.Errorf("%d cases, want at least %d", len(seen), minRefusalCases)
	}
	t.Logf("%d refusals", len(seen))

	// The same requests without a wrong value are accepted, so each refusal above was caused by its wrong value.
	r.admin.call("POST", "/api/v1/vms", mustJSON(r.fresh)).requireStatus(t, http.StatusCreated)
	setJSONValue(t, off, "spec.cpus", 4)
	r.admin.call("PATCH", "/api/v1/vms/"+string(r.off), mustJSON(off)).requireStatus(t, http.StatusOK)
}
