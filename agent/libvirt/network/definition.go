package network

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/domxml"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// networkNamespace is the XML namespace of Quantix's element in a network's metadata.
const networkNamespace = "https://quantix.dev/xmlns/network/1"

// networkDefinition returns the network's libvirt definition without Quantix's metadata.
func networkDefinition(n fleet.Network) libvirtxml.Network {
	s := n.Spec
	if t := s.Mode.Info(); !t.HostAddresses {
		return deviceNetworkDefinition(n, t)
	}
	x := libvirtxml.Network{
		Name: n.Name, UUID: string(n.ID),
		Bridge: &libvirtxml.NetworkBridge{Name: s.Bridge, STP: "on", Delay: "0"},
	}
	if s.Mode != fleet.NetworkIsolated {
		x.Forward = &libvirtxml.NetworkForward{Mode: string(s.Mode), Dev: s.Device}
	}
	if s.MTU > 0 {
		x.MTU = &libvirtxml.NetworkMTU{Size: uint(s.MTU)}
	}
	if s.Domain != "" {
		x.Domain = &libvirtxml.NetworkDomain{Name: s.Domain, LocalOnly: "yes"}
	}
	if !s.DNS {
		x.DNS = &libvirtxml.NetworkDNS{Enable: "no"}
	}
	for _, subnet := range []*fleet.Subnet{s.IPv4, s.IPv6} {
		if subnet != nil {
			x.IPs = append(x.IPs, networkIP(*subnet))
		}
	}
	return x
}

// deviceNetworkDefinition returns the definition of a network that libvirt does not serve. Such a definition only names
// a bridge or device that the host or the agent created.
func deviceNetworkDefinition(n fleet.Network, t fleet.NetworkType) libvirtxml.Network {
	s := n.Spec
	x := libvirtxml.Network{Name: n.Name, UUID: string(n.ID), Forward: &libvirtxml.NetworkForward{Mode: s.Forward()}}
	switch s.Mode {
	case fleet.NetworkMacvtap:
		x.Forward.Dev = s.Device
		x.Forward.Interfaces = []libvirtxml.NetworkForwardInterface{{Dev: s.Device}}
		return x
	case fleet.NetworkSRIOV:
		x.Forward.Managed = "yes"
		x.Forward.PFs = []libvirtxml.NetworkForwardPF{{Dev: s.Device}}
	case fleet.NetworkOVS:
		x.Bridge = &libvirtxml.NetworkBridge{Name: s.Bridge}
		x.VirtualPort = &libvirtxml.NetworkVirtualPort{Params: &libvirtxml.NetworkVirtualPortParams{OpenVSwitch: &libvirtxml.NetworkVirtualPortParamsOpenVSwitch{}}}
	default:
		x.Bridge = &libvirtxml.NetworkBridge{Name: s.Bridge}
		if t.CreatesDevices {
			x.Bridge.Name = n.BridgeDevice()
		}
		return x
	}
	if s.VLAN > 0 {
		x.VLAN = &libvirtxml.NetworkVLAN{Tags: []libvirtxml.NetworkVLANTag{{ID: uint(s.VLAN)}}}
	}
	return x
}

// networkIP returns the libvirt definition of a subnet with its DHCP ranges.
func networkIP(s fleet.Subnet) libvirtxml.NetworkIP {
	gateway, _ := netip.ParsePrefix(s.Gateway) // the spec was validated
	ip := libvirtxml.NetworkIP{Address: gateway.Addr().String(), Prefix: uint(gateway.Bits())}
	if gateway.Addr().Is6() {
		ip.Family = "ipv6"
	}
	if s.DHCP == nil {
		return ip
	}
	ip.DHCP = &libvirtxml.NetworkDHCP{}
	for _, r := range s.DHCP.Ranges {
		ip.DHCP.Ranges = append(ip.DHCP.Ranges, libvirtxml.NetworkDHCPRange{Start: formatAddress(r.Start), End: formatAddress(r.End)})
	}
	for _, l := range s.DHCP.Leases {
		ip.DHCP.Hosts = append(ip.DHCP.Hosts, libvirtxml.NetworkDHCPHost{MAC: l.MAC, IP: formatAddress(l.IP), Name: l.Name})
	}
	return ip
}

// formatAddress returns an IP address in libvirt's notation.
func formatAddress(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.String()
	}
	return text
}

// hasDnsmasq reports whether libvirt runs dnsmasq for the network.
func hasDnsmasq(x libvirtxml.Network) bool {
	for _, ip := range x.IPs {
		if x.DNS == nil || x.DNS.Enable != "no" || ip.DHCP != nil && len(ip.DHCP.Ranges)+len(ip.DHCP.Hosts) > 0 {
			return true
		}
	}
	return false
}

// networkMetadata is the metadata that Quantix writes into its network definitions: the generation, digests that reveal
// later edits, and the spec that edits are compared with.
type networkMetadata struct {
	Generation int64  `xml:"generation"`
	Digest     string `xml:"digest"` // digest of the definition as Quantix wrote it
	Groups     string `xml:"groups"` // digest of the port groups as Quantix wrote them; empty if there were none
	Spec       string `xml:"spec"`   // the applied spec as JSON; empty in definitions of older agents
}

