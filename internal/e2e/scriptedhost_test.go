//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"quantix/agent"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// scriptedHost is a host without an agent: the test itself sends the agent's messages, so that it can report any state.
type scriptedHost struct {
	*testing.T
	client *wire.Client
	id     fleet.HostID
	seq    int64
	state  wire.State
}

func (p *portal) newScriptedHost(name string) *scriptedHost {
	p.t.Helper()
	dir := filepath.Join(root, p.name+"-"+name)
	token := requestJSON[fleet.JoinToken](p.t, p.api(), http.StatusCreated, http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	_, err := agent.Join(p.t.Context(), agent.JoinOptions{Portal: p.agentURL, Token: token.Secret, Name: name, DataDir: dir})
	if err != nil {
		p.t.Fatal(err)
	}
	identity, err := agent.OpenIdentity(dir)
	if err != nil {
		p.t.Fatal(err)
	}
	client, err := identity.Client(p.agentURL)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { client.Close(); identity.Close() })
	h := &scriptedHost{T: p.t, client: client, id: p.api().hostByName(p.t, name).ID}
	hello, err := client.Hello(p.t.Context(), wire.Hello{Instance: name, Fingerprint: name})
	if err != nil {
		p.t.Fatal(err)
	}
	h.seq = hello.SeqBase
	h.state.Host = fleet.HostStatus{Connected: true, Hypervisor: "libvirt 9.0.0, QEMU 7.2.22", Inventory: fleet.Inventory{
		MemoryBytes: 64 << 30, CPU: fleet.CPU{Threads: 16}, Firmwares: []fleet.Firmware{fleet.BIOS, fleet.UEFI}, Accelerators: []string{"kvm"},
	}}
	h.sendFullReport()
	return h
}

func (h *scriptedHost) nextSeq() int64 { h.seq++; return h.seq }

// sendFullReport sends a full report with a new digest.
func (h *scriptedHost) sendFullReport() {
	h.Helper()
	seq := h.nextSeq()
	if _, err := h.client.Report(h.Context(), wire.Report{Seq: seq, Digest: time.Now().String(), State: &h.state}); err != nil && h.Context().Err() == nil { // the error does not matter once the test has ended
		h.Fatal(err)
	}
}

// finishNextJob claims the next job and reports the given result without executing the job.
func (h *scriptedHost) finishNextJob(result func(wire.Work) wire.Finish) {
	h.Helper()
	claim, err := h.client.Claim(h.Context(), wire.ClaimRequest{Max: 1})
	if err != nil || len(claim.Jobs) != 1 {
		h.Fatalf("claimed %+v, %v", claim, err)
	}
	w := claim.Jobs[0]
	out := result(w)
	out.Epoch, out.Generation, out.Seq = w.Epoch, w.Generation, h.nextSeq()
	if _, err := h.client.Finish(h.Context(), w.ID, out); err != nil {
		h.Fatal(err)
	}
}

// keepReporting makes the hosts report until the test ends.
func keepReporting(t *testing.T, hosts ...*scriptedHost) {
	t.Helper()
	ended := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		for tick := time.NewTicker(wire.ReportPeriod / 2); ; {
			for _, h := range hosts {
				h.sendFullReport()
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// captureTroubledVM captures a VM with a missing disk and drift, and a job that waits for a retry.
func captureTroubledVM(t *testing.T) {
	t.Parallel()
	s := newPortal(t, uniqueName("trouble"))
	a := s.api()
	h := s.newScriptedHost("host-7")
	image := fleet.Volume{Name: "debian-12.qcow2", Format: "qcow2", CapacityBytes: 4 << 30, AllocBytes: 640 << 20}
	pool := requestJSON[fleet.Pool](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "fast", "spec": map[string]any{"kind": "dir", "path": "/srv/fast"}, "hostIds": []any{h.id},
	})
	status := fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 40, AvailableBytes: 1 << 40, MountPath: "/srv/fast", Volumes: []fleet.Volume{image}}
	h.finishNextJob(func(wire.Work) wire.Finish { return wire.Finish{Outcome: wire.Done, Pool: &status} })
	h.state.Pools = []wire.PoolReport{{Name: "fast", Status: status}}
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "shop"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "web-01", "projectId": project.ID, "hostId": h.id,
		"spec": map[string]any{"cpus": 2, "memoryMiB": 4096, "disks": []any{
			map[string]any{"poolId": pool.ID, "sizeBytes": 20 << 30, "image": map[string]any{"poolId": pool.ID, "volume": image.Name}},
		}},
	})
	disk := vm.Spec.Disks[0].Ref()
	gone := fleet.VMStatus{
		Power: fleet.Stopped, CPUs: 3, MemoryMiB: 4096, Domain: "web-01_shop", Disks: []fleet.DiskState{{Target: "vda", Path: "/srv/fast/" + disk.Volume}},
		Faults: []fleet.Fault{{
			Code: fleet.FaultDisk, Disk: &disk,
			Text: "Disk 1 (pool fast, volume " + disk.Volume + ") is not on host-7: the disk's file is missing. Restore the file, detach the disk, or give the VM a new disk.",
		}},
		Drift: []fleet.Drift{
			{Field: "cpus", Applied: "2 vCPUs", Actual: "3 vCPUs", Take: json.RawMessage("3")},
			{Field: "watchdog", Applied: "none", Actual: "i6300esb, action reset"},
		},
	}
	h.finishNextJob(func(wire.Work) wire.Finish { return wire.Finish{Outcome: wire.Done, VM: &gone} })
	h.state.VMs = []wire.VMReport{{ID: vm.ID, Name: vm.Name, Generation: 1, Status: gone}}
	other := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "db-01", "projectId": project.ID, "hostId": h.id, "spec": map[string]any{"cpus": 2, "memoryMiB": 4096},
	})
	const away = "libvirt did not answer: cannot connect to '/run/libvirt/libvirt-sock': Connection refused."
	h.finishNextJob(func(wire.Work) wire.Finish { return wire.Finish{Outcome: wire.Failed, Retry: true, Error: away} })

	keepReporting(t, h)
	p := newTab(t, s.url)
	p.open("/sign-in")
	p.enterCredentials("admin", s.password)
	p.waitPath("/")
	query := "?disk=" + string(disk.PoolID) + "/" + disk.Volume
	for _, shot := range []pageShot{
		{"vm-trouble", "/vms/" + string(vm.ID), func(p *tab) { p.waitText("main .note", "Disk 1") }},
		{"vm-trouble-detach", "/vms/" + string(vm.ID), func(p *tab) { p.click(".note .btn", "Detach"); p.waitText("#dialog", "No data is deleted") }},
		{"vm-trouble-replace", "/vms/" + string(vm.ID), func(p *tab) {
			p.click(".note .btn", "New disk")
			p.waitText("#dialog", "A new disk without data replaces")
		}},
		{"vm-trouble-detach-page", "/vms/" + string(vm.ID) + "/disks/detach" + query, nil},
		{"vm-trouble-replace-page", "/vms/" + string(vm.ID) + "/disks/replace" + query, nil},
		{"vm-waits", "/vms/" + string(other.ID), func(p *tab) { p.waitText("main .note", "libvirt did not answer") }},
		{"tasks-waiting", "/tasks", nil},
		{"vms-trouble", "/vms?tab=attention", nil},
		{"dashboard-trouble", "/", nil},
	} {
		p.captureShot(shot)
	}
}
