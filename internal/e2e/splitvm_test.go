//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// captureSplitVM captures a VM that two hosts run, and the page after a user has decided which host keeps the VM.
func captureSplitVM(t *testing.T) {
	t.Parallel()
	s := newPortal(t, uniqueName("split"))
	a := s.api()
	own, other := s.newScriptedHost("host-7"), s.newScriptedHost("host-12")
	pool := requestJSON[fleet.Pool](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "shared", "spec": map[string]any{"kind": "nfs", "path": "/mnt/shared", "server": "nas-1", "export": "/vm", "shared": true}, "hostIds": []any{own.id, other.id},
	})
	status := fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 40, AvailableBytes: 1 << 40, MountPath: "/mnt/shared"}
	for _, h := range []*scriptedHost{own, other} {
		h.finishNextJob(func(wire.Work) wire.Finish { return wire.Finish{Outcome: wire.Done, Pool: &status} })
		h.state.Pools = []wire.PoolReport{{ID: pool.ID, Name: pool.Name, Status: status}}
	}
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "shop"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "web-01", "projectId": project.ID, "hostId": own.id,
		"spec": map[string]any{"cpus": 2, "memoryMiB": 4096, "disks": []any{
			map[string]any{"poolId": pool.ID, "sizeBytes": 20 << 30}, map[string]any{"poolId": pool.ID, "sizeBytes": 200 << 30},
		}},
	})
	runs := fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 4096, Accelerator: "kvm"}
	for i, d := range vm.Spec.Disks {
		runs.Disks = append(runs.Disks, fleet.DiskState{Target: "vd" + string(rune('a'+i)), Path: "/mnt/shared/" + d.Volume})
	}
	var mark string
	own.finishNextJob(func(w wire.Work) wire.Finish {
		mark = w.Mark
		return wire.Finish{Outcome: wire.Done, VM: &runs}
	})
	for _, h := range []*scriptedHost{own, other} {
		h.state.VMs = []wire.VMReport{{ID: vm.ID, Name: vm.Name, Generation: 1, Status: runs, Proof: wire.OwnershipProof(vm.ID, mark)}}
	}
	keepReporting(t, own, other)
	p := newTab(t, s.url)
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	page := "/vms/" + string(vm.ID)
	p.open(page)
	p.waitText("main .note", "host-7 and host-12 both run the VM")
	for _, shot := range []pageShot{
		{"vm-two-places", page, nil},
		{"vm-two-places-menu", page, func(p *tab) { p.withMenu(".head summary", "Actions", "No action is possible") }},
		{"vms-two-places", "/vms?tab=attention", nil},
		{"dashboard-two-places", "/", nil},
	} {
		p.captureShot(shot)
	}
	p.open(page)
	p.markDocument()
	p.click("#place-"+string(other.id)+" button", "Keep on host-12")
	p.click("dialog[open] button.danger", "Keep on host-12")
	p.waitText(".head", "host-12")
	p.waitText("main", "not this VM, by a user's decision")
	p.checkNotReloaded()
	p.capture("vm-place-decided")
	p.captureShot(pageShot{"vm-held-delete", page, func(p *tab) {
		p.pickMenuItem(".head summary", "Actions", "Delete")
		p.waitText("#dialog", "host-7 reports a guest with this UUID")
	}})
	p.captureShot(pageShot{"vm-held-delete-page", page + "/delete", nil})
}
