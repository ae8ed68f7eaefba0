//go:build linux

package link

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// newFakeDevices returns Devices with a kernel in memory. Their rollback process only reports that it waits.
func newFakeDevices(t *testing.T, f *fakeKernel, dir string, reach func(context.Context, string) error) *Devices {
	t.Helper()
	rollback := func(time.Duration) (*exec.Cmd, error) { return exec.Command("echo", rollbackReadyLine), nil }
	k, err := open(Options{Dir: dir, BootID: "boot-1", PortalTimeout: time.Second, ReachPortal: reach, RollbackCommand: rollback}, f)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func portalUnreachable(context.Context, string) error { return errors.New("no route to host") }

// newHostWithBridge returns a host with the network's bridge, its addresses and a guest.
func newHostWithBridge() *fakeKernel {
	f := newFakeKernel()
	d := f.devices["eth1"]
	f.devices["qx-wire"] = &device{Name: "qx-wire", Kind: "bridge", Owner: ownerAlias(newUplinkNetwork()), MAC: d.MAC, MTU: 1500, Up: true, Addresses: d.Addresses, Routes: d.Routes}
	f.devices["vnet0"] = &device{Name: "vnet0", Kind: "tuntap", Master: "qx-wire", Up: true}
	d.Master, d.Addresses, d.Routes = "qx-wire", nil, nil
	f.carrierDevices = []string{"qx-wire"}
	return f
}

// bridgeEdits are administrators' changes of an existing bridge that the plan would revert. A rollback restores them in
// every case.
var bridgeEdits = map[string]func(*fakeKernel){
	"an address on the device": func(f *fakeKernel) { f.devices["eth1"].Addresses = []IPAddress{{CIDR: "10.9.0.50/24"}} },
	"the device taken out":     func(f *fakeKernel) { f.devices["eth1"].Master = "" },
	"the device taken out with the addresses": func(f *fakeKernel) {
		b, d := f.devices["qx-wire"], f.devices["eth1"]
		d.Master, d.Addresses, d.Routes = "", b.Addresses, b.Routes
		b.Addresses, b.Routes, f.carrierDevices = nil, nil, []string{"eth1"}
	},
	"a spanning tree": func(f *fakeKernel) { f.devices["qx-wire"].STP = true },
}

func TestRollbackKeepsExistingBridge(t *testing.T) {
	t.Parallel()
	for name, alter := range bridgeEdits {
		f := newHostWithBridge()
		alter(f)
		was := f.String()
		k := newFakeDevices(t, f, t.TempDir(), portalUnreachable)
		if st := k.reportedStatus(newUplinkNetwork()); st.Error == "" {
			t.Errorf("%s: it does not show", name)
		}
		if err := k.Apply(t.Context(), "order", newUplinkNetwork()); err == nil || f.String() != was {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, f, was)
		}
		k.options.ReachPortal = portalReachable
		if err := k.Apply(t.Context(), "another", newUplinkNetwork()); err != nil || f.devices["eth1"].Master != "qx-wire" || len(f.devices["eth1"].Addresses) > 0 || f.devices["qx-wire"].STP {
			t.Errorf("%s, confirmed: %v\n%s", name, err, f)
		}
	}
}

func TestRollbackOfExistingBridgeFromEveryStep(t *testing.T) {
	t.Parallel()
	n := newUplinkNetwork()
	for name, alter := range bridgeEdits {
		for cut := 0; ; cut++ {
			f := newHostWithBridge()
			alter(f)
			was := f.String()
			p, _ := f.read(n, true)
			steps, _, err := planUplink(n, p)
			if err != nil {
				t.Fatal(err)
			}
			if cut > len(steps) {
				break
			}
			f.doAll(steps[:cut])
			if errs := runRollbackSteps(f, unconfirmedChange{Network: n, Before: stateBeforeApply(p)}); len(errs) > 0 || f.String() != was {
				t.Errorf("%s, after %d steps and back: %v\n%s\nwant\n%s", name, cut, errs, f, was)
			}
		}
	}
}

// The agent is delayed for so long that the rollback process undoes the change, and then continues.
func TestDelayedAgentDoesNotRepeatRolledBackChange(t *testing.T) {
	t.Parallel()
	for _, at := range []stepKind{dropAddress, dropRoute, joinBridge, giveAddress} {
		f, dir := newFakeKernel(), t.TempDir()
		was := f.String()
		f.before = func(s step) {
			if s.kind != at {
				return
			}
			f.before = nil
			var c unconfirmedChange
			if found, err := loadJSON(dir, journalFile, &c); err != nil || !found {
				t.Errorf("no journal: %v", err)
			}
			if errs := runRollbackSteps(f, c); len(errs) > 0 {
				t.Error(errs)
			}
			if err := recordRollback(dir, c, "The rollback process has undone the change."); err != nil {
				t.Error(err)
			}
		}
		err := newFakeDevices(t, f, dir, portalReachable).Apply(t.Context(), "order", newUplinkNetwork())
		if err == nil || f.String() != was {
			t.Errorf("before it was to %s: %v\n%s\nwant\n%s", at, err, f, was)
		}
	}
}