// definitionWithMetadata returns the definition with Quantix's metadata.
func definitionWithMetadata(n fleet.Network) (string, error) {
	x := networkDefinition(n)
	groups := portGroupsOf(n.Spec)
	of := ""
	if len(groups) > 0 {
		of = fmt.Sprintf("<%[1]s:groups>%[2]s</%[1]s:groups>", domxml.MetadataPrefix, groups.digest())
	}
	spec, err := json.Marshal(n.Spec)
	if err != nil {
		return "", err
	}
	var applied strings.Builder
	if err := xml.EscapeText(&applied, spec); err != nil {
		return "", err
	}
	x.Metadata = &libvirtxml.NetworkMetadata{XML: fmt.Sprintf(
		"<%[1]s:network xmlns:%[1]s=%[2]q><%[1]s:generation>%[3]s</%[1]s:generation><%[1]s:digest>%[4]s</%[1]s:digest>%[5]s<%[1]s:spec>%[6]s</%[1]s:spec></%[1]s:network>",
		domxml.MetadataPrefix, networkNamespace, strconv.FormatInt(n.Generation, 10), definitionDigest(x), of, applied.String())}
	text, err := x.Marshal()
	return groups.insertInto(text), err
}

// readNetworkMetadata reads Quantix's metadata from a definition. It returns the zero value if there is none.
func readNetworkMetadata(x libvirtxml.Network) (s networkMetadata) {
	if x.Metadata == nil {
		return s
	}
	d := xml.NewDecoder(strings.NewReader(x.Metadata.XML))
	for {
		t, err := d.Token()
		if err != nil {
			return networkMetadata{}
		}
		if e, ok := t.(xml.StartElement); ok {
			if e.Name.Space == networkNamespace && e.Name.Local == "network" {
				if d.DecodeElement(&s, &e) != nil {
					return networkMetadata{}
				}
				return s
			}
			if d.Skip() != nil {
				return networkMetadata{}
			}
		}
	}
}

// matchesDefinition reports whether nobody has edited the definition since Quantix wrote it. The definition may have an
// older generation than the spec.
func (s networkMetadata) matchesDefinition(is libvirtxml.Network) bool {
	plain := is
	if is.Bridge != nil && is.Bridge.Name != "" && s.Digest != "" {
		bridge := *is.Bridge
		bridge.Name = "" // libvirt may have chosen the bridge's name
		plain.Bridge = &bridge
	}
	return s.Digest != "" && (s.Digest == definitionDigest(is) || s.Digest == definitionDigest(plain))
}

// definitionDigest returns the SHA-256 of the normalized definition.
func definitionDigest(x libvirtxml.Network) string {
	sum := sha256.Sum256([]byte(networkXML(normalizeNetwork(x))))
	return hex.EncodeToString(sum[:])
}

// normalizeNetwork removes the additions of libvirt from a definition, so that equal networks have equal definitions.
func normalizeNetwork(x libvirtxml.Network) libvirtxml.Network {
	x.XMLName, x.Metadata, x.MAC = xml.Name{}, nil, nil
	if f := x.Forward; f != nil {
		plain := *f
		if n := f.NAT; n != nil && n.IPv6 == "" && len(n.Addresses) == 0 && (len(n.Ports) == 0 || len(n.Ports) == 1 && n.Ports[0] == libvirtxml.NetworkForwardNATPort{Start: 1024, End: 65535}) {
			plain.NAT = nil
		}
		if len(f.Interfaces) == 1 && f.Interfaces[0].Dev == f.Dev {
			plain.Interfaces = nil
		}
		if f.Managed == "no" {
			plain.Managed = ""
		}
		x.Forward = &plain
	}
	return x
}

func networkXML(x libvirtxml.Network) string {
	text, err := x.Marshal()
	if err != nil {
		return err.Error() // an error text equals no definition
	}
	return text
}

// comparedParts lists the compared parts of a network definition, with the names shown to people.
var comparedParts = []struct {
	name string
	of   func(libvirtxml.Network) libvirtxml.Network
}{
	{drift.PartForward, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{Forward: x.Forward} }},
	{drift.PartBridge, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{Bridge: x.Bridge} }},
	{drift.PartMTU, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{MTU: x.MTU} }},
	{drift.PartDomain, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{Domain: x.Domain} }},
	{drift.PartDNS, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{DNS: x.DNS} }},
	{drift.PartAddresses, func(x libvirtxml.Network) libvirtxml.Network { return libvirtxml.Network{IPs: x.IPs} }},
}

// editedParts returns the names of the differing parts of two definitions. It is empty if the definitions agree.
func editedParts(want, is libvirtxml.Network) (parts []string) {
	want, is = normalizeNetwork(want), normalizeNetwork(is)
	if want.Bridge != nil && want.Bridge.Name == "" && is.Bridge != nil { // libvirt chose the bridge's name
		bridge := *is.Bridge
		bridge.Name = ""
		is.Bridge = &bridge
	}
	for _, p := range comparedParts {
		if networkXML(p.of(want)) != networkXML(p.of(is)) {
			parts = append(parts, p.name)
		}
	}
	for _, x := range []*libvirtxml.Network{&want, &is} {
		x.Forward, x.Bridge, x.MTU, x.Domain, x.DNS, x.IPs = nil, nil, nil, nil, nil, nil
	}
	if networkXML(want) != networkXML(is) {
		parts = append(parts, drift.PartOther)
	}
	return parts
}
