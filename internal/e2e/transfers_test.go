//go:build linux && ordeal

package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestImagesCopiedAndVMsMigratedBetweenHosts copies an image and migrates a stopped VM with UEFI and a TPM from one real host
// to another, migrates the VM back, and compares the bytes. Then the hosts can no longer reach each other, and another image is
// copied through the portal.
func TestImagesCopiedAndVMsMigratedBetweenHosts(t *testing.T) {
	t.Parallel()
	s := newSwitchedLab(t, "between")
	dir := "/var/lib/libvirt/images/" + uniqueName("between")
	pool := requestJSON[fleet.PoolView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": filepath.Base(dir), "hostIds": []fleet.HostID{s.hosts[0].ID, s.hosts[1].ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	at := func(i int, name string) string {
		return filepath.Join(fmt.Sprintf("/proc/%d/root", s.agentPID(t, i)), dir, name)
	}
	sum := func(i int, name string) [32]byte {
		t.Helper()
		text, err := os.ReadFile(at(i, name))
		if err != nil || len(text) == 0 {
			t.Fatal(err)
		}
		return sha256.Sum256(text)
	}
	done := func(task fleet.Task) fleet.Task {
		t.Helper()
		var now fleet.Task
		eventually(t, guestLimit, task.Title()+" "+task.SubjectName, func() (bool, string) {
			now = requestJSON[fleet.Task](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
			return now.State.IsFinal(), string(now.State) + " " + now.Note
		})
		if now.State != fleet.JobDone {
			t.Fatalf("%s %s: %s %s", task.Title(), task.SubjectName, now.State, now.Error)
		}
		return now
	}
	// image creates an image of random bytes, with a copy only on the first host.
	image := func(name string) fleet.ImageView {
		t.Helper()
		text := make([]byte, 8<<20)
		_, _ = rand.Read(text[:4<<20]) // Read never fails
		done(requestJSON[fleet.Task](t, s.api, http.StatusAccepted, http.MethodPost, "/api/v1/pools/"+string(pool.ID)+"/volumes", map[string]any{
			"name": name + ".raw", "format": "raw", "sizeBytes": len(text), "hostId": s.hosts[0].ID,
		}))
		f, err := os.OpenFile(at(0, name+".raw"), os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt(text[:4<<20], 0) // the rest of the file is a hole
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		var created fleet.ImageView
		eventually(t, stepLimit, "the file "+name, func() (bool, string) {
			got, err := s.send(t.Context(), http.MethodPost, "/api/v1/images", map[string]any{
				"name": name, "public": true, "source": map[string]any{"poolId": pool.ID, "hostId": s.hosts[0].ID, "volume": name + ".raw"},
			})
			return err == nil && got.status == http.StatusCreated, string(got.body)
		})
		for _, v := range listFirstPage[fleet.ImageView](t, s.api, "/api/v1/images") {
			if v.Name == name {
				created = v
			}
		}
		return created
	}
	copied := func(v fleet.ImageView) fleet.Task {
		t.Helper()
		var task fleet.Task
		// Retry while the host computes the image's checksum.
		eventually(t, stepLimit, "the request for a copy", func() (bool, string) {
			got, err := s.send(t.Context(), http.MethodPost, "/api/v1/images/"+string(v.ID)+"/copies", map[string]any{"poolId": pool.ID, "hostId": s.hosts[1].ID})
			return err == nil && got.status == http.StatusAccepted, string(got.body)
		})
		for _, one := range listFirstPage[fleet.Task](t, s.api, "/api/v1/tasks?filter=kind:volume.receive") {
			if task.ID == "" || one.CreatedAt.After(task.CreatedAt) {
				task = one
			}
		}
		now := done(task)
		if sum(0, v.Name+".raw") != sum(1, task.SubjectName) {
			t.Error("the copy has other bytes")
		}
		return now
	}
	eventually(t, guestLimit, "the pool on both hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil).Hosts
		up := func(h fleet.PoolHost) bool { return h.State == fleet.PoolActive }
		return len(on) == 2 && up(on[0]) && up(on[1]), fmt.Sprintf("%+v", on)
	})
	golden := image("golden")
	if task := copied(golden); strings.Contains(task.Note, "relayed") {
		t.Errorf("the hosts do not reach each other: %s", task.Note)
	}

	vm := requestJSON[fleet.VMView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "goer", "projectId": s.projectByName(t, "lab").ID, "hostId": s.hosts[0].ID,
		"spec": map[string]any{
			"cpus": 1, "memoryMiB": 128, "disks": []any{map[string]any{"poolId": pool.ID, "imageId": golden.ID}},
			"firmware": "uefi", "security": map[string]any{"tpm": true, "secureBoot": true},
		},
	})
	s.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	want := sum(0, vm.Spec.Disks[0].Volume)
	page := "/api/v1/vms/" + string(vm.ID)
	act := func(action string, phase fleet.Phase) {
		t.Helper()
		requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, page+"/actions", map[string]any{"action": action})
		s.waitPhase(t, guestLimit, vm.ID, phase)
	}
	// firmware returns the UEFI variables and the TPM's state on a host; empty: it has neither.
	firmware := func(i int) string {
		t.Helper()
		var all []byte
		for _, file := range []string{"qemu/nvram/" + string(vm.ID) + "_SECURE_VARS.fd", "swtpm/" + string(vm.ID) + "/tpm2/tpm2-00.permall"} {
			text, err := os.ReadFile(filepath.Join(fmt.Sprintf("/proc/%d/root/var/lib/libvirt", s.agentPID(t, i)), file))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return string(all)
	}
	act("start", fleet.PhaseRunning) // the start creates the files
	act("stop", fleet.PhaseStopped)
	for _, to := range []int{1, 0} {
		before, state := s.getVM(t, vm.ID).Spec.Disks[0], firmware(1-to)
		done(requestJSON[fleet.Task](t, s.api, http.StatusAccepted, http.MethodPost, page+"/migrate", map[string]any{"hostId": s.hosts[to].ID}))
		s.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
		now := s.getVM(t, vm.ID)
		if now.HostID != s.hosts[to].ID || sum(to, now.Spec.Disks[0].Volume) != want || now.Attention {
			t.Fatalf("the VM is on %s with %+v, %+v", now.HostName, now.Spec.Disks, now.Status)
		}
		if out := virsh(t, s.Hosts[1-to], "list", "--all", "--name"); strings.Contains(out, "goer") {
			t.Errorf("the old host still has the VM: %s", out)
		}
		if there, here := firmware(to), firmware(1-to); there != state || state == "" || here != "" {
			t.Errorf("the new host has %d bytes of firmware state and the old host %d, want %d and 0", len(there), len(here), len(state))
		}
		eventually(t, stepLimit, "the old disk's end", func() (bool, string) {
			_, err := os.Stat(at(1-to, before.Volume))
			return os.IsNotExist(err), before.Volume
		})
		act("start", fleet.PhaseRunning)
		act("stop", fleet.PhaseStopped)
	}

	s.runInNetwork(t, 1, "iptables", "-I", "INPUT", "-p", "tcp", "--syn", "-j", "DROP") // connections that the host itself opens still work
	if task := copied(image("silver")); !strings.Contains(task.Note, "relayed by the portal") {
		t.Errorf("the task's note is %q", task.Note)
	}
}
