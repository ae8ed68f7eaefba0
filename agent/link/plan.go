package link

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// IPAddress is an IP address of a device.
type IPAddress struct {
	CIDR      string `json:"cidr"`
	Scope     int    `json:"scope,omitempty"`
	Broadcast string `json:"broadcast,omitempty"`
	Flags     int    `json:"flags,omitempty"` // flags chosen by the administrator: noprefixroute
	Dynamic   bool   `json:"dynamic,omitempty"`
}

// Route is a route through a device. Routes that the kernel adds for the device's addresses are not included.
type Route struct {
	To       string `json:"to"` // a prefix
	Via      string `json:"via,omitempty"`
	Source   string `json:"source,omitempty"`
	Table    int    `json:"table"`
	Priority int    `json:"priority,omitempty"`
	Protocol int    `json:"protocol"`
	Scope    int    `json:"scope"`
	Type     int    `json:"type"`
	Flags    int    `json:"flags,omitempty"` // onlink
	MTU      int    `json:"mtu,omitempty"`
}

// device is the state of a network device.
type device struct {
	Name             string
	Kind             string // "bridge", "vxlan", "vlan", "device", …
	Owner            string // the device's alias
	Master           string
	MAC              string
	MTU              int
	Up               bool
	Addresses        []IPAddress
	Routes           []Route
	InMultipath      bool   // the device is part of a multipath route
	UnsupportedRoute string // a route of the device that type Route cannot express
	AutoIPv6         bool   // the device has IPv6 addresses from router advertisements
	VNI              int
	Local            string
	Parent           string
	VLAN             int
	Peers            []string // destinations of a tunnel
	STP              bool
}

// hostState is the host's state that a network depends on; a nil device does not exist.
type hostState struct {
	bridge, tunnel, vlan, uplink *device
	ports                        []string // ports of the bridge
	nonGuestPorts                []string // ports of the bridge that do not belong to guests
	guestTaps                    int      // guests directly on the uplink
	localAddresses               []localAddress
}

// localAddress is an address of the host and the device that has it.
type localAddress struct {
	addr netip.Addr
	on   string
	mtu  int
}

// stepKind is the kind of a step, as the beginning of its description.
type stepKind string

const (
	addBridge        stepKind = "make bridge"
	addTunnel        stepKind = "make tunnel"
	addVLAN          stepKind = "make VLAN"
	removeLink       stepKind = "remove"
	joinBridge       stepKind = "put into bridge"
	leaveBridge      stepKind = "take from its bridge"
	setMTU           stepKind = "set the MTU of"
	bringUp          stepKind = "bring up"
	disableIPv6      stepKind = "keep the host's own IPv6 off" // guests must not reach the host through the bridge
	copyIPv6Settings stepKind = "give the IPv6 settings of its device to"
	setSTP           stepKind = "set the spanning tree of"
	dropAddress      stepKind = "take an address from"
	giveAddress      stepKind = "give an address to"
	dropRoute        stepKind = "take a route from"
	giveRoute        stepKind = "give a route to"
	addPeer          stepKind = "add a peer to"
	dropPeer         stepKind = "drop a peer of"
)

// step is one change of the host. Only the fields that its kind needs are set.
type step struct {
	kind   stepKind
	device string
	to     string // depending on kind: a bridge, a parent, a MAC address, a peer or a local address
	number int    // depending on kind: a VNI, a VLAN ID, an MTU, or 1 for on
	mtu    int
	owner  string
	addr   IPAddress
	route  Route
}

