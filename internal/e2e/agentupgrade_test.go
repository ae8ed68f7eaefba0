//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestAgentUpgradeLeavesGuestRunning upgrades the agent of a real host with a running guest: releases that hang, crash,
// have a wrong signature or do not fit the host leave or bring back the old agent within a minute, and a good one
// replaces it. QEMU's process and the agent's own process stay the same throughout.
func TestAgentUpgradeLeavesGuestRunning(t *testing.T) {
	t.Parallel()
	o := newReleases(t)
	r := newRigWithPortal(t, "upgraded", 33, nil, "--agent-releases", o.dir)
	r.agentProgram, r.extra = o.installProgram(t, r.dir), []string{"--upgrade-keys", o.publicKey}
	r.joinHost()
	a := r.api()
	name := uniqueName("untouched")
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "upgrades"})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": project.ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	guest, agent := guestPID(t, name), agentPIDOf(t, r.agentProgram)
	host := a.hostByName(t, r.name)
	old := host.Status.AgentVersion

	o.offerScript(t, "2.0.1", "sleep 600")
	o.offerScript(t, "2.0.2", "echo 'panic: no such thing' >&2; exit 2")
	o.offerScript(t, "2.0.3", "exit 0")
	o.corrupt(t, "2.0.3")
	o.offerScriptOfOtherKey(t, "2.0.4")
	o.offerBuild(t, "2.1.0")
	upgrade := func(version string) (fleet.Task, time.Duration) {
		t.Helper()
		begun := time.Now()
		got := requestJSON[struct{ Task fleet.Task }](t, a, http.StatusOK, http.MethodPost, "/api/v1/hosts/"+string(host.ID)+"/actions", map[string]any{
			"action": "upgrade-agent", "version": version, "allowDowngrade": true,
		})
		task := got.Task
		eventually(t, 2*time.Minute, "the end of the upgrade to "+version, func() (bool, string) {
			task = requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
			return task.State.IsFinal(), fmt.Sprintf("%s %s", task.State, task.Note)
		})
		if now := guestPID(t, name); now != guest {
			t.Errorf("after the upgrade to %s the guest is process %d, was %d", version, now, guest)
		}
		if now := agentPIDOf(t, r.agentProgram); now != agent {
			t.Errorf("after the upgrade to %s the agent is process %d, was %d", version, now, agent)
		}
		return task, time.Since(begun)
	}
	runs := func(version string) {
		t.Helper()
		r.waitHost(stepLimit, fleet.HostOnline)
		if h := a.hostByName(t, r.name); h.Status.AgentVersion != version {
			t.Errorf("the host runs version %s, want %s", h.Status.AgentVersion, version)
		}
	}
	for _, c := range []struct{ version, want string }{
		{"2.0.1", "did not report to the portal within"},
		{"2.0.2", "panic: no such thing"},
		{"2.0.3", "another program than the signed one"},
	} {
		task, took := upgrade(c.version)
		if task.State != fleet.JobFailed || !strings.Contains(task.Error, c.want) {
			t.Errorf("the upgrade to %s is %s: %q, want %q", c.version, task.State, task.Error, c.want)
		}
		if took > time.Minute {
			t.Errorf("the host was back %s after the order of %s", took, c.version)
		}
		runs(old)
	}
	refused, err := a.send(t.Context(), http.MethodPost, "/api/v1/hosts/"+string(host.ID)+"/actions", map[string]any{"action": "upgrade-agent", "version": "2.0.4", "allowDowngrade": true})
	if err != nil || refused.status != http.StatusConflict || !strings.Contains(string(refused.body), "does not trust") {
		t.Errorf("a release of another key is answered by %d %s, %v", refused.status, refused.body, err)
	}
	if task, took := upgrade("2.1.0"); task.State != fleet.JobDone {
		t.Errorf("the upgrade is %s after %s: %q", task.State, took, task.Error)
	}
	runs("2.1.0")
	a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseRunning)
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(r.agentProgram), "*.previous")); err != nil || len(files) != 1 {
		t.Errorf("the previous program is not kept: %v %v", files, err)
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
}

// agentPIDOf returns the process ID of the agent that runs from the program. A child that the agent has just forked runs
// from it, too, for a moment.
func agentPIDOf(t *testing.T, program string) (pid int) {
	t.Helper()
	eventually(t, stepLimit, "the only process of "+program, func() (bool, string) {
		pids := processesWithProgram(program)
		if len(pids) != 1 {
			return false, fmt.Sprintf("%d processes run it: %v", len(pids), pids)
		}
		pid = pids[0]
		return true, ""
	})
	return pid
}
