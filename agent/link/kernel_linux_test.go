//go:build linux

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// testRoleEnv names the environment variable that makes the test binary run as an agent or a rollback process.
const testRoleEnv = "QUANTIX_LINK_TEST"

// TestMain runs as the agent or as its rollback process if a test starts this program again.
func TestMain(m *testing.M) {
	dir := os.Getenv("QUANTIX_LINK_DIR")
	var err error
	switch os.Getenv(testRoleEnv) {
	case "rollback":
		after, _ := time.ParseDuration(os.Getenv("QUANTIX_LINK_AFTER"))
		err = RollBackUnlessConfirmed(context.Background(), dir, after)
	case "agent": // makes a change that nobody confirms
		var n fleet.Network
		if err = json.Unmarshal([]byte(os.Getenv("QUANTIX_LINK_NETWORK")), &n); err == nil {
			var k *Devices
			if k, err = Open(testOptions(dir, 2*time.Second, func(context.Context, string) error { return errors.New("nobody answers") })); err == nil {
				err = k.Apply(context.Background(), os.Getenv("QUANTIX_LINK_ORDER"), n)
			}
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func testOptions(dir string, limit time.Duration, reach func(context.Context, string) error) Options {
	return Options{
		Dir: dir, BootID: "boot-1", PortalTimeout: limit, Portal: "10.9.0.1", ReachPortal: reach,
		RollbackCommand: func(after time.Duration) (*exec.Cmd, error) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), testRoleEnv+"=rollback", "QUANTIX_LINK_DIR="+dir, "QUANTIX_LINK_AFTER="+after.String())
			return cmd, nil
		},
	}
}

// runsInNamespace runs the test again in a temporary network namespace, and reports whether this is that run.
func runsInNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("QUANTIX_LINK_APART") != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), "QUANTIX_LINK_APART=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func runIP(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// addWiredDevice gives the namespace a device with an address, a route and a peer.
func addWiredDevice(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "sysfs", "sysfs", "/sys").CombinedOutput(); err != nil {
		t.Fatalf("mount sysfs: %v: %s", err, out)
	}
	runIP(t, "link", "set", "lo", "up")
	runIP(t, "link", "add", "eth1", "type", "veth", "peer", "name", "far")
	runIP(t, "link", "set", "far", "up")
	runIP(t, "addr", "add", "10.9.0.2/24", "dev", "eth1")
	runIP(t, "addr", "add", "fd00:9::2/64", "dev", "eth1", "nodad")
	runIP(t, "link", "set", "eth1", "up")
	runIP(t, "route", "add", "default", "via", "10.9.0.1")
	runIP(t, "route", "add", "10.77.0.0/16", "via", "10.9.0.3", "metric", "50", "src", "10.9.0.2")
	runIP(t, "-6", "route", "add", "fd00:77::/64", "via", "fd00:9::1")
}

