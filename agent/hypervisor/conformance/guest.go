package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// A guest with an agent reports its system. The guest is frozen, thawed and trimmed, and gets a password and the host's
// time.
func testGuestAgent(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddBootableVolume(t, p, "guest.qcow2")
	boot := newDisk(p)
	boot.SizeBytes, boot.Image = 0, &fleet.Volref{PoolID: p.ID, Volume: "guest.qcow2"}
	data := newDisk(p)
	data.SizeBytes = 32 << 20
	vm := h.runningVM(boot, data)
	says := func() fleet.GuestStatus {
		h.hostState(h.pools...) // triggers a query of the guests
		s := h.wantStatus(vm.ID, vm.Generation)
		if s.Guest == nil {
			t.Fatal("a running guest reports nothing")
		}
		return *s.Guest
	}
	h.waitUntil("the guest's agent answers", func() bool { return says().Agent == fleet.AgentAnswers })
	if g := says(); g.Version == "" || g.Hostname == "" || g.Frozen {
		t.Errorf("the guest agent's report is %+v, want a version, a host name and no freeze", g)
	}
	h.harness.PrepareGuest(t, vm.ID)
	h.wantCheckPassed(vm.ID, fleet.HealthAgent)

	must := func(act string, err error) { h.t.Helper(); h.requireNoError(act, err) }
	for range 2 {
		must("freeze", h.FreezeGuest(h.ctx, vm.ID))
		if g := says(); !h.harness.IsGuestFrozen(t, vm.ID) || !g.Frozen {
			t.Fatalf("a frozen guest reports %+v", g)
		}
	}
	for range 2 {
		must("thaw", h.ThawGuest(h.ctx, vm.ID))
		if g := says(); h.harness.IsGuestFrozen(t, vm.ID) || g.Frozen {
			t.Fatalf("a thawed guest reports %+v", g)
		}
	}
	must("set a password", h.SetGuestPassword(h.ctx, vm.ID, "root", `it's "new" – €`))
	if !h.harness.GuestHasPassword(t, vm.ID, "root", `it's "new" – €`) || h.harness.GuestHasPassword(t, vm.ID, "root", "old") {
		t.Error("the guest's user has another password")
	}
	must("set the clock", h.SyncGuestTime(h.ctx, vm.ID))
	must("trim", h.TrimGuest(h.ctx, vm.ID))
	h.testGuestPrograms(vm.ID)
	h.waitUntil("the guest's file systems and clock are reported", func() bool {
		h.hostState()
		all, err := h.GuestReadings(h.ctx)
		must("read", err)
		r, ok := find(all, func(r hypervisor.GuestReading) bool { return r.ID == vm.ID })
		return ok && !r.At.IsZero() && r.ClockMs < 60_000 && len(r.FileSystems) > 0 && r.FileSystems[0].TotalBytes > r.FileSystems[0].UsedBytes
	})

	must("pause", h.PauseVM(h.ctx, vm.ID))
	h.requireRefusal("freeze a paused guest", h.FreezeGuest(h.ctx, vm.ID), "paused")
	_, err := h.RunInGuest(h.ctx, vm.ID, fleet.GuestProgram{Program: "/bin/echo"})
	h.requireRefusal("run a program in a paused guest", err, "paused")
	must("stop", h.StopVM(h.ctx, vm.ID))
	if s := h.wantStatus(vm.ID, vm.Generation); s.Guest != nil {
		t.Errorf("the guest status of a stopped VM is %+v, want none", s.Guest)
	}
	must("thaw a stopped guest", h.ThawGuest(h.ctx, vm.ID))
	for act, err := range map[string]error{"freeze": h.FreezeGuest(h.ctx, vm.ID), "trim": h.TrimGuest(h.ctx, vm.ID), "set the clock": h.SyncGuestTime(h.ctx, vm.ID)} {
		if !errors.Is(err, hypervisor.ErrNotRunning) {
			t.Errorf("%s in a stopped guest: the error is %v, want ErrNotRunning", act, err)
		}
	}
	if _, err := h.RunInGuest(h.ctx, vm.ID, fleet.GuestProgram{Program: "/bin/echo"}); !errors.Is(err, hypervisor.ErrNotRunning) {
		t.Errorf("run a program in a stopped guest: the error is %v, want ErrNotRunning", err)
	}
	if err := h.SetGuestPassword(h.ctx, vm.ID, "root", "hush-hush"); !errors.Is(err, hypervisor.ErrNotRunning) || strings.Contains(err.Error(), "hush") {
		t.Errorf("set a password in a stopped guest: the error is %v, want ErrNotRunning without the password", err)
	}
}

