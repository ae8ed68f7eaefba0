package link

import (
	"net/netip"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func newOverlay(peers ...string) fleet.Network {
	return fleet.Network{
		ID: "01a2074e-3760-7000-8464-3f2fd20d3344", Name: "over", Generation: 1, Peers: peers,
		Spec: &fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 100, Underlay: "10.50.0.0/24"},
	}
}

func newUplinkNetwork() fleet.Network {
	return fleet.Network{
		ID: "01a2074e-3760-7000-8464-3f2fd20d3345", Name: "wire", Generation: 1,
		Spec: &fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth1", Bridge: "qx-wire"},
	}
}

func newLocalAddress(text, on string, mtu int) localAddress {
	return localAddress{netip.MustParseAddr(text), on, mtu}
}

func joinSteps(steps []step) string {
	out := make([]string, len(steps))
	for i, s := range steps {
		out[i] = s.String()
	}
	return strings.Join(out, "; ")
}

// existingOverlay returns a host's state with an existing overlay.
func existingOverlay(n fleet.Network, peers ...string) hostState {
	return hostState{
		bridge:         &device{Name: n.BridgeDevice(), Kind: "bridge", Owner: ownerAlias(n), MTU: 1450, Up: true},
		tunnel:         &device{Name: n.TunnelDevice(), Kind: "vxlan", Owner: ownerAlias(n), Master: n.BridgeDevice(), MTU: 1450, Up: true, VNI: 100, Local: "10.50.0.1", Peers: peers},
		localAddresses: []localAddress{newLocalAddress("10.50.0.1", "eth0", 1500)}, ports: []string{n.TunnelDevice()},
	}
}

func TestOverlayPlanHasOnlyNeededSteps(t *testing.T) {
	t.Parallel()
	n := newOverlay("10.50.0.1", "10.50.0.2", "10.50.0.3", "192.0.2.1", "no address")
	b, v := n.BridgeDevice(), n.TunnelDevice()
	for name, c := range map[string]struct {
		p    hostState
		want string
	}{
		"new": {
			hostState{localAddresses: []localAddress{newLocalAddress("10.50.0.9", "eth0", 1500), newLocalAddress("10.50.0.1", "eth0", 1500)}},
			"make bridge " + b + "; keep the host's own IPv6 off " + b + "; make tunnel " + v + " 10.50.0.1; keep the host's own IPv6 off " + v + "; put into bridge " + v + " " + b +
				"; add a peer to " + v + " 10.50.0.2; add a peer to " + v + " 10.50.0.3; bring up " + v + "; bring up " + b,
		},
		"up to date": {existingOverlay(n, "10.50.0.2", "10.50.0.3"), ""},
		"host left":  {existingOverlay(n, "10.50.0.2", "10.50.0.3", "10.50.0.4"), "drop a peer of " + v + " 10.50.0.4"},
		"host added": {existingOverlay(n, "10.50.0.3"), "add a peer to " + v + " 10.50.0.2"},
	} {
		steps, err := planOverlay(n, c.p)
		if err != nil || joinSteps(steps) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, joinSteps(steps), c.want)
		}
	}
	moved := existingOverlay(n, "10.50.0.2", "10.50.0.3")
	moved.localAddresses = []localAddress{newLocalAddress("10.50.0.7", "eth0", 1500)}
	steps, err := planOverlay(n, moved)
	if err != nil || !strings.HasPrefix(joinSteps(steps), "remove "+v+"; make tunnel "+v+" 10.50.0.7") {
		t.Errorf("another address: %v %s", err, joinSteps(steps))
	}
	jumbo := existingOverlay(n, "10.50.0.2", "10.50.0.3")
	jumbo.localAddresses[0].mtu = 9000
	if steps, err := planOverlay(n, jumbo); err != nil || joinSteps(steps) != "set the MTU of "+v+"; set the MTU of "+b || steps[0].number != 8950 {
		t.Errorf("a larger MTU: %v %s", err, joinSteps(steps))
	}
}

