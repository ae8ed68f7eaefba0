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

// devicesOn returns Devices with a kernel in memory. Their rollback process only reports that it waits.
func devicesOn(t *testing.T, f *fake, dir string, reach func(context.Context, string) error) *Devices {
	t.Helper()
	rollback := func(time.Duration) (*exec.Cmd, error) { return exec.Command("echo", armedLine), nil }
	k, err := open(Options{Dir: dir, Boot: "boot-1", Limit: time.Second, Reach: reach, RollbackCommand: rollback}, f)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func unreached(context.Context, string) error { return errors.New("no route to host") }

// hostWithBridge returns a host with the network's bridge, its addresses and a guest.
func hostWithBridge() *fake {
	f := newFake()
	d := f.devices["eth1"]
	f.devices["qx-wire"] = &device{Name: "qx-wire", Kind: "bridge", Owner: owner(uplink()), MAC: d.MAC, MTU: 1500, Up: true, Addresses: d.Addresses, Routes: d.Routes}
	f.devices["vnet0"] = &device{Name: "vnet0", Kind: "tuntap", Master: "qx-wire", Up: true}
	d.Master, d.Addresses, d.Routes = "qx-wire", nil, nil
	f.by = []string{"qx-wire"}
	return f
}

// altered are administrators' changes of an existing bridge that the plan would revert. A rollback restores them in
// every case.
var altered = map[string]func(*fake){
	"an address on the device": func(f *fake) { f.devices["eth1"].Addresses = []Address{{CIDR: "10.9.0.50/24"}} },
	"the device taken out":     func(f *fake) { f.devices["eth1"].Master = "" },
	"the device taken out with the addresses": func(f *fake) {
		b, d := f.devices["qx-wire"], f.devices["eth1"]
		d.Master, d.Addresses, d.Routes = "", b.Addresses, b.Routes
		b.Addresses, b.Routes, f.by = nil, nil, []string{"eth1"}
	},
	"a spanning tree": func(f *fake) { f.devices["qx-wire"].STP = true },
}

func TestRollbackKeepsExistingBridge(t *testing.T) {
	t.Parallel()
	for name, alter := range altered {
		f := hostWithBridge()
		alter(f)
		was := f.String()
		k := devicesOn(t, f, t.TempDir(), unreached)
		if st := k.seen(uplink()); st.Error == "" {
			t.Errorf("%s: it does not show", name)
		}
		if err := k.Apply(t.Context(), "order", uplink()); err == nil || f.String() != was {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, f, was)
		}
		k.o.Reach = reached
		if err := k.Apply(t.Context(), "another", uplink()); err != nil || f.devices["eth1"].Master != "qx-wire" || len(f.devices["eth1"].Addresses) > 0 || f.devices["qx-wire"].STP {
			t.Errorf("%s, confirmed: %v\n%s", name, err, f)
		}
	}
}

func TestRollbackOfExistingBridgeFromEveryStep(t *testing.T) {
	t.Parallel()
	n := uplink()
	for name, alter := range altered {
		for cut := 0; ; cut++ {
			f := hostWithBridge()
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
			f.all(steps[:cut])
			if errs := rollBack(f, change{Network: n, Before: beforeApply(p)}); len(errs) > 0 || f.String() != was {
				t.Errorf("%s, after %d steps and back: %v\n%s\nwant\n%s", name, cut, errs, f, was)
			}
		}
	}
}

// The agent is delayed for so long that the rollback process undoes the change, and then continues.
func TestDelayedAgentDoesNotRepeatRolledBackChange(t *testing.T) {
	t.Parallel()
	for _, at := range []stepKind{dropAddress, dropRoute, joinBridge, giveAddress} {
		f, dir := newFake(), t.TempDir()
		was := f.String()
		f.before = func(s step) {
			if s.kind != at {
				return
			}
			f.before = nil
			var c change
			if found, err := load(dir, journalFile, &c); err != nil || !found {
				t.Errorf("no journal: %v", err)
			}
			if errs := rollBack(f, c); len(errs) > 0 {
				t.Error(errs)
			}
			if err := recordRollback(dir, c, "The rollback process has undone the change."); err != nil {
				t.Error(err)
			}
		}
		err := devicesOn(t, f, dir, reached).Apply(t.Context(), "order", uplink())
		if err == nil || f.String() != was {
			t.Errorf("before it was to %s: %v\n%s\nwant\n%s", at, err, f, was)
		}
	}
}

