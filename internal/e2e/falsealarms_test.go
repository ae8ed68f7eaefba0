//go:build linux && ordeal

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/testkit/tier"
)

// power powers a VM off and on, by the portal, by the host's administrator or from inside the guest.
func (f *quietFleet) power(int) string {
	vm := f.anyVM()
	host := f.hostOf(vm).host
	did := "started"
	if vm.Phase == fleet.PhaseRunning {
		switch f.random.IntN(4) {
		case 0:
			did = "shut down by the portal"
			f.request(vm, fleet.ActShutdown)
		case 1:
			did = "powered off by the portal"
			f.request(vm, fleet.ActStop)
		case 2:
			did = "powered off on the host"
			if err := host.StopVM(f.t.Context(), vm.ID); err != nil {
				f.t.Fatal(err)
			}
		case 3:
			did = "shut down by its guest"
			host.PowerOffGuest(vm.ID, false)
		}
		f.api.waitPhase(f.t, stepLimit, vm.ID, fleet.PhaseStopped)
		if f.chance(3) {
			return did
		}
		f.pause(2 * time.Second)
	}
	if f.chance(2) {
		f.request(vm, fleet.ActStart)
		did += ", started by the portal"
	} else {
		if err := host.StartVM(f.t.Context(), vm.ID); err != nil {
			f.t.Fatal(err)
		}
		did += ", started on the host"
	}
	f.api.waitPhase(f.t, stepLimit, vm.ID, fleet.PhaseRunning)
	return did
}

// restart kills or stops the portal and starts it again. In the first run, it is away for longer than reports are valid
// and a condition must hold.
func (f *quietFleet) restart(run int) string {
	did, wait := "stopped", func() {}
	if f.chance(8) { // an interrupted job may wait for the end of its lease
		wait = f.switchPower(f.anyVM())
		did = "stopped during a job"
	}
	if f.chance(2) {
		did = strings.Replace(did, "stopped", "killed", 1)
		f.portal.kill()
	} else if err := f.portal.signal(syscall.SIGTERM); err != nil {
		f.t.Error(err)
	}
	if run == 0 { // nobody evaluates the rules in this time
		f.evaluating.Lock()
		time.Sleep(longAbsence)
		f.evaluating.Unlock()
		did += " for " + longAbsence.String()
	} else {
		f.pause(2 * time.Second)
	}
	f.portal.start(f.portal.name)
	wait()
	for _, h := range f.hosts {
		h.waitOnline()
	}
	return did
}

// migrate migrates a VM to the other host.
func (f *quietFleet) migrate(int) string {
	vm, to, mode := f.anyVM(), f.hosts[0], "cold"
	if to.id == vm.HostID {
		to = f.hosts[1]
	}
	if vm.Phase == fleet.PhaseRunning {
		mode = "live"
	}
	f.task("/api/v1/vms/"+string(vm.ID)+"/migrate", map[string]any{"hostId": to.id, "poolId": f.pool, "mode": mode})
	f.api.waitPhase(f.t, stepLimit, vm.ID, vm.Phase)
	if now := f.api.getVM(f.t, vm.ID); now.HostID != to.id {
		f.t.Errorf("after its migration %s is on %s", vm.Name, now.HostName)
	}
	return mode
}

// snapshot takes a snapshot of a VM, mostly reverts to it, and deletes it.
func (f *quietFleet) snapshot(int) string {
	vm := f.anyVM()
	memory := vm.Phase == fleet.PhaseRunning && f.chance(2)
	s := f.api.takeSnapshot(f.t, vm.ID, map[string]any{"name": "before", "memory": memory})
	did := fmt.Sprintf("taken (%s, memory %t)", vm.Phase, memory)
	f.pause(time.Second)
	if !f.chance(3) {
		f.api.revert(f.t, vm.ID, s)
		did += ", reverted"
	}
	f.api.waitTask(f.t, requestJSON[fleet.Task](f.t, f.api, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"/snapshots/"+string(s.ID), nil), fleet.JobDone)
	return did + ", deleted"
}

type hostAnswer struct {
	Task      *fleet.Task            `json:"task"`
	LeavePlan *maintenance.LeavePlan `json:"leavePlan"`
}

func (f *quietFleet) actOnHost(h *quietHost, query string, in map[string]any) hostAnswer {
	f.t.Helper()
	return requestJSON[hostAnswer](f.t, f.api, http.StatusOK, http.MethodPost, "/api/v1/hosts/"+string(h.id)+"/actions"+query, in)
}

func (f *quietFleet) waitLifecycle(h *quietHost, want fleet.HostLifecycle) {
	f.t.Helper()
	eventually(f.t, stepLimit, "the lifecycle "+string(want), func() (bool, string) {
		l := h.view().Lifecycle
		return l == want, string(l)
	})
}

