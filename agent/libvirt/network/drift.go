package network

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// networkDrift lists the edits of an assigned network's definition, compared with the spec that the definition's
// metadata records. A definition without a recorded spec is compared with the wanted spec.
func networkDrift(n networkState, wanted fleet.Network) []fleet.Drift {
	if n.persistent == nil || wanted.Spec == nil {
		return nil
	}
	if wanted.IsAdopted() {
		if def := n.definition(); def.Spec != nil {
			return drift.OfAdoptedNetwork(*def.Spec, *wanted.Spec)
		}
		return nil
	}
	var out []fleet.Drift
	if meta := readNetworkMetadata(*n.persistent); !meta.matchesDefinition(*n.persistent) || meta.Groups != n.persistentGroups.digest() {
		applied := wanted
		applied.Spec = cmp.Or(meta.appliedSpec(), wanted.Spec)
		actual := definedSpec(*n.persistent, n.persistentGroups, applied)
		out = drift.OfNetwork(*applied.Spec, actual, *wanted.Spec, differingParts(applied, *n.persistent, n.persistentGroups))
	}
	if !n.status.Autostart {
		out = append(out, drift.OfAutostart())
	}
	return out
}

// differingParts returns the names of the definition's parts that differ from the network.
func differingParts(n fleet.Network, is libvirtxml.Network, groups portGroupList) []string {
	parts := editedParts(networkDefinition(n), is)
	if groups.text() != portGroupsOf(n.Spec).text() {
		parts = append(parts, drift.PartPortGroups)
	}
	return parts
}

// appliedSpec returns the spec that the metadata records, or nil.
func (s networkMetadata) appliedSpec() *fleet.NetworkSpec {
	if s.Spec == "" {
		return nil
	}
	var spec fleet.NetworkSpec
	if json.Unmarshal([]byte(s.Spec), &spec) != nil {
		return nil
	}
	return &spec
}

// definedSpec expresses a definition as a spec. Settings that a definition of this kind does not have are those of the
// applied spec.
func definedSpec(x libvirtxml.Network, groups portGroupList, applied fleet.Network) fleet.NetworkSpec {
	s := *applied.Spec
	was := networkDefinition(applied)
	if forward := forwardMode(x); forward != forwardMode(was) {
		s.Mode = cmp.Or(fleet.NetworkMode(forward), fleet.NetworkIsolated)
	}
	if device := forwardDevice(x); device != forwardDevice(was) {
		s.Device = device
	}
	if bridge := bridgeName(x); bridge != bridgeName(was) && bridgeName(was) != "" {
		s.Bridge = bridge
	}
	s.PortGroups = groups.definedGroups(applied.Spec)
	if !applied.Spec.Mode.Info().HostAddresses {
		if vlan := firstTag(x.VLAN); vlan != firstTag(was.VLAN) {
			s.VLAN = vlan
		}
		return s
	}
	s.MTU, s.Domain, s.DNS = 0, "", x.DNS == nil || x.DNS.Enable != "no"
	if x.MTU != nil {
		s.MTU = int(x.MTU.Size)
	}
	if x.Domain != nil {
		s.Domain = x.Domain.Name
	}
	s.IPv4, s.IPv6 = definedSubnet(x, false), definedSubnet(x, true)
	return s
}

func forwardMode(x libvirtxml.Network) string {
	if x.Forward == nil {
		return ""
	}
	return x.Forward.Mode
}

// forwardDevice returns the host device of a definition's forward mode.
func forwardDevice(x libvirtxml.Network) string {
	switch {
	case x.Forward == nil:
		return ""
	case len(x.Forward.PFs) > 0:
		return x.Forward.PFs[0].Dev
	}
	return x.Forward.Dev
}

func bridgeName(x libvirtxml.Network) string {
	if x.Bridge == nil {
		return ""
	}
	return x.Bridge.Name
}

// firstTag returns the first VLAN ID, or 0.
func firstTag(v *libvirtxml.NetworkVLAN) int {
	if v == nil || len(v.Tags) == 0 {
		return 0
	}
	return int(v.Tags[0].ID)
}

// definedSubnet returns the definition's first subnet of an address family, or nil.
func definedSubnet(x libvirtxml.Network, six bool) *fleet.Subnet {
	for _, ip := range x.IPs {
		address, err := netip.ParseAddr(ip.Address)
		prefix, bad := netip.ParsePrefix(subnetPrefix(ip))
		if err != nil || bad != nil || address.Is6() != six {
			continue
		}
		out := &fleet.Subnet{Gateway: address.String() + "/" + strconv.Itoa(prefix.Bits())}
		if ip.DHCP == nil {
			return out
		}
		out.DHCP = &fleet.DHCP{}
		for _, r := range ip.DHCP.Ranges {
			out.DHCP.Ranges = append(out.DHCP.Ranges, fleet.AddressRange{Start: formatAddress(r.Start), End: formatAddress(r.End)})
		}
		for _, h := range ip.DHCP.Hosts {
			out.DHCP.Leases = append(out.DHCP.Leases, fleet.StaticLease{MAC: h.MAC, IP: formatAddress(h.IP), Name: h.Name})
		}
		return out
	}
	return nil
}

// definedGroups returns the port groups as in a spec. Settings that libvirt does not have are those of the applied spec.
func (g portGroupList) definedGroups(applied *fleet.NetworkSpec) []fleet.PortGroup {
	var out []fleet.PortGroup
	for _, x := range g {
		group := fleet.PortGroup{Name: x.Name}
		if was := applied.PortGroupByName(x.Name); was != nil {
			group = *was
		}
		group.VLAN, group.ToGuest, group.FromGuest = definedVLAN(x.VLAN), nil, nil
		if x.Bandwidth != nil {
			group.ToGuest, group.FromGuest = definedRate(x.Bandwidth.Inbound), definedRate(x.Bandwidth.Outbound)
		}
		out = append(out, group)
	}
	return out
}

func definedVLAN(x *libvirtxml.NetworkVLAN) *fleet.VLAN {
	if x == nil {
		return nil
	}
	v := &fleet.VLAN{}
	for _, t := range x.Tags {
		if x.Trunk == "yes" && t.NativeMode == "" {
			v.Trunk = append(v.Trunk, int(t.ID))
		} else {
			v.ID = int(t.ID)
		}
	}
	slices.Sort(v.Trunk)
	return v
}

func definedRate(x *libvirtxml.NetworkBandwidthParams) *fleet.Rate {
	if x == nil {
		return nil
	}
	get := func(n *uint) int {
		if n == nil {
			return 0
		}
		return int(*n)
	}
	return &fleet.Rate{AverageKiB: get(x.Average), PeakKiB: get(x.Peak), BurstKiB: get(x.Burst)}
}