func TestNoStepRunsAfterDeadline(t *testing.T) {
	t.Parallel()
	f := newFake()
	k := devicesOn(t, f, t.TempDir(), reached)
	if err := k.runSteps([]step{{kind: dropAddress, device: "eth1"}}, time.Now()); err == nil || len(f.done) > 0 {
		t.Errorf("%v %v", err, f.done)
	}
}

// A change whose confirmation cannot be written is rolled back at once. Otherwise the next start of the agent would
// roll it back, at any later time.
func TestUnconfirmedChangeIsRolledBack(t *testing.T) {
	t.Parallel()
	f, dir := newFake(), t.TempDir()
	was := f.String()
	k := devicesOn(t, f, dir, func(context.Context, string) error {
		journal := filepath.Join(dir, journalFile)
		return errors.Join(os.Remove(journal), os.MkdirAll(filepath.Join(journal, "in the way"), 0o700))
	})
	err := k.Apply(t.Context(), "order", uplink())
	if err == nil || !strings.Contains(err.Error(), "could not be recorded") || f.String() != was {
		t.Errorf("%v\n%s\nwant\n%s", err, f, was)
	}
}

// Restore is repeated for a network with a missing device. A device that somebody removes meanwhile stays removed.
func TestRestoreCreatesDevicesOnce(t *testing.T) {
	t.Parallel()
	f, dir := newFake(), t.TempDir()
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Up: true}
	k := devicesOn(t, f, dir, reached)
	second := uplink()
	second.ID, second.Name = "01a2074e-3760-7000-8464-3f2fd20d3346", "second"
	second.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth2", Bridge: "qx-two"}
	for _, n := range []fleet.Network{uplink(), second} {
		if err := k.Apply(t.Context(), "order", n); err != nil {
			t.Fatal(err)
		}
	}
	f = newFake()
	k, err := open(Options{Dir: dir, Boot: "boot-2", Reach: reached}, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); err == nil || !strings.Contains(err.Error(), "no device eth2") || f.devices["qx-wire"] == nil {
		t.Fatalf("%v\n%s", err, f)
	}
	if err := f.do(step{kind: removeLink, device: "qx-wire"}); err != nil {
		t.Fatal(err)
	}
	if err := k.Restore(t.Context()); err == nil || f.devices["qx-wire"] != nil {
		t.Errorf("a device that somebody removed is created again: %v\n%s", err, f)
	}
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Up: true}
	if err := k.Restore(t.Context()); err != nil || f.devices["qx-two"] == nil {
		t.Errorf("a late device is not created: %v\n%s", err, f)
	}
	did := len(f.done)
	if err := k.Restore(t.Context()); err != nil || len(f.done) != did {
		t.Errorf("a device is created twice: %v %v", err, f.done[did:])
	}
}

// A second uplink in a bridge may be a loop and is reported. A guest's NIC is no uplink, whatever its name.
func TestSecondUplinkOfBridgeIsReported(t *testing.T) {
	t.Parallel()
	f := hostWithBridge()
	f.devices["web-card"] = &device{Name: "web-card", Kind: "tuntap", Master: "qx-wire", Up: true}
	k := devicesOn(t, f, t.TempDir(), reached)
	if st := k.seen(uplink()); st.Error != "" {
		t.Errorf("%+v", st)
	}
	if err := k.Apply(t.Context(), "order", uplink()); err != nil {
		t.Error(err)
	}
	f.devices["eth2"] = &device{Name: "eth2", Kind: "device", Master: "qx-wire", Up: true}
	if st := k.seen(uplink()); !strings.Contains(st.Error, "Somebody put eth2 into the bridge qx-wire") {
		t.Errorf("%+v", st)
	}
}

func TestChangedSpanningTreeIsReported(t *testing.T) {
	t.Parallel()
	f := hostWithBridge()
	f.devices["qx-wire"].STP = true
	st := devicesOn(t, f, t.TempDir(), reached).seen(uplink())
	if !strings.Contains(st.Error, "spanning tree of the bridge qx-wire was switched on") {
		t.Errorf("%+v", st)
	}
	if slices.Contains(f.done, "set the spanning tree of qx-wire") {
		t.Error("a read of the status changes the host")
	}
}
