//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/bin"
	"quantix/internal/channel"
	"quantix/internal/flavor"
	"quantix/internal/fleet"
)

// adoptVM adopts a discovered VM of the host into the project and returns its ID.
func (a api) adoptVM(t *testing.T, host fleet.HostView, name, project string) string {
	t.Helper()
	list := "/api/v1/hosts/" + string(host.ID) + "/discovered-vms"
	for _, vm := range listFirstPage[fleet.DiscoveredVM](t, a, list) {
		if vm.Name == name {
			got := requestJSON[struct{ Task fleet.Task }](t, a, http.StatusAccepted, http.MethodPost, list+"/"+string(vm.ID)+"/adopt", map[string]string{"projectId": project})
			a.waitTask(t, got.Task, fleet.JobDone)
			return string(vm.ID)
		}
	}
	t.Fatalf("the host has no discovered VM %s", name)
	return ""
}

// waitCharts waits for the charts of an object, one of them with the title.
func waitCharts(title string) func(*tab) {
	return func(p *tab) { p.waitText(".chart-grid", title) }
}

// createFlavors creates flavors: published to the project, to all projects, and to nobody.
func createFlavors(t *testing.T, a api, project string) (ids []string) {
	t.Helper()
	for _, f := range []struct {
		name, description, grant string
		cpus, memoryMiB          int
		diskBytes                int64
	}{{"small", "for services with little load", project, 1, 1024, 0}, {"medium", "", "all", 2, 4096, 40 << 30}, {"large", "for databases; ask before you use it", "", 16, 65536, 200 << 30}} {
		v := requestJSON[flavor.Flavor](t, a, http.StatusCreated, http.MethodPost, "/api/v1/flavors",
			map[string]any{"name": f.name, "description": f.description, "cpus": f.cpus, "memoryMiB": f.memoryMiB, "diskBytes": f.diskBytes})
		if f.grant != "" {
			requestJSON[any](t, a, http.StatusNoContent, http.MethodPut, "/api/v1/flavors/"+string(v.ID)+"/grants/"+f.grant, nil)
		}
		ids = append(ids, string(v.ID))
	}
	return ids
}

// createChannels creates channels whose receivers cannot be reached, the first one with a failed test message.
func createChannels(t *testing.T, a api) (ids []string) {
	t.Helper()
	for _, c := range []map[string]any{
		{"name": "ops", "spec": map[string]any{"kind": "webhook", "url": "http://127.0.0.1:1/alarms", "secret": "a-key-of-20-characters"}},
		{"name": "chat", "spec": map[string]any{"kind": "slack", "url": "https://hooks.invalid/services/T0/B0", "severity": "warning", "quiet": map[string]any{"from": "22:00", "to": "07:00", "timeZone": "Europe/Berlin"}, "criticalAtOnce": true}},
		{"name": "mine", "personal": true, "spec": map[string]any{"kind": "teams", "url": "https://teams.invalid/workflows/1", "digestMinutes": 60, "disabled": true}},
	} {
		id := string(requestJSON[channel.Channel](t, a, http.StatusCreated, http.MethodPost, "/api/v1/channels", c).ID)
		ids = append(ids, id)
	}
	requestJSON[channel.Delivery](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/channels/"+ids[0]+"/test", nil)
	return ids
}

// recycledVM returns the path of a VM in the recycle bin. It creates and deletes two VMs if the bin is empty.
func recycledVM(t *testing.T, a api) string {
	t.Helper()
	items := listFirstPage[bin.Item](t, a, "/api/v1/recycle-bin")
	if len(items) > 0 {
		return "/recycle-bin/" + string(items[0].ID)
	}
	like := listFirstPage[fleet.VMView](t, a, "/api/v1/vms")[0]
	for _, name := range []string{"old-shop", "old-shop-db"} {
		vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"projectId": like.ProjectID, "name": name, "spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{}, "nics": []any{}},
		})
		page := "/api/v1/vms/" + string(vm.ID)
		eventually(t, stepLimit, "the creation of "+name, func() (bool, string) {
			got := requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodGet, page, nil)
			return got.Phase == fleet.PhaseStopped, string(got.Phase)
		})
		a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, page+"?disks=true", nil), fleet.JobDone)
	}
	return recycledVM(t, a)
}

// anyVMPath returns the path of a VM with disks.
func anyVMPath(t *testing.T, a api) string {
	t.Helper()
	for _, vm := range listFirstPage[fleet.VMView](t, a, "/api/v1/vms") {
		if len(vm.Spec.Disks) > 0 && !vm.HasGuest() {
			return "/vms/" + string(vm.ID)
		}
	}
	t.Fatal("no VM has disks and is off")
	return ""
}
