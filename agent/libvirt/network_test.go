//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

func newTestNetwork(t *testing.T, hv hypervisor.Hypervisor) fleet.Network {
	t.Helper()
	var b [2]byte
	rand.Read(b[:])
	at := fmt.Sprintf("10.%d.%d.", 128+b[0]%64, b[1])
	id := fleet.NewID[fleet.NetworkID]()
	n := fleet.Network{
		ID: id, Name: "own-" + string(id[len(id)-8:]), Kind: fleet.NetworkLibvirt, Generation: 1,
		Spec: &fleet.NetworkSpec{
			Mode: fleet.NetworkNAT, DNS: true, Bridge: "qxo" + string(id[len(id)-8:]),
			IPv4: &fleet.Subnet{Gateway: at + "1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: at + "100", End: at + "150"}}}},
		},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := hv.ReleaseNetwork(ctx, n); err != nil {
			t.Error(err)
		}
	})
	return n
}

func wantContains(t *testing.T, what, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", what, want, text)
		}
	}
}

// After an apply, virsh shows the network, and its dnsmasq serves the configured range. After the release, nothing of
// the network is left on the host.
func TestAppliedNetworkRunsInLibvirt(t *testing.T) {
	t.Parallel()
	hv := openBackend(t)
	t.Cleanup(func() { hv.Close() }) // after the other cleanups of the test
	n := newTestNetwork(t, hv)
	if err := hv.ApplyNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	gateway, _, _ := strings.Cut(n.Spec.IPv4.Gateway, "/")
	wantContains(t, "the definition", virsh(t, "net-dumpxml", n.Name, "--inactive"), "<uuid>"+string(n.ID)+"</uuid>", "quantix:generation>1<", "<forward mode='nat'", n.Spec.Bridge, "address='"+gateway+"'")
	wantContains(t, "the information", strings.Join(strings.Fields(virsh(t, "net-info", n.Name)), " "), "Active: yes", "Persistent: yes", "Autostart: yes", "Bridge: "+n.Spec.Bridge)
	wantContains(t, "the bridge", run(t, "ip", "-4", "-o", "addr", "show", "dev", n.Spec.Bridge), n.Spec.IPv4.Gateway)
	line, err := os.ReadFile("/proc/" + strconv.Itoa(dnsmasqPID(t, n.Name)) + "/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, "the process", string(line), "dnsmasq", n.Name+".conf")
	conf, err := os.ReadFile("/var/lib/libvirt/dnsmasq/" + n.Name + ".conf")
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, "dnsmasq's configuration", string(conf), "dhcp-range="+n.Spec.IPv4.DHCP.Ranges[0].Start+","+n.Spec.IPv4.DHCP.Ranges[0].End)
	before := virsh(t, "net-dumpxml", n.Name, "--inactive")
	if err := hv.ApplyNetwork(t.Context(), n); err != nil {
		t.Error(err)
	}
	if after := virsh(t, "net-dumpxml", n.Name, "--inactive"); after != before {
		t.Errorf("the second apply changed the definition to\n%s\nfrom\n%s", after, before)
	}
	if err := hv.ReleaseNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if out, err := tryVirsh("net-info", n.Name); err == nil {
		t.Errorf("the network still exists after its release: %s", out)
	}
	if _, err := os.Stat("/sys/class/net/" + n.Spec.Bridge); err == nil {
		t.Error("the bridge outlives its network")
	}
}

