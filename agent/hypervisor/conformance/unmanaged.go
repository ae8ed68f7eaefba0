package conformance

import (
	"io"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func testUnmanagedVMPower(t *testing.T, h *testHost) {
	id := h.harness.DefineUnmanagedVM(t, uniqueName("foreign"))
	do := func(act fleet.Action, want fleet.Power) {
		t.Helper()
		h.requireNoError(string(act), h.ControlUnmanagedVM(h.ctx, id, act))
		if got := h.harness.PowerOf(t, id); got != want {
			t.Errorf("after %q the unmanaged domain has the power state %q, want %q", act, got, want)
		}
	}
	for range 2 { // the second call finds the wanted state
		do(fleet.ActPause, fleet.Paused)
	}
	for range 2 {
		do(fleet.ActResume, fleet.Running)
	}
	do(fleet.ActReset, fleet.Running)
	do(fleet.ActReboot, fleet.Running)
	for range 2 {
		do(fleet.ActStop, fleet.Stopped)
	}
	do(fleet.ActShutdown, fleet.Stopped)
	h.requireRefusal("reset while off", h.ControlUnmanagedVM(h.ctx, id, fleet.ActReset), "not running")
	h.requireRefusal("pause while off", h.ControlUnmanagedVM(h.ctx, id, fleet.ActPause), "not running")
	for range 2 {
		do(fleet.ActStart, fleet.Running)
	}
	h.requireRefusal("delete", h.ControlUnmanagedVM(h.ctx, id, fleet.ActDelete), "no power action")

	f, ok := find(h.hostState().Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == id })
	if !ok || f.Status.NoConsole != "" || f.Status.Transient {
		t.Errorf("the discovered domain is %+v, want it persistent and with a console", f)
	}
	console, err := h.Console(h.ctx, id)
	h.requireNoError("console", err)
	defer console.Close()
	console.SetDeadline(time.Now().Add(conditionTimeout))
	hello := make([]byte, 12)
	if _, err := io.ReadFull(console, hello); err != nil || !strings.HasPrefix(string(hello), "RFB 003") {
		t.Errorf("the console's first bytes are %q, %v, want the VNC version", hello, err)
	}
	managed := h.runningVM()
	h.requireRefusal("stop a VM of Quantix", h.ControlUnmanagedVM(h.ctx, managed.ID, fleet.ActStop), "is a VM of Quantix")
	h.wantPower(managed.ID, fleet.Running)
}

// testTransientUnmanagedVM checks that no action makes the host lose a domain.
func testTransientUnmanagedVM(t *testing.T, h *testHost) {
	id := h.harness.DefineUnmanagedVM(t, uniqueName("foreign"))
	restore := h.harness.SaveDefinition(t, id)
	h.harness.UndefineVM(t, id)
	defer restore()
	h.waitUntil("the domain is reported without a definition", func() bool {
		f, ok := find(h.hostState().Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == id })
		return ok && f.Status.Transient
	})
	h.requireRefusal("force off", h.ControlUnmanagedVM(h.ctx, id, fleet.ActStop), "no persistent definition")
	h.requireRefusal("shut down", h.ControlUnmanagedVM(h.ctx, id, fleet.ActShutdown), "no persistent definition")
	if got := h.harness.PowerOf(t, id); got != fleet.Running {
		t.Errorf("the unmanaged domain has the power state %q, want it running", got)
	}
}
