//go:build linux && ordeal

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

// TestLiveMigrationKeepsGuestRunning migrates a running VM to another real host and back in the browser. The guest keeps
// running, exactly one host has the VM, its actions work on the new host, and a console that was open before follows.
func TestLiveMigrationKeepsGuestRunning(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	name := uniqueName("mover")
	shared := a.poolByName(t, "shared").ID
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": a.hostByName(t, "host-1").ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	p := newTab(t, s.URL)
	p.signIn(s)
	page := "/vms/" + string(vm.ID)
	p.open(page + "/console")
	waitBooted(t, s.Hosts[0], name)
	p.typeIntoConsole(s.Hosts[0], name)
	open := newTab(t, s.URL)
	open.signIn(s)
	open.open(page + "/console")
	open.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	open.markDocument()
	if _, err := evalJS[bool](open, observeConsole); err != nil {
		t.Fatal(err)
	}

	for i, to := range []string{"host-2", "host-1"} {
		p.open(page + "/migrate")
		p.waitText("main", "keeps running")
		p.chooseOption("select[name=to]", to)
		p.click(".dialog-form button", "Migrate")
		eventually(t, guestLimit, "the VM on "+to, func() (bool, string) {
			got := a.getVM(t, vm.ID)
			return got.HostName == to && got.Phase == fleet.PhaseRunning, fmt.Sprintf("%s, %s", got.HostName, got.Phase)
		})
		eventually(t, stepLimit, "the end of the migration's task", func() (bool, string) {
			task := listFirstPage[fleet.Task](t, a, "/api/v1/tasks?filter=kind:vm.migrate+target:"+name)[0]
			return task.State == fleet.JobDone, string(task.State) + " " + task.Error
		})
		if out := virsh(t, s.Hosts[i], "list", "--all", "--name"); strings.Contains(out, name) {
			t.Errorf("the old host still has the VM: %s", out)
		}
		if state := virsh(t, s.Hosts[1-i], "domstate", name); state != "running" {
			t.Errorf("on %s the guest is %s", to, state)
		}
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guestPID(t, name)))
		if err != nil || !strings.Contains(string(args), "-incoming") {
			t.Errorf("the guest was restarted instead of migrated live: %v %q", err, args)
		}
		if got := a.getVM(t, vm.ID); got.Attention || len(got.Status.Drift) > 0 || len(got.Status.Faults) > 0 || len(got.Sightings) > 0 {
			t.Errorf("after the migration the VM is %+v, %+v", got.VM, got.Status)
		}
		open.typeIntoConsole(s.Hosts[1-i], name) // the console that was open before the migration
		open.checkNotReloaded()
	}
	cut, err := evalJS[float64](open, "longestCut")
	if err != nil || cut == 0 {
		t.Errorf("the open console was not disconnected: %v ms, %v", cut, err)
	}
	t.Logf("the open console was disconnected for at most %.0f ms", cut)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "stop"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1"+page+"?disks=true&purge=true&confirm="+name, nil)
}

// observeConsole stores the longest time without a connection of the open console in longestCut, in milliseconds.
const observeConsole = `(() => {
	const screen = document.querySelector("#console");
	let since = 0;
	window.longestCut = 0;
	new MutationObserver(() => {
		if (screen.dataset.state !== "connected") since ||= performance.now();
		else if (since) {
			window.longestCut = Math.max(window.longestCut, performance.now() - since);
			since = 0;
		}
	}).observe(screen, { attributes: true, attributeFilter: ["data-state"] });
	return true;
})()`

