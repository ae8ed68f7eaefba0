package network

import (
	"cmp"
	"context"
	"net/netip"
	"reflect"
	"slices"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/adoption"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// applyAdoptedNetwork starts the host's own network with the name. It changes neither the definition nor the autostart,
// and refuses a definition that differs from the spec.
func (ns *Networks) applyAdoptedNetwork(ctx context.Context, c *conn.Conn, n fleet.Network) error {
	ref, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (golibvirt.Network, error) { return l.NetworkLookupByName(n.Name) })
	if conn.IsLibvirtCode(err, golibvirt.ErrNoNetwork) {
		return hypervisor.RefuseMissingAdoptedNetwork(n.Name)
	}
	if err != nil {
		return err
	}
	state, err := ns.readNetwork(ctx, c, ref)
	if err != nil {
		return err
	}
	if problem := adoptedNetworkProblem(state, n); problem != "" {
		return fleet.RefusalError(problem)
	}
	if state.status.Active {
		return nil
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.NetworkCreate(ref) })
}

// adoptedNetworkProblem returns why the host's network is not the adopted one any more, or an empty string.
func adoptedNetworkProblem(n networkState, wanted fleet.Network) string {
	def := n.definition()
	if def.Spec == nil {
		return def.Refusal
	}
	if parts := drift.NetworkParts(drift.OfAdoptedNetwork(*def.Spec, *wanted.Spec)); len(parts) > 0 {
		return hypervisor.AdoptedNetworkEditedText(parts)
	}
	return ""
}

// definition returns the host's own definition of the network, as Quantix would adopt it.
func (n networkState) definition() *fleet.HostNetworkDefinition {
	switch {
	case n.persistent == nil && !n.status.Active: // a network without a persistent definition is always active
		return refusedDefinition(n.status.Error)
	case n.persistent == nil:
		return refusedDefinition("The network has no persistent definition: the host loses it when it stops. Define the network with virsh net-define first.")
	}
	return hostDefinition(*n.persistent, n.persistentGroups)
}

func refusedDefinition(why string) *fleet.HostNetworkDefinition {
	return &fleet.HostNetworkDefinition{Adoptability: fleet.Adoptability{Refusal: why}}
}

// hostDefinition expresses a definition that Quantix did not write as a spec, and lists the parts that no spec can
// express.
func hostDefinition(x libvirtxml.Network, groups portGroupList) *fleet.HostNetworkDefinition {
	base, why := modeOfDefinition(x)
	if why != "" {
		return refusedDefinition(why)
	}
	if base.Mode == fleet.NetworkMacvtap {
		forward := *x.Forward
		forward.Dev = base.Device // libvirt also accepts a definition with the device only in a list
		x.Forward = &forward
	}
	x.IPs = slices.Clone(x.IPs)
	for i := range x.IPs {
		x.IPs[i] = plainIP(x.IPs[i])
	}
	if x.DNS != nil && reflect.DeepEqual(*x.DNS, libvirtxml.NetworkDNS{Enable: "yes"}) {
		x.DNS = nil // the default
	}
	n := fleet.Network{ID: fleet.NetworkID(x.UUID), Name: x.Name, Spec: &base}
	spec := definedSpec(x, groups, n)
	for _, s := range []*fleet.Subnet{spec.IPv4, spec.IPv6} {
		if s != nil && s.DHCP != nil && len(s.DHCP.Ranges)+len(s.DHCP.Leases) == 0 {
			s.DHCP = nil
		}
	}
	spec = spec.Normalized()
	if why := adoption.WhyUnsupported(x.Name, spec.Check); why != "" {
		return refusedDefinition(why)
	}
	n.Spec = &spec
	return &fleet.HostNetworkDefinition{Spec: &spec, Adoptability: fleet.Adoptability{Kept: differingParts(n, x, groups)}}
}

// modeOfDefinition returns a spec with the definition's mode, bridge and device. why is the reason if no mode fits.
func modeOfDefinition(x libvirtxml.Network) (s fleet.NetworkSpec, why string) {
	s = fleet.NetworkSpec{Mode: cmp.Or(fleet.NetworkMode(forwardMode(x)), fleet.NetworkIsolated), Bridge: bridgeName(x)}
	ovs := x.VirtualPort != nil && x.VirtualPort.Params != nil && x.VirtualPort.Params.OpenVSwitch != nil
	switch mode := forwardMode(x); {
	case mode == "", mode == string(fleet.NetworkNAT), mode == string(fleet.NetworkRouted):
		return s, ""
	case x.VirtualPort != nil && !ovs:
		return s, "Quantix has no networks with a virtual port of this type."
	case mode == "bridge" && s.Bridge != "" && ovs:
		s.Mode = fleet.NetworkOVS
		return s, ""
	case mode == "bridge" && s.Bridge != "":
		s.Mode = fleet.NetworkBridged
		return s, ""
	case mode == "bridge" || slices.Contains(fleet.DirectModes(), fleet.DirectMode(mode)):
		return macvtapSpec(*x.Forward)
	}
	return s, "Quantix has no networks with the forward mode " + forwardMode(x) + "."
}

// macvtapSpec returns the spec of a network that connects guests directly to one device of the host.
func macvtapSpec(f libvirtxml.NetworkForward) (s fleet.NetworkSpec, why string) {
	s.Mode, s.Device = fleet.NetworkMacvtap, f.Dev
	if f.Mode != "bridge" {
		s.Direct = fleet.DirectMode(f.Mode)
	}
	if s.Device == "" && len(f.Interfaces) == 1 {
		s.Device = f.Interfaces[0].Dev
	}
	if len(f.Interfaces) > 1 || s.Device == "" {
		return s, "Quantix has only macvtap networks with exactly one device."
	}
	return s, ""
}

// plainIP returns the subnet in the form that Quantix writes: with a prefix length, and without the default family.
func plainIP(ip libvirtxml.NetworkIP) libvirtxml.NetworkIP {
	if p, err := netip.ParsePrefix(subnetPrefix(ip)); err == nil {
		ip.Prefix, ip.Netmask = uint(p.Bits()), ""
	}
	if ip.Family == "ipv4" {
		ip.Family = ""
	}
	return ip
}