func (s step) String() string {
	words := []string{string(s.kind), s.device, s.to, s.addr.CIDR, s.route.To}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// ownerPrefix begins the alias of devices created by Quantix; the network's ID follows.
const ownerPrefix = "quantix:"

func ownerAlias(n fleet.Network) string { return ownerPrefix + string(n.ID) }

// checkDeviceOwner returns an error for a device that Quantix did not create for this network, or that has another
// kind.
func checkDeviceOwner(n fleet.Network, d *device, kind string) error {
	switch {
	case d == nil || d.Owner == ownerAlias(n) && d.Kind == kind:
		return nil
	case strings.HasPrefix(d.Owner, ownerPrefix) && d.Owner != ownerAlias(n):
		return fleet.Errorf(fleet.Conflict, "The device %s on this host belongs to another network of Quantix. Give this network another bridge device.", d.Name)
	}
	return fleet.Errorf(fleet.Conflict, "The host already has a device %s, which was not created by Quantix, so Quantix does not change the device. Give the network another bridge device, or remove the device from the host.", d.Name)
}

// planOverlay returns the steps to create or update an overlay; no steps if the overlay is up to date.
func planOverlay(n fleet.Network, p hostState) (steps []step, err error) {
	bridge, tunnel := n.BridgeDevice(), n.TunnelDevice()
	if err := checkDeviceOwner(n, p.bridge, "bridge"); err != nil {
		return nil, err
	}
	if err := checkDeviceOwner(n, p.tunnel, "vxlan"); err != nil {
		return nil, err
	}
	at, err := underlayAddress(n, p)
	if err != nil {
		return nil, err
	}
	mtu := at.mtu - fleet.VXLANOverhead(at.addr)
	if n.Spec.MTU > mtu {
		return nil, fleet.Errorf(fleet.Conflict, "An MTU of %d does not fit into the MTU of %s, which is %d: the tunnel's header leaves %d bytes. Give a smaller MTU, or leave the MTU empty.", n.Spec.MTU, at.on, at.mtu, mtu)
	}
	if n.Spec.MTU > 0 {
		mtu = n.Spec.MTU
	}
	have := p.tunnel
	if p.bridge == nil {
		steps = append(steps, step{kind: addBridge, device: bridge, mtu: mtu, owner: ownerAlias(n)}, step{kind: disableIPv6, device: bridge})
	}
	if have != nil && (have.VNI != n.Spec.VNI || have.Local != at.addr.String()) {
		steps, have = append(steps, step{kind: removeLink, device: tunnel}), nil
	}
	if have == nil {
		steps = append(steps, step{kind: addTunnel, device: tunnel, to: at.addr.String(), number: n.Spec.VNI, mtu: mtu, owner: ownerAlias(n)}, step{kind: disableIPv6, device: tunnel})
		have = &device{MTU: mtu}
	}
	if have.Master != bridge {
		steps = append(steps, step{kind: joinBridge, device: tunnel, to: bridge})
	}
	for _, d := range []struct {
		name string
		now  *device
	}{{tunnel, p.tunnel}, {bridge, p.bridge}} {
		if d.now != nil && d.now.MTU != mtu && (d.name != tunnel || have == p.tunnel) {
			steps = append(steps, step{kind: setMTU, device: d.name, number: mtu})
		}
	}
	want := overlayPeers(n, at.addr)
	for _, peer := range have.Peers {
		if !slices.Contains(want, peer) {
			steps = append(steps, step{kind: dropPeer, device: tunnel, to: peer})
		}
	}
	for _, peer := range want {
		if !slices.Contains(have.Peers, peer) {
			steps = append(steps, step{kind: addPeer, device: tunnel, to: peer})
		}
	}
	if !have.Up {
		steps = append(steps, step{kind: bringUp, device: tunnel})
	}
	if p.bridge == nil || !p.bridge.Up {
		steps = append(steps, step{kind: bringUp, device: bridge})
	}
	return steps, nil
}

// underlayAddress returns the host's address for the overlay's packets, and that address's device.
func underlayAddress(n fleet.Network, p hostState) (localAddress, error) {
	in, err := netip.ParsePrefix(n.Spec.Underlay)
	if err != nil {
		return localAddress{}, err
	}
	var found []localAddress
	for _, l := range p.localAddresses {
		if in.Contains(l.addr) && l.on != n.BridgeDevice() {
			found = append(found, l)
		}
	}
	// keep the tunnel's current address
	if p.tunnel != nil {
		if i := slices.IndexFunc(found, func(l localAddress) bool { return l.addr.String() == p.tunnel.Local }); i >= 0 {
			return found[i], nil
		}
	}
	if len(found) == 0 {
		return localAddress{}, fleet.Errorf(fleet.Conflict, "None of this host's addresses is in %s, the network between the overlay's hosts. Give the host an address in this network, or choose other hosts.", in)
	}
	return slices.MinFunc(found, func(a, b localAddress) int { return a.addr.Compare(b.addr) }), nil
}

// overlayPeers returns the addresses of the overlay's other hosts as the portal lists them, at most the supported
// number.
func overlayPeers(n fleet.Network, self netip.Addr) (out []string) {
	in, err := netip.ParsePrefix(n.Spec.Underlay)
	if err != nil {
		return nil
	}
	for _, text := range n.Peers[:min(len(n.Peers), fleet.MaxPeers)] {
		if a, err := netip.ParseAddr(text); err == nil && in.Contains(a) && a != self && !slices.Contains(out, a.String()) {
			out = append(out, a.String())
		}
	}
	return out
}

// planRelease returns the steps to remove the network's devices. moves: the steps move the host's addresses from the
// bridge to the device.
func planRelease(n fleet.Network, p hostState) (steps []step, moves bool, err error) {
	mine := func(d *device) bool { return d != nil && d.Owner == ownerAlias(n) }
	if mine(p.bridge) {
		own := func(port string) bool {
			return port == n.TunnelDevice() || port == n.VLANDevice() || port == n.Spec.Device
		}
		if i := slices.IndexFunc(p.ports, func(port string) bool { return !own(port) }); i >= 0 {
			return nil, false, fleet.Errorf(fleet.Conflict, "The bridge %s is in use by %s. Remove that device from the bridge first.", p.bridge.Name, p.ports[i])
		}
	}
	for _, d := range []*device{p.tunnel, p.vlan} {
		if mine(d) {
			steps = append(steps, step{kind: removeLink, device: d.Name})
		}
	}
	if !mine(p.bridge) {
		return steps, false, nil
	}
	nic := p.uplink
	back := nic != nil && n.Spec.Mode == fleet.NetworkUplink && n.Spec.VLAN == 0 && nic.Master == p.bridge.Name
	if back {
		moves = true
		for _, a := range p.bridge.Addresses {
			steps = append(steps, step{kind: dropAddress, device: p.bridge.Name, addr: a})
		}
		for _, r := range p.bridge.Routes {
			steps = append(steps, step{kind: dropRoute, device: p.bridge.Name, route: r})
		}
		steps = append(steps, step{kind: leaveBridge, device: nic.Name}, step{kind: bringUp, device: nic.Name})
		steps = append(steps, addAddressesAndRoutes(nic.Name, p.bridge.Addresses, p.bridge.Routes)...)
	}
	return append(steps, step{kind: removeLink, device: p.bridge.Name}), moves, nil
}

// planRollback returns the steps to roll back an unconfirmed change, wherever the change was interrupted.
func planRollback(n fleet.Network, before previousState, p hostState) (steps []step) {
	bridge, nic := n.BridgeDevice(), n.Spec.Device
	if p.uplink == nil {
		return nil
	}
	mine := p.bridge != nil && p.bridge.Owner == ownerAlias(n)
	stood, joined := before.Bridged || before.BridgeExisted, before.Bridged || before.WasPort
	if stp := (step{kind: setSTP, device: bridge, number: boolToInt(before.STP)}); stood && p.bridge == nil {
		steps = append(steps, step{kind: addBridge, device: bridge, to: p.uplink.MAC, mtu: p.uplink.MTU, owner: ownerAlias(n)}, stp, step{kind: bringUp, device: bridge})
	} else if stood && mine && p.bridge.STP != before.STP {
		steps = append(steps, stp)
	}
	// The change moved addresses and routes to the other device. Remove them from that device, except those that the
	// device had before the change.
	other := p.uplink
	if !before.Bridged {
		other = p.bridge
	}
	if other != nil && (mine || before.Bridged) {
		for _, a := range other.Addresses {
			if !slices.Contains(before.BridgeAddresses, a) {
				steps = append(steps, step{kind: dropAddress, device: other.Name, addr: a})
			}
		}
		for _, r := range other.Routes {
			if !slices.Contains(before.BridgeRoutes, r) {
				steps = append(steps, step{kind: dropRoute, device: other.Name, route: r})
			}
		}
	}
	switch {
	case joined && p.uplink.Master != bridge:
		steps = append(steps, step{kind: joinBridge, device: nic, to: bridge})
	case !joined && p.uplink.Master == bridge:
		steps = append(steps, step{kind: leaveBridge, device: nic})
	}
	if !stood && mine {
		steps = append(steps, step{kind: removeLink, device: bridge})
	}
	if before.Up {
		steps = append(steps, step{kind: bringUp, device: nic})
	}
	if before.Bridged {
		return append(steps, addAddressesAndRoutes(bridge, before.Addresses, before.Routes)...)
	}
	if stood {
		steps = append(steps, addAddressesAndRoutes(bridge, before.BridgeAddresses, before.BridgeRoutes)...)
	}
	return append(steps, addAddressesAndRoutes(nic, before.Addresses, before.Routes)...)
}

// boolToInt returns 1 for true and 0 for false.
func boolToInt(on bool) int {
	if on {
		return 1
	}
	return 0
}

// checkDevicesPresent returns an error if the host lacks a device that the network needs.
func checkDevicesPresent(n fleet.Network, p hostState, nics *fleet.NetworkNICs) error {
	s := n.Spec
	switch s.Mode {
	case fleet.NetworkBridged:
		switch {
		case p.bridge == nil:
			return fleet.Errorf(fleet.NotFound, "This host has no bridge %s. Create the bridge on the host, or define a network whose bridge the hosts create.", s.Bridge)
		case p.bridge.Kind != "bridge":
			return fleet.Errorf(fleet.Conflict, "The device %s of this host is not a bridge.", s.Bridge)
		}
	case fleet.NetworkMacvtap:
		switch {
		case p.uplink == nil:
			return fleet.Errorf(fleet.NotFound, "This host has no device %s.", s.Device)
		case p.uplink.Master != "":
			return fleet.Errorf(fleet.Conflict, "The device %s is a part of %s, so no other network can use the device. Define a network on that bridge.", s.Device, p.uplink.Master)
		}
	case fleet.NetworkSRIOV:
		switch {
		case p.uplink == nil:
			return fleet.Errorf(fleet.NotFound, "This host has no device %s.", s.Device)
		case nics == nil || nics.Total == 0:
			return fleet.Errorf(fleet.Conflict, "The device %s of this host has no virtual functions. Enable virtual functions on the host: write their number to /sys/class/net/%s/device/sriov_numvfs.", s.Device, s.Device)
		}
	}
	return nil
}

// stepError adds the step to the kernel's error.
func stepError(s step, err error) error { return fmt.Errorf("%s: %w", s, err) }