// testGuestPrograms runs programs in a guest. The arguments are passed without a shell, and each result is reported.
func (h *testHost) testGuestPrograms(id fleet.VMID) {
	h.t.Helper()
	run := func(wait time.Duration, program string, args ...string) (fleet.GuestOutput, error) {
		ctx, cancel := context.WithTimeout(h.ctx, wait)
		defer cancel()
		return h.RunInGuest(ctx, id, fleet.GuestProgram{Program: program, Args: args})
	}
	out, err := run(time.Minute, "/bin/echo", "$HOME; a", `"b'`, "–", "", "c")
	if err != nil || out != (fleet.GuestOutput{Stdout: "$HOME; a \"b' –  c\n"}) {
		h.t.Errorf("the program echo returned %+v, %v", out, err)
	}
	if out, err = run(time.Minute, "/bin/false"); err != nil || out.ExitCode != 1 || out.Stdout != "" {
		h.t.Errorf("the program false returned %+v, %v, want exit code 1", out, err)
	}
	if _, err = run(5*time.Second, "/bin/sleep", "60"); !errors.Is(err, hypervisor.ErrOutcomeUnknown) {
		h.t.Errorf("run a program past its time limit: the error is %v, want ErrOutcomeUnknown", err)
	}
	check := func(within time.Duration, program, args string) error {
		ctx, cancel := context.WithTimeout(h.ctx, within)
		defer cancel()
		_, err := h.CheckGuest(ctx, id, fleet.HealthCheck{Kind: fleet.HealthExec, Program: program, Args: args}.WithDefaults())
		return err
	}
	h.requireNoError("check with a program", check(conditionTimeout, "/bin/echo", "a\nb"))
	var unsure hypervisor.CannotCheckGuestError
	if err := check(conditionTimeout, "/bin/false", ""); err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "exit code 1") {
		h.t.Errorf("health check whose program fails: the error is %v, want exit code 1", err)
	}
	for range 2 { // the second check does not start a program while the first runs
		if err := check(3*time.Second, "/bin/sleep", "30"); err == nil || errors.As(err, &unsure) {
			h.t.Errorf("health check whose program hangs: the error is %v, want a failed check", err)
		}
	}
}

// wantCheckPassed runs a health check with its defaults and requires that the guest passes.
func (h *testHost) wantCheckPassed(id fleet.VMID, kind fleet.HealthKind) hypervisor.HealthCheckResult {
	h.t.Helper()
	sign, err := h.CheckGuest(h.ctx, id, fleet.HealthCheck{Kind: kind}.WithDefaults())
	h.requireNoError("check "+string(kind), err)
	return sign
}

// Health checks reach only the running guest of the VM, and no other host at its address.
func testHealthChecks(t *testing.T, h *testHost) {
	vm := h.newVM()
	vm.Spec.NICs = nil
	vm.Spec.Devices.Watchdog = "i6300esb"
	vm.Spec.Health = []fleet.HealthCheck{{Kind: fleet.HealthWatchdog}, {Kind: fleet.HealthScreen, Action: fleet.HealthReset}}
	h.apply(vm)
	check := func(kind fleet.HealthKind) error {
		_, err := h.CheckGuest(h.ctx, vm.ID, fleet.HealthCheck{Kind: kind, Port: 80, Timeout: 1}.WithDefaults())
		return err
	}
	for _, kind := range []fleet.HealthKind{fleet.HealthAgent, fleet.HealthTCP, fleet.HealthHTTP, fleet.HealthWatchdog, fleet.HealthScreen} {
		if err := check(kind); !errors.Is(err, hypervisor.ErrNotRunning) {
			t.Errorf("health check %s of a stopped guest: the error is %v, want ErrNotRunning", kind, err)
		}
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	want := func(when string) {
		t.Helper()
		if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.Checks, vm.Spec.Health) || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
			t.Errorf("%s: the reported health checks are %+v, pending fields %q, drift %+v", when, s.Checks, s.NextBoot, s.Drift)
		}
	}
	want("made")
	first := h.wantCheckPassed(vm.ID, fleet.HealthWatchdog)
	if again := h.wantCheckPassed(vm.ID, fleet.HealthWatchdog); first.ChangeMark == "" || again.ChangeMark != first.ChangeMark {
		t.Errorf("the change mark of an unexpired watchdog is %q, then %q", first.ChangeMark, again.ChangeMark)
	}
	if h.wantCheckPassed(vm.ID, fleet.HealthScreen).ChangeMark == "" {
		t.Error("a guest with a screen shows nothing")
	}
	var unsure hypervisor.CannotCheckGuestError
	if err := check(fleet.HealthTCP); !errors.As(err, &unsure) {
		t.Errorf("TCP check of a guest without a NIC: the error is %v, want CannotCheckError", err)
	}
	if err := check(fleet.HealthHTTP); !errors.As(err, &unsure) {
		t.Errorf("HTTP check of a guest without a NIC: the error is %v, want CannotCheckError", err)
	}
	vm.Spec.Health = []fleet.HealthCheck{{Kind: fleet.HealthAgent, Interval: 30}}
	vm.Generation++
	h.apply(vm)
	want("changed while the guest runs")
	if _, err := h.CheckGuest(h.ctx, fleet.NewID[fleet.VMID](), vm.Spec.Health[0].WithDefaults()); err == nil {
		t.Errorf("health check of a missing VM: the error is %v, want any error", err)
	}
}

