package conformance

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// newNetwork returns a network that is not applied yet, with a subnet that no other network of the machine has. The
// test's cleanup releases the network.
func (h *testHost) newNetwork(mode fleet.NetworkMode) fleet.Network {
	h.t.Helper()
	var b [4]byte
	rand.Read(b[:])
	at := fmt.Sprintf("10.%d.%d.", 64+b[0]%64, b[1])
	id := fleet.NewID[fleet.NetworkID]()
	n := fleet.Network{
		ID: id, Name: uniqueName("net"), Kind: fleet.NetworkLibvirt, Generation: 1,
		Spec: &fleet.NetworkSpec{
			Mode: mode, DNS: true, Domain: "lab.example.org", Bridge: "qxt" + string(id[len(id)-8:]),
			IPv4: &fleet.Subnet{Gateway: at + "1/24", DHCP: &fleet.DHCP{
				Ranges: []fleet.AddressRange{{Start: at + "100", End: at + "150"}},
				Leases: []fleet.StaticLease{{MAC: "52:54:00:00:00:09", IP: at + "9", Name: "nine"}},
			}},
		},
	}
	h.cleanup("release "+n.Name, func(ctx context.Context) error { return h.ReleaseNetwork(ctx, n) })
	return n
}

// newRunningNetwork returns an applied network.
func (h *testHost) newRunningNetwork(mode fleet.NetworkMode) fleet.Network {
	h.t.Helper()
	n := h.newNetwork(mode)
	h.requireNoError("apply network", h.ApplyNetwork(h.ctx, n))
	return n
}

// networkStatus returns the assigned network's entry in the host state. ok reports that the entry has the network's ID.
func (h *testHost) networkStatus(n fleet.Network) (st fleet.NetworkStatus, ok bool) {
	h.t.Helper()
	s, err := h.HostState(h.ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Networks: []fleet.Network{n}}})
	h.requireNoError("snapshot", err)
	r, found := find(s.Networks, func(r wire.NetworkReport) bool { return r.Kind == fleet.NetworkLibvirt && r.Name == n.Name })
	if !found {
		h.t.Fatalf("the assigned network %s is missing in the host state", n.Name)
	}
	if lacks := strings.Contains(r.Status.Error, hypervisor.NetworkMissingText); r.ID == n.ID && r.Absent != lacks {
		h.t.Errorf("the network is reported as absent: %v, with the status %+v", r.Absent, r.Status)
	}
	return r.Status, r.ID == n.ID
}

// waitNetwork waits for a matching status of the network. Until a slow read ends, the host reports the previous status.
func (h *testHost) waitNetwork(n fleet.Network, active bool, words string) (st fleet.NetworkStatus) {
	h.t.Helper()
	h.waitUntil(fmt.Sprintf("the network is active: %v, %q", active, words), func() (ok bool) {
		st, ok = h.networkStatus(n)
		return ok && st.Active == active && strings.Contains(st.Error, words) && (words != "" || st.Error == "")
	})
	return st
}

func testNetworkLifecycle(t *testing.T, h *testHost) {
	n := h.newNetwork(fleet.NetworkNAT)
	h.waitNetwork(n, false, hypervisor.NetworkMissingText)
	for range 2 {
		h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
		want := fleet.NetworkStatus{
			Active: true, Autostart: true, Bridge: n.Spec.Bridge, Forward: "nat", Subnets: []string{n.Spec.IPv4.Prefix().String()},
		}
		if st := h.waitNetwork(n, true, ""); !reflect.DeepEqual(st, want) {
			t.Errorf("the network's status is %+v, want %+v", st, want)
		}
	}
	again := openTestHost(t, h.harness)
	again.waitNetwork(n, true, "")
	for range 2 {
		h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
		h.waitNetwork(n, false, hypervisor.NetworkMissingText)
	}
}

