package conformance

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func (h *testHost) releaseFunc(p fleet.Pool) func(context.Context) error {
	return func(ctx context.Context) error { return h.ReleasePool(ctx, p) }
}

func testNetworks(t *testing.T, h *testHost) {
	s := h.hostState()
	n, ok := find(s.Networks, func(n wire.NetworkReport) bool {
		return n.Kind == fleet.NetworkLibvirt && n.Name == h.harness.ActiveNetwork
	})
	if !ok || !n.Status.Active {
		t.Errorf("the network is reported as %+v, want it active", n)
	}
	if n.Status.Bridge == "" {
		return
	}
	if _, ok := find(s.Networks, func(o wire.NetworkReport) bool {
		return o.Kind == fleet.NetworkBridge && o.Name == n.Status.Bridge
	}); ok {
		t.Errorf("the bridge %s of a libvirt network is listed separately", n.Status.Bridge)
	}
}

func testConsole(t *testing.T, h *testHost) {
	vm := h.runningVM()
	for range 2 {
		conn, err := h.Console(h.ctx, vm.ID)
		h.requireNoError("console", err)
		conn.SetDeadline(time.Now().Add(conditionTimeout))
		hello := make([]byte, 12)
		if _, err := io.ReadFull(conn, hello); err != nil || !strings.HasPrefix(string(hello), "RFB 003") {
			t.Errorf("the console's first bytes are %q, %v, want the VNC version", hello, err)
		}
		h.requireNoError("close", conn.Close())
	}
}

func testWakeUps(t *testing.T, h *testHost) {
	vm := h.definedVM()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	wake := h.WatchChanges(ctx)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.waitWakeUps(wake, "the start", func() bool { return h.hasPower(vm.ID, fleet.Running) })
	h.harness.PowerOff(t, vm.ID)
	h.waitWakeUps(wake, "the power-off from outside", func() bool { return h.hasPower(vm.ID, fleet.Stopped) })
}

func (h *testHost) hasPower(id fleet.VMID, want fleet.Power) bool {
	r, ok := h.reportedVM(id)
	return ok && r.Status.Power == want
}

// waitWakeUps polls only after wake-ups, so a change without a wake-up fails the test.
func (h *testHost) waitWakeUps(wake <-chan struct{}, what string, ok func() bool) {
	h.t.Helper()
	limit := time.After(conditionTimeout)
	for {
		select {
		case <-wake:
			if ok() {
				return
			}
		case <-limit:
			h.t.Fatalf("%s sent no wake-up after which it was visible", what)
		}
	}
}

func testMeters(t *testing.T, h *testHost) {
	on, off := h.runningVM(), h.definedVM()
	h.waitUntil("the guest uses CPU time", func() bool {
		all, err := h.Meters(h.ctx)
		h.requireNoError("meters", err)
		if _, ok := find(all, func(m hypervisor.VMLoad) bool { return m.ID == off.ID }); ok {
			t.Fatal("a stopped guest has a meter")
		}
		m, ok := find(all, func(m hypervisor.VMLoad) bool { return m.ID == on.ID })
		return ok && m.CPUNanos > 0 && m.MemoryBytes > 0
	})
}

func testUnchangedStateIsEqual(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.newVM(newDisk(p))
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	first, ok := h.reportedVM(vm.ID)
	if !ok {
		t.Fatal("the VM is not in the snapshot")
	}
	pool := h.poolStatus(p)
	for range 5 {
		if again, _ := h.reportedVM(vm.ID); !reflect.DeepEqual(first, again) {
			t.Errorf("nothing changed, but the VM\n%+v became\n%+v", first, again)
		}
		if again := h.poolStatus(p); !reflect.DeepEqual(pool.Volumes, again.Volumes) || pool.CapacityBytes != again.CapacityBytes {
			t.Errorf("nothing changed, but the pool\n%+v became\n%+v", pool, again)
		}
	}
}