// Without an agent channel, or without an answer, commands are refused. The error says whether the channel or the
// answer is missing.
func testNoGuestAgent(t *testing.T, h *testHost) {
	silent := h.newVM()
	silent.Name = uniqueName("no-agent")
	h.apply(silent)
	h.requireNoError("start", h.StartVM(h.ctx, silent.ID))
	h.hostState()
	if g := h.wantStatus(silent.ID, 1).Guest; g == nil || *g != (fleet.GuestStatus{Agent: fleet.AgentNotResponding}) {
		t.Errorf("the guest status without a running agent is %+v, want AgentNotResponding", g)
	}
	none := h.newVM()
	none.Spec.Devices.GuestAgent = "none"
	h.apply(none)
	h.requireNoError("start", h.StartVM(h.ctx, none.ID))
	if g := h.wantStatus(none.ID, 1).Guest; g == nil || *g != (fleet.GuestStatus{Agent: fleet.AgentNone}) {
		t.Errorf("the guest status without an agent channel is %+v, want AgentNone", g)
	}
	var unsure hypervisor.CannotCheckGuestError
	ping := fleet.HealthCheck{Kind: fleet.HealthAgent, Timeout: 1}.WithDefaults()
	if _, err := h.CheckGuest(h.ctx, silent.ID, ping); err == nil || errors.As(err, &unsure) {
		t.Errorf("health check of an agent that does not respond: the error is %v, want a failed check", err)
	}
	if _, err := h.CheckGuest(h.ctx, none.ID, ping); !errors.As(err, &unsure) {
		t.Errorf("health check without an agent channel: the error is %v, want CannotCheckError", err)
	}
	for vm, word := range map[*fleet.VM]string{&silent: "qemu-guest-agent", &none: "channel"} {
		h.requireRefusal("freeze", h.FreezeGuest(h.ctx, vm.ID), word)
		h.requireRefusal("thaw", h.ThawGuest(h.ctx, vm.ID), word)
		h.requireRefusal("trim", h.TrimGuest(h.ctx, vm.ID), word)
		h.requireRefusal("set the clock", h.SyncGuestTime(h.ctx, vm.ID), word)
		h.requireRefusal("set a password", h.SetGuestPassword(h.ctx, vm.ID, "root", "hush-hush"), word)
		_, err := h.RunInGuest(h.ctx, vm.ID, fleet.GuestProgram{Program: "/bin/echo"})
		h.requireRefusal("run a program", err, word)
	}
	all, err := h.GuestReadings(h.ctx)
	h.requireNoError("read", err)
	if _, ok := find(all, func(r hypervisor.GuestReading) bool { return r.ID == silent.ID || r.ID == none.ID }); ok {
		t.Error("a guest without an agent was read")
	}
	none.Spec.Devices.GuestAgent = ""
	none.Generation++
	h.apply(none)
	if s := h.wantStatus(none.ID, none.Generation); len(s.NextBoot) != 1 || s.NextBoot[0] != "devices.guestAgent" {
		t.Errorf("after an agent channel was added, the pending fields are %q, want devices.guestAgent", s.NextBoot)
	}
}

// Start and restart policies are stored with the definition, apply immediately, and are not visible to the guest.
func testStartAndRestartPolicies(t *testing.T, h *testHost) {
	vm := h.newVM()
	vm.Spec.Policy = fleet.VMPolicy{Autostart: "last", StartOrder: 3, StartDelay: 20, Restart: "onFailure", StopOrder: 2, StopDelay: 5, GuestExec: true}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	want := func(when string) {
		t.Helper()
		if s := h.wantStatus(vm.ID, vm.Generation); s.Policy != vm.Spec.Policy || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
			t.Errorf("%s: the reported policy is %+v, pending fields %q, drift %+v", when, s.Policy, s.NextBoot, s.Drift)
		}
	}
	want("made")
	vm.Spec.Policy = fleet.VMPolicy{Restart: "always"}
	vm.Generation++
	h.apply(vm)
	want("changed while the guest runs")
	if s, ok := h.reportedVM(vm.ID); !ok || s.Status.Policy != vm.Spec.Policy {
		t.Errorf("the host state has the policy %+v, want the VM's policy", s.Status.Policy)
	}
}
