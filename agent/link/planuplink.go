package link

import (
	"cmp"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// planUplink returns the steps to create or update a bridge on a device. moves: the steps move the device's addresses
// to the bridge, or interrupt the device's traffic for a moment.
func planUplink(n fleet.Network, p hostState) (steps []step, moves bool, err error) {
	bridge, nic := n.BridgeDevice(), n.Spec.Device
	if err := checkDeviceOwner(n, p.bridge, "bridge"); err != nil {
		return nil, false, err
	}
	if p.uplink == nil {
		return nil, false, fleet.Errorf(fleet.NotFound, "This host has no device %s. Choose other hosts, or define a network on a device of this host.", nic)
	}
	port, err := uplinkPort(n, p)
	if err != nil {
		return nil, false, err
	}
	if n.Spec.VLAN > 0 {
		if err := checkDeviceOwner(n, p.vlan, "vlan"); err != nil {
			return nil, false, err
		}
	}
	if p.bridge == nil {
		made := step{kind: addBridge, device: bridge, mtu: p.uplink.MTU, owner: ownerAlias(n)}
		if n.Spec.VLAN == 0 {
			made.to = p.uplink.MAC // keeps the neighbours' ARP entries valid
		}
		steps = append(steps, made)
		switch {
		case n.Spec.VLAN > 0:
			steps = append(steps, step{kind: disableIPv6, device: bridge})
		case !p.uplink.AutoIPv6:
			steps = append(steps, step{kind: copyIPv6Settings, device: bridge, to: nic})
		}
	}
	if p.bridge == nil || p.bridge.STP != n.Spec.STP {
		steps = append(steps, step{kind: setSTP, device: bridge, number: boolToInt(n.Spec.STP)})
		// Changing the spanning tree interrupts traffic: the bridge's ports learn MAC addresses again, and a switch may
		// block a port that receives spanning tree packets.
		moves = p.bridge != nil
	}
	if p.bridge == nil || !p.bridge.Up {
		steps = append(steps, step{kind: bringUp, device: bridge})
	}
	if n.Spec.VLAN > 0 && p.vlan == nil {
		steps = append(steps, step{kind: addVLAN, device: port, to: nic, number: n.Spec.VLAN, owner: ownerAlias(n)}, step{kind: disableIPv6, device: port})
	}
	now := p.uplink
	if n.Spec.VLAN > 0 {
		now = p.vlan
	} else {
		for _, a := range now.Addresses {
			steps = append(steps, step{kind: dropAddress, device: nic, addr: a})
		}
		for _, r := range now.Routes {
			steps = append(steps, step{kind: dropRoute, device: nic, route: r})
		}
	}
	if now == nil || now.Master != bridge {
		steps, moves = append(steps, step{kind: joinBridge, device: port, to: bridge}), moves || n.Spec.VLAN == 0
	}
	if now == nil || !now.Up {
		steps = append(steps, step{kind: bringUp, device: port})
	}
	if n.Spec.VLAN == 0 {
		steps = append(steps, addAddressesAndRoutes(bridge, now.Addresses, now.Routes)...)
		moves = moves || len(now.Addresses) > 0
	}
	return steps, moves, nil
}

// addAddressesAndRoutes returns the steps to add addresses and then routes to a device. A route to a gateway precedes
// the routes through that gateway.
func addAddressesAndRoutes(to string, addresses []IPAddress, routes []Route) (steps []step) {
	for _, a := range addresses {
		steps = append(steps, step{kind: giveAddress, device: to, addr: a})
	}
	routes = slices.Clone(routes)
	slices.SortStableFunc(routes, func(a, b Route) int {
		return cmp.Or(b.Scope-a.Scope, boolToInt(a.Via != "")-boolToInt(b.Via != ""))
	})
	for _, r := range routes {
		steps = append(steps, step{kind: giveRoute, device: to, route: r})
	}
	return steps
}

// uplinkPort returns the device to put into the bridge, or an error if the device must not be put there.
func uplinkPort(n fleet.Network, p hostState) (string, error) {
	bridge, nic := n.BridgeDevice(), p.uplink
	if other := unmanagedPort(n, p); other != "" {
		return "", fleet.Errorf(fleet.Conflict, "The bridge %s has another device in it: %s. Two uplinks of one bridge form a loop. Remove that device from the bridge.", bridge, other)
	}
	if n.Spec.VLAN > 0 {
		return n.VLANDevice(), nil
	}
	switch {
	case nic.Master != "" && nic.Master != bridge:
		return "", fleet.Errorf(fleet.Conflict, "The device %s is a part of %s already. Define a network on an existing bridge, or choose another device.", nic.Name, nic.Master)
	case nic.Kind == "bridge":
		return "", fleet.Errorf(fleet.Conflict, "%s is a bridge. Define a network on an existing bridge instead.", nic.Name)
	case nic.Kind == "tuntap" || nic.Kind == "macvtap" || nic.Kind == "loopback" || strings.HasPrefix(nic.Owner, ownerPrefix):
		return "", fleet.Errorf(fleet.Conflict, "%s cannot be an uplink, because it does not connect this host to other machines. Choose a physical NIC, a bond or a VLAN device.", nic.Name)
	case nic.InMultipath && nic.Master == "":
		return "", fleet.Errorf(fleet.Conflict, "A multipath route of this host uses several devices, including %s, and cannot be moved to a bridge. Choose another device.", nic.Name)
	}
	if nic.UnsupportedRoute != "" && nic.Master == "" {
		return "", fleet.Errorf(fleet.Conflict, "The route %s through %s uses a gateway of another address family or a tunnel, or applies to one traffic class only, so it cannot be moved to a bridge. Choose another device, or remove the route first.", nic.UnsupportedRoute, nic.Name)
	}
	for _, a := range nic.Addresses {
		if a.Dynamic && nic.Master == "" && strings.Contains(a.CIDR, ".") {
			return "", fleet.Errorf(fleet.Conflict, "The device %s has the address %s from DHCP, and the DHCP client would not renew it on the bridge. Give the device a static address first.", nic.Name, a.CIDR)
		}
	}
	return nic.Name, nil
}

// unmanagedPort returns a port of the network's bridge that is neither the uplink nor a guest's NIC; empty: there is
// none.
func unmanagedPort(n fleet.Network, p hostState) string {
	own := []string{n.VLANDevice(), n.TunnelDevice(), n.Spec.Device}
	if i := slices.IndexFunc(p.nonGuestPorts, func(port string) bool { return !slices.Contains(own, port) }); i >= 0 {
		return p.nonGuestPorts[i]
	}
	return ""
}

// isGuestPort reports whether a port of a bridge belongs to a VM or a container: by the port's kind, or by the names
// that libvirt and container tools use.
func isGuestPort(port, kind string) bool {
	return kind == "tuntap" || strings.HasPrefix(port, "vnet") || strings.HasPrefix(port, "tap") || strings.HasPrefix(port, "veth")
}