// maintain puts a host into maintenance and back into operation. In the first two runs, the host is powered off in
// maintenance for longer than reports are valid and a condition must hold: by its administrator, and by the portal. In
// the next two runs it reboots.
func (f *quietFleet) maintain(run int) string {
	h, did := f.anyHost(), "nothing else"
	f.api.waitTask(f.t, *f.actOnHost(h, "", map[string]any{"action": fleet.ActEnterMaintenance, "default": fleet.MaintenanceShutdown}).Task, fleet.JobDone)
	f.waitLifecycle(h, fleet.LifecycleMaintenance)
	command := func(action fleet.Action) {
		f.actOnHost(h, "", map[string]any{"action": action, "confirm": h.name})
		eventually(f.t, stepLimit, "the end of the host's agent", func() (bool, string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.stop == nil, "it runs"
		})
	}
	switch {
	case run == 0:
		did = "power off and on by the administrator"
		h.stopAgent()
		time.Sleep(longAbsence)
		h.bootUp()
	case run == 1:
		did = "power off by the portal"
		command(fleet.ActShutDownHost)
		time.Sleep(longAbsence)
		h.bootUp()
	case run == 2:
		did = "reboot by the portal"
		command(fleet.ActRebootHost)
		time.Sleep(bootTime)
		h.bootUp()
	case run == 3:
		did = "reboot by the administrator"
		h.stopAgent()
		time.Sleep(bootTime)
		h.bootUp()
	case f.chance(2):
		did = "restart of the agent"
		f.restartAgent(h)
	}
	back := []fleet.VMID{}
	for _, vm := range f.actOnHost(h, "?dryRun=true", map[string]any{"action": fleet.ActLeaveMaintenance}).LeavePlan.Moved {
		if vm.Allowed {
			back = append(back, vm.ID)
		}
	}
	f.api.waitTask(f.t, *f.actOnHost(h, "", map[string]any{"action": fleet.ActLeaveMaintenance, "bringBack": back}).Task, fleet.JobDone)
	f.waitLifecycle(h, fleet.LifecycleReady)
	return fmt.Sprintf("%s, %d VMs came back", did, len(back))
}

func (f *quietFleet) restartAgent(h *quietHost) {
	f.t.Helper()
	h.stopAgent()
	f.pause(3 * time.Second)
	h.start()
	h.waitOnline()
}

// upgrade stops the agent of a host, sometimes during a job, and starts that of the next version.
func (f *quietFleet) upgrade(int) string {
	h, did, wait := f.anyHost(), "idle", func() {}
	if vm := f.anyVM(); f.chance(2) {
		h, did = f.hostOf(vm), "during a job"
		wait = f.switchPower(vm)
		f.pause(200 * time.Millisecond)
	}
	f.restartAgent(h)
	wait()
	return did
}

// TestUsualOperationRaisesNoAlarm does in random order what administrators do every day, and requires that no alarm is
// raised. The rules are stricter than the default ones: they wait for at most quietWait, and are evaluated every
// quietEvaluate, so that conditions that hold only for a moment are found. At the end a host is really lost, which must
// raise exactly one alarm.
func TestUsualOperationRaisesNoAlarm(t *testing.T) {
	t.Parallel()
	t.Logf("repeat with %s=%d", tier.SeedVariable, tier.Seed())
	f := newQuietFleet(t)
	ctx, cancel := context.WithCancel(t.Context())
	var evaluator sync.WaitGroup
	evaluator.Go(func() { f.evaluate(ctx) })
	defer evaluator.Wait()
	defer cancel()
	if found := f.newAlarms(); len(found) > 0 {
		t.Fatalf("before the first run: %q", found)
	}
	kinds := []struct {
		name string
		do   func(run int) string // run: the number of earlier runs of this kind
	}{
		{"power of a VM", f.power},
		{"restart of the portal", f.restart},
		{"migration", f.migrate},
		{"snapshot", f.snapshot},
		{"maintenance", f.maintain},
		{"upgrade of an agent", f.upgrade},
	}
	order := make([]int, quietRuns)
	for i := range order {
		order[i] = i % len(kinds)
	}
	f.random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	done := make([]int, len(kinds))
	spent := make([]time.Duration, len(kinds))
	began := time.Now()
	var alarms []string
	check := func(what string) {
		t.Helper()
		for _, a := range f.newAlarms() {
			alarms = append(alarms, a)
			t.Errorf("%s: raised %s", what, a)
		}
	}
	for i, k := range order {
		at := time.Now()
		did := kinds[k].do(done[k])
		what := fmt.Sprintf("run %d, %s: %s", i+1, kinds[k].name, did)
		check(what)
		t.Logf("%s (%s)", what, time.Since(at).Round(10*time.Millisecond))
		done[k]++
		spent[k] += time.Since(at)
	}
	time.Sleep(quietWait) // for conditions that began in the last runs
	check("after the last run")
	for k, kind := range kinds {
		t.Logf("%s: %d runs in %s", kind.name, done[k], spent[k].Round(time.Second))
	}
	f.evaluating.Lock()
	t.Logf("%d runs in %s, %d false alarms, %d evaluations besides the portal's; evaluations with a condition that did not hold long enough, by rule: %v",
		len(order), time.Since(began).Round(time.Second), len(alarms), f.passes, f.pending)
	f.evaluating.Unlock()

	lost := f.anyHost()
	lost.stopAgent()
	stopped := time.Now()
	var found []string
	eventually(t, noticeLimit, "the alarm of a host that is lost", func() (bool, string) {
		found = append(found, f.newAlarms()...)
		return len(found) > 0, "there is none"
	})
	t.Logf("after %s: %q", time.Since(stopped).Round(time.Second), found)
	open := listFirstPage[fleet.Alarm](t, f.api, "/api/v1/alarms?filter=state:open")
	if len(found) != 1 || !strings.HasPrefix(found[0], "host-lost: "+lost.name+": ") ||
		len(alarms) == 0 && (len(open) != 1 || open[0].Subject != fleet.SubjectHost(lost.id)) {
		t.Errorf("the lost host %s raised %q; open are %+v", lost.name, found, open)
	}
}