func testBackendReopened(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	first, _ := h.reportedVM(vm.ID)
	again := openTestHost(t, h.harness)
	again.pools = h.pools
	second, ok := again.reportedVM(vm.ID)
	if !ok || !reflect.DeepEqual(first, second) {
		t.Errorf("the new backend reports\n%+v, the old one\n%+v", second, first)
	}
	if s := again.poolStatus(p); s.State != fleet.PoolActive {
		t.Errorf("the new backend reports the pool as %+v, want it active", s)
	}
}

func testCallDeadline(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	ended, cancel := context.WithCancel(h.ctx)
	cancel()
	_, _, look := h.VM(ended, vm.ID)
	_, meters := h.Meters(ended)
	_, console := h.Console(ended, vm.ID)
	for act, err := range map[string]error{
		"VM": look, "Meters": meters, "Console": console,
		"ApplyVM": h.ApplyVM(ended, h.applyJob(vm)), "StartVM": h.StartVM(ended, vm.ID),
		"StopVM": h.StopVM(ended, vm.ID), "DeleteVM": h.DeleteVM(ended, vm, h.pools, true),
		"ApplyPool": h.ApplyPool(ended, p), "ReleasePool": h.ReleasePool(ended, p),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: the error is %v, want context.Canceled", act, err)
		}
	}
	h.wantPower(vm.ID, fleet.Stopped)
}

// While the hypervisor is unreachable, the last known state is reported with the host disconnected. No object is
// reported as missing.
func testHypervisorUnreachable(t *testing.T, h *testHost) {
	vm := h.runningVM()
	before, _ := h.reportedVM(vm.ID)
	wake := h.WatchChanges(h.ctx)
	plug := h.harness.DisconnectHypervisor(t)

	h.waitWakeUps(wake, "the loss", func() bool { return !h.hostState().Host.Connected })
	s := h.hostState()
	if s.Host.Error == "" {
		t.Error("the loss of the connection has no reason")
	}
	if r, ok := find(s.VMs, func(r wire.VMReport) bool { return r.ID == vm.ID }); !ok || !reflect.DeepEqual(r, before) {
		t.Errorf("while the hypervisor is unreachable, the VM's report is %+v, %v, want the last report", r, ok)
	}
	if _, _, err := h.VM(h.ctx, vm.ID); err == nil {
		t.Error("a VM was read although the hypervisor is unreachable")
	}
	if h.StopVM(h.ctx, vm.ID) == nil {
		t.Error("a VM was stopped although the hypervisor is unreachable")
	}

	plug()
	back := time.Now()
	h.waitWakeUps(wake, "the return", func() bool { return h.hostState().Host.Connected })
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("the backend reconnected only after %s", took)
	}
	if r, ok := h.reportedVM(vm.ID); !ok || r.Status.Power != fleet.Running || r.Generation != before.Generation {
		t.Errorf("after the reconnection, the VM's report is %+v, want it running", r)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
}

func testHypervisorHangs(t *testing.T, h *testHost) {
	vm := h.runningVM()
	h.reportedVM(vm.ID)
	thaw := h.harness.FreezeHypervisor(t)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(h.ctx, time.Second)
	defer cancel()
	if _, _, err := h.VM(ctx, vm.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read a VM of a hypervisor that does not answer: the error is %v, want DeadlineExceeded", err)
	}
	if err := h.StopVM(ctx, vm.ID); err == nil {
		t.Error("StopVM succeeded on a hypervisor that does not answer")
	}
	if s, err := h.HostState(ctx, hypervisor.Assignment{}); err == nil && s.Host.Connected {
		t.Error("Snapshot reports an answering hypervisor")
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("a deadline of one second ended the call after %s", took)
	}
	thaw()
	h.waitUntil("the backend has reconnected", func() bool { return h.hostState().Host.Connected })
	h.wantPower(vm.ID, fleet.Running)
}