// A newer generation replaces an older definition that nobody has edited.
func TestNewerNetworkGenerationReplacesOlder(t *testing.T) {
	t.Parallel()
	hv := openBackend(t)
	t.Cleanup(func() { hv.Close() }) // after the other cleanups of the test
	n := newTestNetwork(t, hv)
	if err := hv.ApplyNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	next, spec := n, *n.Spec
	spec.Domain = "next.example.org"
	next.Generation, next.Spec = 2, &spec
	if err := hv.ApplyNetwork(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	wantContains(t, "the definition", virsh(t, "net-dumpxml", n.Name, "--inactive"), "next.example.org", "quantix:generation>2<", "<uuid>"+string(n.ID)+"</uuid>")
}

// The error of a failed start has libvirt's message. The definition stays, and a later apply starts the network.
func TestNetworkStartFailureReportsReason(t *testing.T) {
	t.Parallel()
	hv := openBackend(t)
	t.Cleanup(func() { hv.Close() }) // after the other cleanups of the test
	first, second := newTestNetwork(t, hv), newTestNetwork(t, hv)
	second.Spec.IPv4 = first.Spec.IPv4
	if err := hv.ApplyNetwork(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	err := hv.ApplyNetwork(t.Context(), second)
	if err == nil || !strings.Contains(err.Error(), "etwork is already in use by interface "+first.Spec.Bridge) {
		t.Fatalf("two networks with the same addresses: %v", err)
	}
	if err := hv.ReleaseNetwork(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := hv.ApplyNetwork(t.Context(), second); err != nil {
		t.Error(err)
	}
	third := newTestNetwork(t, hv)
	third.Spec.Bridge = second.Spec.Bridge
	if err := hv.ApplyNetwork(t.Context(), third); err == nil || !strings.Contains(err.Error(), second.Spec.Bridge) {
		t.Errorf("two networks with the same bridge: %v", err)
	}
}

// The error for a device without virtual functions has libvirt's message.
func TestSRIOVNetworkRefusedWithoutVirtualFunctions(t *testing.T) {
	t.Parallel()
	hv := openBackend(t)
	t.Cleanup(func() { hv.Close() }) // after the other cleanups of the test
	n := newTestNetwork(t, hv)
	n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "lo"}
	if err := hv.ApplyNetwork(t.Context(), n); err == nil || !strings.Contains(err.Error(), "No usable Vf's present on SRIOV PF lo") {
		t.Errorf("apply: %v, want libvirt's error", err)
	}
}

// Guests' NICs get the MTU of networks that Quantix created, at start and on hot-plug.
func TestGuestNICGetsNetworkMTU(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	id := fleet.NewID[fleet.NetworkID]()
	n := fleet.Network{ID: id, Name: "over-" + string(id[len(id)-8:]), Kind: fleet.NetworkLibvirt, Generation: 1, Spec: &fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 7, Underlay: "10.50.0.0/24"}}
	bridge := n.BridgeDevice()
	run(t, "ip", "link", "add", bridge, "mtu", "1450", "type", "bridge")
	t.Cleanup(func() { deleteNetworkLink(t, bridge) })
	f.requireNoError(f.ApplyNetwork(t.Context(), n))
	vm := f.newVM()
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := f.DeleteVM(ctx, vm, []fleet.Pool{f.pool}, true); err != nil {
			t.Error(err)
		}
		if err := f.ReleaseNetwork(ctx, n); err != nil {
			t.Error(err)
		}
	})
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
	vm.Spec.NICs = []fleet.NIC{{Network: n.Name, MAC: "52:54:00:0b:00:01"}, {Network: "default", MAC: "52:54:00:0b:00:02"}}
	f.apply(vm)
	in := guestPeer{fixture: f, vm: &vm}
	mtus := func(want string) {
		t.Helper()
		waitFor(t, "the guest's agent answers", func() bool {
			_, err := tryVirsh("qemu-agent-command", string(vm.ID), `{"execute":"guest-ping"}`)
			return err == nil
		})
		if got := strings.Join(strings.Fields(in.runCommand("cat /sys/class/net/eth*/mtu")), " "); got != want {
			t.Errorf("the guest's NICs have the MTUs %s, want %s", got, want)
		}
	}
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	mtus("1450 1500")
	vm.Generation++
	vm.Spec.NICs = append(vm.Spec.NICs, fleet.NIC{Network: n.Name, MAC: "52:54:00:0b:00:03"})
	f.apply(vm)
	mtus("1450 1500 1450")
	f.requireNoError(f.StopVM(t.Context(), vm.ID))
	run(t, "ip", "link", "set", bridge, "mtu", "1400")
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	mtus("1400 1500 1400")
	if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.Drift) > 0 || len(s.NextBoot) > 0 {
		t.Errorf("the MTU shows as drift or as a pending change: %+v %v", s, err)
	}
	// A change of a running NIC's filter leaves the NIC on its network.
	vm.Generation++
	antiSpoofing := true
	vm.Spec.NICs = slices.Clone(vm.Spec.NICs)
	vm.Spec.NICs[0].AntiSpoofing = &antiSpoofing
	f.apply(vm)
	wantContains(t, "the running NIC", virsh(t, "dumpxml", string(vm.ID)), "<source network='"+n.Name+"'", "<filterref filter='"+hypervisor.FilterName(vm.ID, vm.Spec.NICs[0].MAC)+"'")
	if s, _, err := f.VM(t.Context(), vm.ID); err != nil || len(s.Drift) > 0 || len(s.NextBoot) > 0 || s.NICs[0].Source != "network "+n.Name || s.NICs[0].Filter == "" {
		t.Errorf("with anti-spoofing: %+v %v", s, err)
	}
}