func TestPlanRefusesUnmanagedDevices(t *testing.T) {
	t.Parallel()
	n := newOverlay()
	refused := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	strange := existingOverlay(n)
	strange.bridge.Owner = ""
	_, err := planOverlay(n, strange)
	refused("an administrator's bridge", err, "not created by Quantix")
	if steps, _, err := planRelease(n, strange); err != nil || joinSteps(steps) != "remove "+n.TunnelDevice() {
		t.Errorf("its release: %v %s", err, joinSteps(steps))
	}
	strange.bridge.Owner = "quantix:another"
	_, err = planOverlay(n, strange)
	refused("another network's bridge", err, "another network of Quantix")
	kind := existingOverlay(n)
	kind.tunnel.Kind = "dummy"
	_, err = planOverlay(n, kind)
	refused("a device of another kind", err, "does not change the device")
	_, err = planOverlay(n, hostState{localAddresses: []localAddress{newLocalAddress("192.0.2.1", "eth0", 1500)}})
	refused("no address in the underlay", err, "None of this host's addresses is in 10.50.0.0/24")
	n.Spec.MTU = 1500
	_, err = planOverlay(n, existingOverlay(n))
	refused("too large an MTU", err, "leaves 1450 bytes")
	n.Spec.MTU = 0
	used := existingOverlay(n)
	used.ports = append(used.ports, "vnet3")
	_, _, err = planRelease(n, used)
	refused("the release of a bridge in use", err, "in use by vnet3")
}

// newUplinkDevice returns the host's device with its address and default route.
func newUplinkDevice() *device {
	return &device{
		Name: "eth1", Kind: "device", MAC: "52:54:00:00:00:01", MTU: 1500, Up: true,
		Addresses: []IPAddress{{CIDR: "10.9.0.2/24"}},
		Routes:    []Route{{To: "0.0.0.0/0", Via: "10.9.0.1", Table: 254}, {To: "10.9.1.1/32", Table: 254, Scope: 253}},
	}
}

func TestBridgePlanMovesAddressesAndRoutes(t *testing.T) {
	t.Parallel()
	n := newUplinkNetwork()
	steps, moves, err := planUplink(n, hostState{uplink: newUplinkDevice()})
	want := "make bridge qx-wire 52:54:00:00:00:01; give the IPv6 settings of its device to qx-wire eth1; set the spanning tree of qx-wire; bring up qx-wire; take an address from eth1 10.9.0.2/24; take a route from eth1 0.0.0.0/0; " +
		"take a route from eth1 10.9.1.1/32; put into bridge eth1 qx-wire; give an address to qx-wire 10.9.0.2/24; give a route to qx-wire 10.9.1.1/32; give a route to qx-wire 0.0.0.0/0"
	if err != nil || !moves || joinSteps(steps) != want {
		t.Errorf("%v %v\n%s\nwant\n%s", moves, err, joinSteps(steps), want)
	}
	stands := hostState{
		uplink: &device{Name: "eth1", Kind: "device", Master: "qx-wire", MAC: "52:54:00:00:00:01", Up: true},
		bridge: &device{Name: "qx-wire", Kind: "bridge", Owner: ownerAlias(n), Up: true, Addresses: newUplinkDevice().Addresses, Routes: newUplinkDevice().Routes},
		ports:  []string{"eth1", "vnet0"},
	}
	if steps, moves, err := planUplink(n, stands); err != nil || moves || len(steps) > 0 {
		t.Errorf("up to date: %v %v %s", moves, err, joinSteps(steps))
	}
	stands.ports = []string{"eth1"}
	steps, moves, err = planRelease(n, stands)
	want = "take an address from qx-wire 10.9.0.2/24; take a route from qx-wire 0.0.0.0/0; take a route from qx-wire 10.9.1.1/32; take from its bridge eth1; bring up eth1; " +
		"give an address to eth1 10.9.0.2/24; give a route to eth1 10.9.1.1/32; give a route to eth1 0.0.0.0/0; remove qx-wire"
	if err != nil || !moves || joinSteps(steps) != want {
		t.Errorf("release: %v %v\n%s\nwant\n%s", moves, err, joinSteps(steps), want)
	}
	tagged := newUplinkNetwork()
	tagged.Spec.VLAN = 7
	steps, moves, err = planUplink(tagged, hostState{uplink: newUplinkDevice()})
	if err != nil || moves || strings.Contains(joinSteps(steps), "eth1 10.9") || !strings.Contains(joinSteps(steps), "make VLAN "+tagged.VLANDevice()+" eth1") {
		t.Errorf("on a VLAN: %v %v %s", moves, err, joinSteps(steps))
	}
	for _, device := range []string{tagged.BridgeDevice(), tagged.VLANDevice()} {
		if !strings.Contains(joinSteps(steps), "keep the host's own IPv6 off "+device) {
			t.Errorf("guests of a VLAN reach the host by IPv6 on %s: %s", device, joinSteps(steps))
		}
	}
	auto := newUplinkDevice()
	auto.AutoIPv6 = true // the addresses come from routers: the bridge must accept advertisements, too
	if steps, _, err := planUplink(n, hostState{uplink: auto}); err != nil || strings.Contains(joinSteps(steps), "IPv6") {
		t.Errorf("a device with addresses of routers: %v %s", err, joinSteps(steps))
	}
	behind := addAddressesAndRoutes("eth1", nil, []Route{{To: "::/0", Via: "fd00:aa::1"}, {To: "fd00:aa::1/128"}})
	if got := joinSteps(behind); got != "give a route to eth1 fd00:aa::1/128; give a route to eth1 ::/0" {
		t.Errorf("a gateway behind a route of its own: %s", got)
	}
}

