package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/testkit/golden"
)

func TestCreatedVMHasLocationAndETag(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	a := admin.call("POST", "/api/v1/vms", vmBody(project, "web-01")).requireStatus(t, http.StatusCreated)
	var vm fleet.VMView
	if err := json.Unmarshal([]byte(a.body), &vm); err != nil {
		t.Fatal(err)
	}
	if got := a.header.Get("Location"); got != "/api/v1/vms/"+string(vm.ID) {
		t.Errorf("Location %q", got)
	}
	if a.header.Get("ETag") != `"1"` || a.header.Get("Cache-Control") != "no-store" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", a.header)
	}
	admin.call("GET", a.header.Get("Location"), "").requireStatus(t, http.StatusOK)

	pool := p.addPool("fast", host)
	full := p.addVM(project, host, "full", fleet.Running, func(vm *fleet.VM) {
		vm.Labels, vm.Description = map[string]string{"env": "prod"}, "Front end"
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "full-1.qcow2", SizeBytes: 8 << 30, Image: &fleet.Volref{PoolID: pool, Volume: "debian-12.qcow2"}}}
		vm.Spec.ISO = &fleet.Volref{PoolID: pool, Volume: "installer.iso"}
		vm.Status.Disks = []fleet.DiskState{{Target: "vda", Path: "/srv/fast/full-1.qcow2", SizeBytes: 8 << 30, AllocBytes: 1 << 30}}
		vm.Status.NextBoot, vm.Status.Error, vm.Status.ErrorOf, vm.Status.Reason = []string{"cpus"}, "It did not.", fleet.VMReboot, "booted"
	})
	got := admin.call("GET", "/api/v1/vms/"+string(full), "").requireStatus(t, http.StatusOK).body
	names := strings.NewReplacer(string(full), "VM", string(pool), "POOL", string(project), "PROJECT", string(host), "HOST", string(p.networkID("default")), "NETWORK")
	times := regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]+"`)
	golden.JSON(t, "testdata/vm.json", json.RawMessage(times.ReplaceAllString(names.Replace(got), `"TIME"`)))
}

// lossyTransport is a transport that loses the first response: the portal handles the request, but the client gets an
// error.
type lossyTransport struct{ lost bool }

func (l *lossyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && !l.lost {
		l.lost = true
		answer.Body.Close()
		return nil, errors.New("the portal was killed")
	}
	return answer, err
}

func TestIdempotencyKeyPreventsSecondVM(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project := p.addProject("shop")
	p.addHost("h1", 0)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	retrying, err := client.New(p.url, admin.token, &http.Client{Transport: &lossyTransport{}})
	if err != nil {
		t.Fatal(err)
	}
	in := client.NewVM{ProjectID: project, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 128, Firmware: fleet.BIOS}}
	if _, err := retrying.CreateVM(t.Context(), in, "order-17"); err == nil {
		t.Fatal("the first response was not lost")
	}
	vm, err := retrying.CreateVM(t.Context(), in, "order-17")
	if err != nil {
		t.Fatal(err)
	}
	again, err := admin.CreateVM(t.Context(), in, "order-17")
	if err != nil || again.ID != vm.ID {
		t.Errorf("first VM %s, then %s, %v", vm.ID, again.ID, err)
	}
	all, err := client.AllPages(t.Context(), fleet.Query{}, admin.VMs)
	if err != nil || len(all) != 1 {
		t.Errorf("%d VMs, %v", len(all), err)
	}
	in.Name = "other"
	if _, err := admin.CreateVM(t.Context(), in, "order-17"); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("the same key with another request: %v", err)
	}
}