func testNetworkModes(t *testing.T, h *testHost) {
	for mode, forward := range map[fleet.NetworkMode]string{fleet.NetworkNAT: "nat", fleet.NetworkRouted: "route", fleet.NetworkIsolated: ""} {
		n := h.newNetwork(mode)
		n.Spec.Bridge, n.Spec.DNS, n.Spec.MTU = "", false, 1400
		v6 := strings.Replace(n.Spec.IPv4.Prefix().Addr().String(), ".", "", 1)
		v6 = "fd00:" + strings.ReplaceAll(strings.TrimPrefix(v6, "10"), ".", ":") + ":"
		n.Spec.IPv6 = &fleet.Subnet{Gateway: v6 + ":1/64", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: v6 + ":100", End: v6 + ":1ff"}}}}
		var c fleet.Checks
		n.Spec.Check(&c, "spec")
		h.requireNoError("check", c.Err())
		h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
		h.requireNoError("apply again", h.ApplyNetwork(h.ctx, n))
		st := h.waitNetwork(n, true, "")
		if st.Forward != forward || st.Bridge == "" || len(st.Subnets) != 2 {
			t.Errorf("the network of mode %s has the status %+v, want a bridge and two subnets", mode, st)
		}
	}
	bare := h.newNetwork(fleet.NetworkIsolated)
	bare.Spec.IPv4 = nil
	h.requireNoError("apply a network without addresses", h.ApplyNetwork(h.ctx, bare))
	h.waitNetwork(bare, true, "")
}

// testNetworkOnDevices defines networks on devices that the host or the agent created. The hypervisor only defines a
// network for such a device.
func testNetworkOnDevices(t *testing.T, h *testHost) {
	for _, spec := range []fleet.NetworkSpec{
		{Mode: fleet.NetworkVXLAN, VNI: 100, Underlay: "10.50.0.0/24"},
		{Mode: fleet.NetworkUplink, Device: "eth1"},
		{Mode: fleet.NetworkUplink, Device: "eth1", VLAN: 7, Bridge: "qx-hv-uplink"},
		{Mode: fleet.NetworkBridged, Bridge: "br-hvtest"},
		{Mode: fleet.NetworkOVS, Bridge: "ovs-hvtest", VLAN: 7},
		{Mode: fleet.NetworkMacvtap, Device: "eth1"},
	} {
		n := h.newNetwork(fleet.NetworkIsolated)
		n.Spec = &spec
		var c fleet.Checks
		n.Spec.Check(&c, "spec")
		h.requireNoError("check", c.Err())
		h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
		h.requireNoError("apply again", h.ApplyNetwork(h.ctx, n))
		bridge := spec.Bridge
		if spec.Mode.Info().CreatesDevices {
			bridge = n.BridgeDevice()
		}
		st := h.waitNetwork(n, true, "")
		if !st.Autostart || st.Forward != spec.Mode.Info().Forward || st.Bridge != bridge || len(st.Subnets) > 0 {
			t.Errorf("the network of mode %s has the status %+v, want autostart and no subnets", spec.Mode, st)
		}
		h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
		h.waitNetwork(n, false, hypervisor.NetworkMissingText)
	}
	n := h.newNetwork(fleet.NetworkIsolated)
	n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 100, Underlay: "10.50.0.0/24"}
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	vm := h.newVMOnNetwork(n)
	h.requireRefusal("release", h.ReleaseNetwork(h.ctx, n), vm.Name)
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, false))
	h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
}

func testNetworkNameTaken(t *testing.T, h *testHost) {
	n := h.newNetwork(fleet.NetworkIsolated)
	h.harness.DefineUnmanagedNetwork(t, n.Name)
	h.requireRefusal("apply", h.ApplyNetwork(h.ctx, n), "was not created by Quantix")
	h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
	h.waitUntil("the unmanaged network is reported and still runs", func() bool {
		st, own := h.networkStatus(n)
		return !own && st.Active
	})
}

func testNetworkEdited(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.EditNetwork(t, n.Name)
	h.waitNetwork(n, true, "addresses and DHCP")
	h.requireRefusal("apply", h.ApplyNetwork(h.ctx, n), "addresses and DHCP")
	next := n
	next.Generation++
	h.requireRefusal("apply a newer generation", h.ApplyNetwork(h.ctx, next), "addresses and DHCP")
	h.waitNetwork(n, true, "addresses and DHCP")
}