func TestBridgePlanRefusesLoopsAndUnmanagedPorts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*hostState)
		want   string
	}{
		"no such device":     {func(p *hostState) { p.uplink = nil }, "no device eth1"},
		"in another bridge":  {func(p *hostState) { p.uplink.Master = "br0" }, "a part of br0"},
		"a bridge":           {func(p *hostState) { p.uplink.Kind = "bridge" }, "is a bridge"},
		"a guest's NIC":      {func(p *hostState) { p.uplink.Kind = "tuntap" }, "cannot be an uplink"},
		"device of Quantix":  {func(p *hostState) { p.uplink.Owner = "quantix:x" }, "cannot be an uplink"},
		"an address by DHCP": {func(p *hostState) { p.uplink.Addresses[0].Dynamic = true }, "DHCP"},
		"several ways out":   {func(p *hostState) { p.uplink.InMultipath = true }, "multipath route"},
		"a second uplink": {func(p *hostState) {
			p.bridge, p.nonGuestPorts = &device{Name: "qx-wire", Kind: "bridge", Owner: ownerAlias(newUplinkNetwork()), Up: true}, []string{"eth2"}
		}, "form a loop"},
		"an unmanaged bridge": {func(p *hostState) { p.bridge = &device{Name: "qx-wire", Kind: "bridge"} }, "not created by Quantix"},
	} {
		p := hostState{uplink: newUplinkDevice()}
		c.change(&p)
		if steps, _, err := planUplink(newUplinkNetwork(), p); err == nil || !strings.Contains(err.Error(), c.want) || len(steps) > 0 {
			t.Errorf("%s: %v %s, want %q", name, err, joinSteps(steps), c.want)
		}
	}
}

// An interrupted change is rolled back to the previous state, whichever step was the last.
func TestRollbackPlanRestoresStateFromEveryStep(t *testing.T) {
	t.Parallel()
	n := newUplinkNetwork()
	forth := func(f *fakeKernel) []step {
		p, _ := f.read(n, true)
		steps, _, err := planUplink(n, p)
		if err != nil {
			t.Fatal(err)
		}
		return steps
	}
	home := func(f *fakeKernel) []step {
		p, _ := f.read(n, true)
		steps, _, err := planRelease(n, p)
		if err != nil {
			t.Fatal(err)
		}
		return steps
	}
	whole := len(forth(newFakeKernel()))
	for cut := range whole + 1 {
		f := newFakeKernel()
		was := f.String()
		d := f.devices["eth1"]
		c := unconfirmedChange{Network: n, Before: stateBeforeApply(hostState{uplink: d})}
		f.doAll(forth(f)[:cut])
		if errs := runRollbackSteps(f, c); len(errs) > 0 || f.String() != was {
			t.Errorf("after %d steps and back: %v\n%s\nwant\n%s", cut, errs, f, was)
		}
		if errs := runRollbackSteps(f, c); len(errs) > 0 || f.String() != was {
			t.Errorf("back a second time: %v\n%s", errs, f)
		}
	}
	for cut := range whole {
		f := newFakeKernel()
		f.doAll(forth(f))
		was := f.String()
		d := f.devices["qx-wire"]
		c := unconfirmedChange{Network: n, Before: stateBeforeRelease(hostState{uplink: f.devices["eth1"], bridge: d})}
		steps := home(f)
		f.doAll(steps[:min(cut, len(steps))])
		if errs := runRollbackSteps(f, c); len(errs) > 0 || f.String() != was {
			t.Errorf("a release, after %d steps and back: %v\n%s\nwant\n%s", cut, errs, f, was)
		}
	}
}