// TestLiveMigrationSurvivesAgentKill kills the agent of each host during a live migration with a shared and a local disk,
// and cancels another one. Each time the VM keeps running on its host, and no other host has the VM or a copy of its disk.
func TestLiveMigrationSurvivesAgentKill(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	name, shared := uniqueName("stayer"), a.poolByName(t, "shared").ID
	hosts := []fleet.HostID{a.hostByName(t, "host-1").ID, a.hostByName(t, "host-2").ID}
	dir := uniqueName("stayers")
	local := requestJSON[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": dir, "hostIds": hosts, "spec": map[string]any{"kind": "dir", "path": "/var/lib/libvirt/images/" + dir},
	})
	eventually(t, guestLimit, "the pool on both hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, a, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(local.ID), nil).Hosts
		return len(on) == 2 && on[0].State == fleet.PoolActive && on[1].State == fleet.PoolActive, fmt.Sprintf("%+v", on)
	})
	filesOn := func(host int) (names []string) {
		t.Helper()
		all, err := os.ReadDir(filepath.Join(hostDir(host), "lib/images", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if strings.Contains(f.Name(), name) {
				names = append(names, f.Name())
			}
		}
		return names
	}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": hosts[0], "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}, map[string]any{"poolId": local.ID, "sizeBytes": 16 << 20}}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	pid := guestPID(t, name)
	page := "/api/v1/vms/" + string(vm.ID)
	kill := func(host int) func(fleet.Task) {
		return func(fleet.Task) {
			if err := syscall.Kill(labAgentPID(t, hostDir(host)), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The target's report of its incoming guest may be a few seconds old.
	migrate := func(in map[string]any) (task fleet.Task) {
		eventually(t, stepLimit, "the request for a migration", func() (bool, string) {
			got, err := a.send(t.Context(), http.MethodPost, page+"/migrate", in)
			return err == nil && got.status == http.StatusAccepted && json.Unmarshal(got.body, &task) == nil, string(got.body)
		})
		return task
	}
	for _, c := range []struct {
		name string
		do   func(fleet.Task)
		ends fleet.JobState
	}{
		{"a kill of the source's agent", kill(0), fleet.JobFailed},
		{"a kill of the target's agent", kill(1), fleet.JobFailed},
		{"a cancellation", func(task fleet.Task) {
			requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodPost, "/api/v1/tasks/"+string(task.ID)+"/cancel", nil)
		}, fleet.JobCancelled},
	} {
		task := migrate(map[string]any{"hostId": hosts[1], "mode": "live", "rateBytes": 1 << 20})
		now := func() fleet.Task {
			return requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		}
		eventually(t, stepLimit, "the transfer before "+c.name, func() (bool, string) {
			got := now()
			return strings.Contains(got.Note, "memory"), string(got.State) + " " + got.Note + got.Error
		})
		c.do(task)
		eventually(t, fleet.Lease+guestLimit, "the task's end after "+c.name, func() (bool, string) {
			got := now()
			return got.State == c.ends, string(got.State) + " " + got.Note + " " + got.Error
		})
		a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
		if got := a.getVM(t, vm.ID); got.HostID != hosts[0] || got.Attention {
			t.Errorf("after %s the VM is on %s: %+v", c.name, got.HostName, got.Status)
		}
		if state := virsh(t, s.Hosts[0], "domstate", name); state != "running" || guestPID(t, name) != pid {
			t.Errorf("after %s the guest is %s, with the process %d instead of %d", c.name, state, guestPID(t, name), pid)
		}
		if out := virsh(t, s.Hosts[1], "list", "--all", "--name"); strings.Contains(out, name) {
			t.Errorf("after %s the target has the VM: %s", c.name, out)
		}
		if files := filesOn(1); len(files) > 0 || len(filesOn(0)) != 1 {
			t.Errorf("after %s the target has the files %q, and the source %q; want only the source's disk", c.name, files, filesOn(0))
		}
	}
	migrate(map[string]any{"hostId": hosts[1]})
	eventually(t, guestLimit, "the VM on the other host", func() (bool, string) {
		got := a.getVM(t, vm.ID)
		return got.HostID == hosts[1] && got.Phase == fleet.PhaseRunning, fmt.Sprintf("%s, %s", got.HostName, got.Phase)
	})
	eventually(t, guestLimit, "the end of the old disk", func() (bool, string) {
		return len(filesOn(0)) == 0 && len(filesOn(1)) == 1, fmt.Sprintf("%q, %q", filesOn(0), filesOn(1))
	})
	deletion := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, page+"?disks=true&purge=true&confirm="+name, nil)
	eventually(t, guestLimit, "the end of the VM", func() (bool, string) {
		got := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(deletion.ID), nil)
		return got.State == fleet.JobDone && len(filesOn(1)) == 0, fmt.Sprint(got.State, got.Error, filesOn(1))
	})
	requestJSON[any](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/pools/"+string(local.ID), nil)
}