func TestMergePatchUpdatesVM(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	pool := p.addPool("fast", host)
	id := p.addVM(project, host, "web", fleet.Stopped, func(vm *fleet.VM) {
		vm.Labels = map[string]string{"env": "prod", "tier": "front"}
		vm.Description = "Front end"
		vm.Spec.ISO = &fleet.Volref{PoolID: pool, Volume: "installer.iso"}
	})
	member := p.newAPIClient("mia", "", map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	path := "/api/v1/vms/" + string(id)
	patch := func(body string, header ...string) fleet.VMView {
		t.Helper()
		a := member.call("PATCH", path, body, header...).requireStatus(t, http.StatusOK)
		var vm fleet.VMView
		if err := json.Unmarshal([]byte(a.body), &vm); err != nil {
			t.Fatal(err)
		}
		if want := `"` + jsonOfNumber(vm.Generation) + `"`; a.header.Get("ETag") != want {
			t.Errorf("ETag %s, want %s", a.header.Get("ETag"), want)
		}
		return vm
	}
	vm := patch(`{}`)
	if vm.Generation != 1 {
		t.Errorf("an empty patch made generation %d", vm.Generation)
	}
	vm = patch(`{"labels":{"env":"test","tier":null,"owner":"mia"}}`, "Content-Type", "application/merge-patch+json")
	if want := map[string]string{"env": "test", "owner": "mia"}; !cmp.Equal(vm.Labels, want) {
		t.Errorf("labels %v", vm.Labels)
	}
	vm = patch(`{"description":null,"spec":{"cpus":4}}`, "If-Match", `"2"`)
	if vm.Description != "" || vm.Spec.CPUs != 4 || vm.Spec.MemoryMiB != 4096 || vm.Spec.ISO == nil || vm.Generation != 3 {
		t.Errorf("got %+v", vm)
	}
	vm = patch(`{"spec":{"iso":null},"labels":null}`, "If-Match", "3")
	if vm.Spec.ISO != nil || len(vm.Labels) != 0 {
		t.Errorf("got %+v", vm)
	}
	vm = patch(`{"spec":{"iso":{"poolId":"` + string(pool) + `","volume":"installer.iso"}}}`)
	if vm.Spec.ISO == nil || vm.Spec.ISO.Volume != "installer.iso" {
		t.Errorf("got %+v", vm.Spec.ISO)
	}
	member.call("PATCH", path, `{"spec":{"iso":{"volume":null}}}`).requireProblem(t, 422, "spec.iso.volume")
	if _, task, err := member.UpdateVM(t.Context(), id, client.Patch{"name": "shop-web"}, vm.Generation); err != nil || task == "" {
		t.Errorf("task %q, %v", task, err)
	}
	if _, _, err := member.UpdateVM(t.Context(), id, client.Patch{"name": "late"}, vm.Generation); client.StatusOf(err) != http.StatusConflict {
		t.Errorf("a patch of an old generation: %v", err)
	}
}

func jsonOfNumber(n int64) string { text, _ := json.Marshal(n); return string(text) }

func TestAPIActionReturnsTask(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	id := p.addVM(project, host, "web", fleet.Stopped)
	member := p.newAPIClient("mia", "", map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	a := member.call("POST", "/api/v1/vms/"+string(id)+"/actions", `{"action":"start"}`).requireStatus(t, http.StatusAccepted)
	var task fleet.Task
	if err := json.Unmarshal([]byte(a.body), &task); err != nil || task.Kind != fleet.VMStart || task.State != fleet.JobQueued {
		t.Fatalf("%+v, %v", task, err)
	}
	if got, err := member.Task(t.Context(), task.ID); err != nil || got.SubjectName != "web" {
		t.Errorf("%+v, %v", got, err)
	}
	if tasks, err := member.Tasks(t.Context(), fleet.Query{Filter: "target:web"}); err != nil || len(tasks.Items) != 1 {
		t.Errorf("%+v, %v", tasks, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := member.WaitTask(short, task.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait for a task without a host ended with: %v", err)
	}
	if cancelled, err := member.CancelTask(t.Context(), task.ID); err != nil || cancelled.State != fleet.JobCancelled {
		t.Errorf("%+v, %v", cancelled, err)
	}
	if _, err := member.WaitTask(t.Context(), task.ID); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("the wait for a cancelled task reports no failure: %v", err)
	}
	a = member.call("DELETE", "/api/v1/vms/"+string(id)+"?disks=true&confirm=web", "").requireStatus(t, http.StatusAccepted)
	if err := json.Unmarshal([]byte(a.body), &task); err != nil || task.Kind != fleet.VMDelete {
		t.Errorf("%+v, %v", task, err)
	}
	if vm, err := member.VM(t.Context(), id); err != nil || vm.Phase != fleet.PhaseDeleting {
		t.Errorf("%+v, %v", vm, err)
	}
}