func TestNoNetworkChangeStepRunsAfterDeadline(t *testing.T) {
	t.Parallel()
	f := newFakeKernel()
	k := newFakeDevices(t, f, t.TempDir(), portalReachable)
	if err := k.runSteps([]step{{kind: dropAddress, device: "eth1"}}, time.Now()); err == nil || len(f.steps) > 0 {
		t.Errorf("%v %v", err, f.steps)
	}
}

// A change whose confirmation cannot be written is rolled back at once. Otherwise the next start of the agent would
// roll it back, at any later time.
func TestUnconfirmedChangeIsRolledBack(t *testing.T) {
	t.Parallel()
	f, dir := newFakeKernel(), t.TempDir()
	was := f.String()
	k := newFakeDevices(t, f, dir, func(context.Context, string) error {
		journal := filepath.Join(dir, journalFile)
		return errors.Join(os.Remove(journal), os.MkdirAll(filepath.Join(journal, "in the way"), 0o700))
	})
	err := k.Apply(t.Context(), "order", newUplinkNetwork())
	if err == nil || !strings.Contains(err.Error(), "could not be recorded") || f.String() != was {
		t.Errorf("%v\n%s\nwant\n%s", err, f, was)
	}
}

// Restore is repeated for a network with a missing device. A device that somebody removes meanwhile stays removed.
func TestRestoreCreatesDevicesOnce(t *testing.T) {
	t.Parallel()
	f, dir := newFakeKernel(), t.TempDir()
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Up: true}
	k := newFakeDevices(t, f, dir, portalReachable)
	second := newUplinkNetwork()
	second.ID, second.Name = "01a2074e-3760-7000-8464-3f2fd20d3346", "second"
	second.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth2", Bridge: "qx-two"}
	for _, n := range []fleet.Network{newUplinkNetwork(), second} {
		if err := k.Apply(t.Context(), "order", n); err != nil {
			t.Fatal(err)
		}
	}
	f = newFakeKernel()
	k, err := open(Options{Dir: dir, BootID: "boot-2", ReachPortal: portalReachable}, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); err == nil || !strings.Contains(err.Error(), "no device eth2") || f.devices["qx-wire"] == nil {
		t.Fatalf("%v\n%s", err, f)
	}
	if err := f.runStep(step{kind: removeLink, device: "qx-wire"}); err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); err == nil || f.devices["qx-wire"] != nil {
		t.Errorf("a device that somebody removed is created again: %v\n%s", err, f)
	}
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Up: true}
	if err := k.Restore(t.Context()); err != nil || f.devices["qx-two"] == nil {
		t.Errorf("a late device is not created: %v\n%s", err, f)
	}
	did := len(f.steps)
	if err := k.Restore(t.Context()); err != nil || len(f.steps) != did {
		t.Errorf("a device is created twice: %v %v", err, f.steps[did:])
	}
}

// A second uplink in a bridge may be a loop and is reported. A guest's NIC is no uplink, whatever its name.
func TestSecondUplinkOfBridgeIsReported(t *testing.T) {
	t.Parallel()
	f := newHostWithBridge()
	f.devices["web-card"] = &device{Name: "web-card", Kind: "tuntap", Master: "qx-wire", Up: true}
	k := newFakeDevices(t, f, t.TempDir(), portalReachable)
	if st := k.reportedStatus(newUplinkNetwork()); st.Error != "" {
		t.Errorf("%+v", st)
	}
	if err := k.Apply(t.Context(), "order", newUplinkNetwork()); err != nil {
		t.Error(err)
	}
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Master: "qx-wire", Up: true}
	if st := k.reportedStatus(newUplinkNetwork()); !strings.Contains(st.Error, "Somebody put eth2 into the bridge qx-wire") {
		t.Errorf("%+v", st)
	}
}

func TestChangedSpanningTreeIsReported(t *testing.T) {
	t.Parallel()
	f := newHostWithBridge()
	f.devices["qx-wire"].STP = true
	st := newFakeDevices(t, f, t.TempDir(), portalReachable).reportedStatus(newUplinkNetwork())
	if !strings.Contains(st.Error, "spanning tree of the bridge qx-wire was switched on") {
		t.Errorf("%+v", st)
	}
	if slices.Contains(f.steps, "set the spanning tree of qx-wire") {
		t.Error("a read of the status changes the host")
	}
}