// editedNetwork returns a running network with a DHCP reservation that somebody added on the host, and its drift.
func (h *testHost) editedNetwork() (n fleet.Network, d fleet.Drift) {
	h.t.Helper()
	n = h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.EditNetwork(h.t, n.Name)
	st := h.waitNetwork(n, true, "addresses and DHCP")
	if len(st.Drift) != 1 || st.Drift[0].Field != "ipv4.reservations" || !strings.Contains(st.Drift[0].Actual, "52:54:00:00:00:aa theirs") || strings.Contains(st.Drift[0].Applied, "theirs") {
		h.t.Fatalf("after an edit of the reserved addresses, the network's drift is %+v", st.Drift)
	}
	return n, st.Drift[0]
}

func testEditedNetworkReapplied(t *testing.T, h *testHost) {
	n, _ := h.editedNetwork()
	for range 2 {
		h.requireNoError("reapply", h.ReapplyNetwork(h.ctx, n))
		if st := h.waitNetwork(n, true, ""); len(st.Drift) != 0 || !st.Autostart {
			t.Errorf("after the reapply, the network's status is %+v, want no drift", st)
		}
	}
	if got := strings.Join(h.harness.Reservations(t, n.Name), ", "); strings.Contains(got, "52:54:00:00:00:aa") {
		t.Errorf("after the reapply, the running network has the reservations %s", got)
	}
}

func testNetworkEditAccepted(t *testing.T, h *testHost) {
	n, d := h.editedNetwork()
	spec := *n.Spec
	h.requireNoError("accept", drift.Accept(&spec, d))
	n.Generation, n.Spec = n.Generation+1, &spec
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	if st := h.waitNetwork(n, true, ""); len(st.Drift) != 0 {
		t.Errorf("after the edit was accepted, the network's drift is %+v", st.Drift)
	}
	if got := strings.Join(h.harness.Reservations(t, n.Name), ", "); !strings.Contains(got, "52:54:00:00:00:aa") {
		t.Errorf("after the edit was accepted, the running network has the reservations %s", got)
	}
}

func testNetworkStopped(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.StopNetwork(t, n.Name)
	if st := h.waitNetwork(n, false, ""); !st.Autostart {
		t.Error("the network lost its autostart")
	}
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	h.waitNetwork(n, true, "")
}

func testNetworkUndefined(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.UndefineNetwork(t, n.Name)
	h.waitNetwork(n, true, hypervisor.NetworkUndefinedText)
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	if st := h.waitNetwork(n, true, ""); !st.Autostart {
		t.Error("the network lost its autostart")
	}
	h.harness.UndefineNetwork(t, n.Name)
	h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
	h.waitNetwork(n, false, hypervisor.NetworkMissingText)
}

func testNetworkRemovedOnHost(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.StopNetwork(t, n.Name)
	h.harness.UndefineNetwork(t, n.Name)
	h.waitNetwork(n, false, hypervisor.NetworkMissingText)
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	h.waitNetwork(n, true, "")
}

func testNetworkWithoutDnsmasq(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	h.harness.KillDnsmasq(t, n.Name)
	h.waitUntil("the network reports its missing dnsmasq", func() bool {
		st, _ := h.networkStatus(n)
		return st.Active && st.Error == hypervisor.NoDnsmasqText
	})
	vm := h.newVMOnNetwork(n)
	h.requireRefusal("apply while a VM is connected", h.ApplyNetwork(h.ctx, n), vm.Name)
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, false))
	h.requireNoError("apply", h.ApplyNetwork(h.ctx, n))
	h.waitNetwork(n, true, "")
}

func testNetworkInUse(t *testing.T, h *testHost) {
	n := h.newRunningNetwork(fleet.NetworkIsolated)
	vm := h.newVMOnNetwork(n)
	h.requireRefusal("release", h.ReleaseNetwork(h.ctx, n), vm.Name)
	h.waitNetwork(n, true, "")
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, false))
	h.requireNoError("release", h.ReleaseNetwork(h.ctx, n))
}

// newVMOnNetwork returns a VM with a NIC on the network.
func (h *testHost) newVMOnNetwork(n fleet.Network) fleet.VM {
	h.t.Helper()
	vm := h.newVM()
	vm.Spec.NICs = []fleet.NIC{{NetworkID: n.ID, Network: n.Name, MAC: uniqueMAC()}}
	h.apply(vm)
	return vm
}