// addressesAndRoutes returns the host's addresses and routes without dynamic ones.
func addressesAndRoutes(t *testing.T) string {
	t.Helper()
	out := []string{}
	for _, args := range [][]string{{"-o", "addr"}, {"route"}, {"-6", "route"}, {"-br", "link"}} {
		for line := range strings.Lines(runIP(t, args...)) {
			line = strings.ReplaceAll(line, " linkdown", "")
			if !strings.Contains(line, "fe80") && !strings.Contains(line, "far") {
				words := strings.Fields(strings.ReplaceAll(line, "nodad", ""))
				if args[0] == "-o" {
					words = words[1:] // the number differs each time
				}
				out = append(out, strings.Join(words, " "))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func newDevices(t *testing.T, o Options) *Devices {
	t.Helper()
	k, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func portalReachable(context.Context, string) error { return nil }

func (k *Devices) reportedStatus(n fleet.Network) (st fleet.NetworkStatus) {
	st.Active = true
	k.AddStatus(n, &st)
	return st
}

func requireTrue(t *testing.T, what string, ok bool, got ...any) {
	t.Helper()
	if !ok {
		t.Errorf("%s: %v", what, got)
	}
}

func TestOverlayDevicesAreCreatedAndRemoved(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	ctx, k, n := t.Context(), newDevices(t, testOptions(t.TempDir(), 0, portalReachable)), newOverlay("10.9.0.2", "10.9.0.3")
	n.Spec.Underlay = "10.9.0.0/24"
	was := addressesAndRoutes(t)
	for range 2 {
		if err := k.Apply(ctx, "order", n); err != nil {
			t.Fatal(err)
		}
		st := k.reportedStatus(n)
		requireTrue(t, "the overlay exists", st.Error == "" && st.VTEP == "10.9.0.2" && st.Peers == 1 && st.MTU == 1450 && st.Uplink == "eth1" && st.Bridge == n.BridgeDevice(), st)
	}
	n.Peers = []string{"10.9.0.2", "10.9.0.4", "10.9.0.5", "192.0.2.1"}
	if err := k.Apply(ctx, "order", n); err != nil {
		t.Fatal(err)
	}
	p, err := k.kernel.read(n, true)
	slices.Sort(p.tunnel.Peers)
	requireTrue(t, "the peers follow", err == nil && slices.Equal(p.tunnel.Peers, []string{"10.9.0.4", "10.9.0.5"}), p.tunnel.Peers)
	requireTrue(t, "guests do not reach the host by IPv6", !strings.Contains(runIP(t, "-6", "addr", "show", "dev", n.BridgeDevice()), "fe80"))
	runIP(t, "link", "set", n.TunnelDevice(), "nomaster")
	requireTrue(t, "a removed uplink is reported", strings.Contains(k.reportedStatus(n).Error, "uplink of the bridge"), k.reportedStatus(n))
	runIP(t, "link", "del", n.BridgeDevice())
	requireTrue(t, "a removed bridge is reported", strings.Contains(k.reportedStatus(n).Error, "was removed"), k.reportedStatus(n))
	if err := k.Restore(ctx); err != nil || !strings.Contains(k.reportedStatus(n).Error, "was removed") {
		t.Errorf("the agent's restart recreated a removed device: %v", err)
	}
	if err := k.Apply(ctx, "order", n); err != nil || k.reportedStatus(n).Error != "" {
		t.Errorf("the device is not recreated: %v %+v", err, k.reportedStatus(n))
	}
	if err := k.Release(ctx, "order", n); err != nil || addressesAndRoutes(t) != was {
		t.Errorf("after its release (%v) the host is\n%s\nand was\n%s", err, addressesAndRoutes(t), was)
	}
}

func TestUplinkAddressesAndRoutesMoveToBridge(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	ctx, dir, n, by := t.Context(), t.TempDir(), newUplinkNetwork(), ""
	k := newDevices(t, testOptions(dir, 0, func(_ context.Context, device string) error { by = device; return nil }))
	was := addressesAndRoutes(t)
	for range 2 {
		if err := k.Apply(ctx, "order", n); err != nil {
			t.Fatal(err)
		}
	}
	moved := strings.ReplaceAll(was, "dev eth1", "dev qx-wire")
	for line := range strings.Lines(moved) {
		if strings.Contains(line, "dev qx-wire") && !strings.Contains(addressesAndRoutes(t), strings.TrimSpace(line)) {
			t.Errorf("the host lacks %q:\n%s", strings.TrimSpace(line), addressesAndRoutes(t))
		}
	}
	requireTrue(t, "the portal is asked through the bridge", by == "qx-wire", by)
	requireTrue(t, "no change is open", !fileExists(dir, journalFile))
	mac := func(dev string) string { return strings.Fields(runIP(t, "-br", "link", "show", "dev", dev))[2] }
	requireTrue(t, "the bridge has the device's MAC address", mac("qx-wire") == mac("eth1"), mac("qx-wire"))

	// The host reboots: the kernel has lost all devices, and the host's own configuration gives the device its address.
	runIP(t, "link", "del", "qx-wire")
	runIP(t, "addr", "add", "10.9.0.2/24", "dev", "eth1")
	runIP(t, "route", "add", "default", "via", "10.9.0.1")
	o := testOptions(dir, 0, func(context.Context, string) error { return errors.New("the portal is away") })
	o.BootID = "boot-2"
	k = newDevices(t, o)
	if err := k.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	st := k.reportedStatus(n)
	requireTrue(t, "the bridge is recreated before the portal is reached", st.Error == "" && strings.Contains(addressesAndRoutes(t), "default via 10.9.0.1 dev qx-wire"), st, addressesAndRoutes(t))

	k = newDevices(t, testOptions(dir, 0, portalReachable))
	if err := k.Release(ctx, "order", n); err != nil {
		t.Fatal(err)
	}
	requireTrue(t, "the device has its address again", strings.Contains(addressesAndRoutes(t), "default via 10.9.0.1 dev eth1") && !strings.Contains(addressesAndRoutes(t), "qx-wire"), addressesAndRoutes(t))
}

func fileExists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func TestChangeThatCutsOffPortalIsRolledBack(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	ctx, dir, n := t.Context(), t.TempDir(), newUplinkNetwork()
	k := newDevices(t, testOptions(dir, time.Second, func(context.Context, string) error { return errors.New("no route to host") }))
	was := addressesAndRoutes(t)
	err := k.Apply(ctx, "order", n)
	requireTrue(t, "the error contains the reason", err != nil && strings.Contains(err.Error(), "no route to host"), err)
	requireTrue(t, "the host is as before", addressesAndRoutes(t) == was, addressesAndRoutes(t))
	st := k.reportedStatus(n)
	requireTrue(t, "the status reports the rollback", st.RolledBack != nil && strings.Contains(st.Error, "The change was undone"), st)
	k.options.ReachPortal = func(context.Context, string) error { t.Error("the same job is done again"); return nil }
	again := k.Apply(ctx, "order", n)
	requireTrue(t, "the same job is refused", again != nil && strings.Contains(again.Error(), "no route to host") && addressesAndRoutes(t) == was, again)
	k.options.ReachPortal = portalReachable
	if err := k.Apply(ctx, "another order", n); err != nil {
		t.Fatal(err)
	}
	requireTrue(t, "another job succeeds", k.reportedStatus(n).Error == "" && k.reportedStatus(n).RolledBack == nil, k.reportedStatus(n))
	bridged := addressesAndRoutes(t)
	k.options.ReachPortal = func(context.Context, string) error { return errors.New("no route to host") }
	err = k.Release(ctx, "a third order", n)
	requireTrue(t, "a release that cuts the host off is undone, too", err != nil && addressesAndRoutes(t) == bridged, err, addressesAndRoutes(t))
}

// The agent is killed during an unconfirmed change: the rollback process undoes the change. If the rollback process is
// killed, too, the next agent undoes it.
func TestKilledAgentsChangeIsRolledBack(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	dir, n := t.TempDir(), newUplinkNetwork()
	was := addressesAndRoutes(t)
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	start := func(order string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), testRoleEnv+"=agent", "QUANTIX_LINK_DIR="+dir, "QUANTIX_LINK_NETWORK="+string(text), "QUANTIX_LINK_ORDER="+order)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "the change is made", func() bool { return strings.Contains(addressesAndRoutes(t), "default via 10.9.0.1 dev qx-wire") })
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	start("first")
	requireTrue(t, "the dead agent has undone nothing", addressesAndRoutes(t) != was)
	waitUntil(t, "the rollback process undoes the change", func() bool { return addressesAndRoutes(t) == was && !fileExists(dir, journalFile) })
	k := newDevices(t, testOptions(dir, time.Second, portalReachable))
	requireTrue(t, "the next agent reports the rollback", k.reportedStatus(n).RolledBack != nil && strings.Contains(k.reportedStatus(n).Error, "did not confirm"), k.reportedStatus(n))

	start("second")
	k = newDevices(t, testOptions(dir, time.Second, portalReachable))
	requireTrue(t, "an agent that starts before the rollback process undoes the change at once", addressesAndRoutes(t) == was && strings.Contains(k.reportedStatus(n).Error, "the agent ended"), addressesAndRoutes(t), k.reportedStatus(n))
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s\n%s", what, addressesAndRoutes(t))
		}
	}
}

func TestNetworkChangeRefusedWithoutRollbackProcess(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	o := testOptions(t.TempDir(), time.Second, portalReachable)
	o.RollbackCommand = func(time.Duration) (*exec.Cmd, error) { return exec.Command("/bin/false"), nil }
	k, was := newDevices(t, o), addressesAndRoutes(t)
	err := k.Apply(t.Context(), "order", newUplinkNetwork())
	requireTrue(t, "the change is refused", err != nil && strings.Contains(err.Error(), "nothing was changed") && addressesAndRoutes(t) == was, err, addressesAndRoutes(t))
}

func TestKernelErrorsAreReported(t *testing.T) {
	if !runsInNamespace(t) {
		return
	}
	addWiredDevice(t)
	k, n, was := newDevices(t, testOptions(t.TempDir(), time.Second, portalReachable)), newUplinkNetwork(), addressesAndRoutes(t)
	n.Spec.VLAN = 7
	if err := k.Apply(t.Context(), "order", n); err != nil { // a kernel without VLANs
		requireTrue(t, "the error names the step and the kernel's error", strings.Contains(err.Error(), "make VLAN") && strings.Contains(err.Error(), "not supported"), err)
		requireTrue(t, "nothing is left half-made", addressesAndRoutes(t) == was, addressesAndRoutes(t))
	}
	for mode, words := range map[fleet.NetworkMode]string{fleet.NetworkBridged: "no bridge br0", fleet.NetworkMacvtap: "no device eth9", fleet.NetworkSRIOV: "no device eth9"} {
		x := fleet.Network{ID: n.ID, Spec: &fleet.NetworkSpec{Mode: mode, Bridge: "br0", Device: "eth9"}}
		if err := k.Apply(t.Context(), "order", x); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	x := fleet.Network{ID: n.ID, Spec: &fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth1"}}
	err := k.Apply(t.Context(), "order", x)
	requireTrue(t, "a device without functions", err != nil && strings.Contains(err.Error(), "no virtual functions"), err)
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, "class/net/eth1/device"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"sriov_numvfs": "4\n", "sriov_totalvfs": "8\n"} {
		if err := os.WriteFile(filepath.Join(sys, "class/net/eth1/device", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Two of the four functions are for guests (VFIO), one is used by the host, and one has no driver.
	for i, driver := range []string{"vfio-pci", "iavf", "vfio-pci"} {
		at := filepath.Join(sys, "class/net/eth1/device", fmt.Sprintf("virtfn%d", i))
		if err := errors.Join(os.MkdirAll(at, 0o755), os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(at, "driver"))); err != nil {
			t.Fatal(err)
		}
	}
	k.kernel = linuxKernel{sys}
	if err := k.Apply(t.Context(), "order", x); err != nil {
		t.Errorf("a device with functions is refused: %v", err)
	}
	st := fleet.NetworkStatus{Active: true}
	k.AddStatus(x, &st)
	requireTrue(t, "the status has the numbers of functions and of guests' functions", st.NICs != nil && *st.NICs == fleet.NetworkNICs{Total: 4, Used: 2} && st.Error == "", st.NICs, st.Error)
	if err := os.WriteFile(filepath.Join(sys, "class/net/eth1/device/sriov_numvfs"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	st = fleet.NetworkStatus{Active: true}
	k.AddStatus(x, &st)
	requireTrue(t, "the status reports missing functions", st.NICs != nil && st.NICs.Total == 0 && strings.Contains(st.Error, "no virtual functions"), st.NICs, st.Error)
	alone := fleet.Network{ID: n.ID, Spec: &fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Direct: fleet.DirectPassthrough, Device: "eth1"}}
	st = fleet.NetworkStatus{Active: true}
	k.AddStatus(alone, &st)
	requireTrue(t, "a device without guests", st.NICs != nil && *st.NICs == fleet.NetworkNICs{Total: 1}, st.NICs)
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		tryDeviceKinds(t.Context())
	}
	now, err := os.Readlink("/proc/self/ns/net")
	requireTrue(t, "the program stays in its network namespace", err == nil && now == namespace, now, namespace, err)
	for _, g := range (linuxKernel{sys}).networkGaps(t.Context()) {
		requireTrue(t, "no supported mode is reported as a gap", g.Mode != fleet.NetworkSRIOV && g.Mode != fleet.NetworkVXLAN, g)
	}
	if out, err := net.Interfaces(); err != nil || len(out) != 3 {
		t.Errorf("the trial left devices: %v %v", out, err)
	}
}
