package fleet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Modes of networks whose layer 2 is outside libvirt. Hosts have no address in them and serve neither DHCP nor DNS.
const (
	NetworkBridged NetworkMode = "bridge"  // on an existing bridge of the hosts
	NetworkUplink  NetworkMode = "uplink"  // on a bridge that each host creates on one of its devices, or on a VLAN of the device
	NetworkVXLAN   NetworkMode = "vxlan"   // on a bridge that each host creates; tunnels connect the bridges
	NetworkOVS     NetworkMode = "ovs"     // on an existing Open vSwitch bridge of the hosts
	NetworkMacvtap NetworkMode = "macvtap" // directly on a device of the host
	NetworkSRIOV   NetworkMode = "sriov"   // each NIC on a virtual function of a device of the host
)

// Bounds and constants of networks whose layer 2 is outside libvirt.
const (
	MaxVNI  = 1<<24 - 1
	MaxVLAN = 4094
	// MaxPeers is the maximum number of hosts of one overlay, because each host sends broadcasts to all others.
	MaxPeers = 1024
	// VXLANPort is the UDP port of the hosts for VXLAN packets.
	VXLANPort = 4789
)

// VXLANOverhead returns the bytes that VXLAN encapsulation takes from the MTU of the underlay, for its address family.
func VXLANOverhead(over netip.Addr) int {
	if over.Unmap().Is4() {
		return 50
	}
	return 70
}

// NetworkType describes a network mode, except how a host creates such a network.
type NetworkType struct {
	Mode           NetworkMode
	Word           string // name on pages: "VXLAN overlay"
	Help           string // help text of the choice
	Forward        string // libvirt's forward mode
	HostAddresses  bool   // hosts have addresses in the network and can serve DHCP and DNS
	External       bool   // the network leads out of the host, so VMs of a project need a grant
	CreatesDevices bool   // the agent creates devices for the network
	SpansHosts     bool   // guests on different hosts can be on the same layer 2
	Unfiltered     bool   // hosts cannot filter the NICs: security groups and anti-spoofing do not work
	PortGroupVLANs bool   // port groups can have their own VLANs
	RequiredFields []string
	OptionalFields []string
}

// NetworkField is a field of a network's spec that only some modes have.
type NetworkField struct {
	Name, Label string
	Missing     string // error text if a mode requires the field
	isSet       func(NetworkSpec) bool
	clear       func(*NetworkSpec)
	check       func(NetworkSpec) string
}

var networkFields = []NetworkField{
	{
		Name: "device", Label: "Device", Missing: "Enter a network device of the hosts, such as eth1.",
		isSet: func(s NetworkSpec) bool { return s.Device != "" }, clear: func(s *NetworkSpec) { s.Device = "" },
	},
	{
		Name: "bridge", Label: "Bridge device", Missing: "Enter an existing bridge of the hosts, such as br0.",
		isSet: func(s NetworkSpec) bool { return s.Bridge != "" }, clear: func(s *NetworkSpec) { s.Bridge = "" },
	},
	{
		Name: "mtu", Label: "MTU", isSet: func(s NetworkSpec) bool { return s.MTU != 0 }, clear: func(s *NetworkSpec) { s.MTU = 0 },
	},
	{
		Name: "vlan", Label: "VLAN", isSet: func(s NetworkSpec) bool { return s.VLAN != 0 }, clear: func(s *NetworkSpec) { s.VLAN = 0 },
		check: func(s NetworkSpec) string {
			if s.VLAN < 1 || s.VLAN > MaxVLAN {
				return fmt.Sprintf("A VLAN ID is between 1 and %d. Leave the field empty for untagged packets.", MaxVLAN)
			}
			return ""
		},
	},
	{
		Name: "vni", Label: "VNI", Missing: "Enter a VNI that no other overlay of the same hosts has.",
		isSet: func(s NetworkSpec) bool { return s.VNI != 0 }, clear: func(s *NetworkSpec) { s.VNI = 0 },
		check: func(s NetworkSpec) string {
			if s.VNI < 1 || s.VNI > MaxVNI {
				return fmt.Sprintf("A VNI is between 1 and %d.", MaxVNI)
			}
			return ""
		},
	},
	{
		Name: "underlay", Label: "Subnet between the hosts", Missing: "Enter the subnet by which the hosts reach one another, such as 10.50.0.0/24.",
		isSet: func(s NetworkSpec) bool { return s.Underlay != "" }, clear: func(s *NetworkSpec) { s.Underlay = "" },
		check: underlayRefusal,
	},
	{
		Name: "direct", Label: "macvtap mode", isSet: func(s NetworkSpec) bool { return s.Direct != "" }, clear: func(s *NetworkSpec) { s.Direct = "" },
		check: directModeRefusal,
	},
	{
		Name: "stp", Label: "Spanning tree", isSet: func(s NetworkSpec) bool { return s.STP }, clear: func(s *NetworkSpec) { s.STP = false },
	},
}

func underlayRefusal(s NetworkSpec) string {
	p, err := netip.ParsePrefix(s.Underlay)
	switch {
	case err != nil:
		return "Enter the subnet by which the hosts reach one another, such as 10.50.0.0/24."
	case p != p.Masked():
		return fmt.Sprintf("%s is an address within %s. Enter the subnet.", p, p.Masked())
	case p.Bits() == 0 || p.Addr().IsLoopback() || p.Addr().IsMulticast() || p.Addr().IsLinkLocalUnicast():
		return "The subnet must not contain all addresses, and no loopback, link-local or multicast addresses. Enter the subnet by which the hosts reach one another."
	}
	return ""
}

// networkTypes lists all modes, in the order of the form.
var networkTypes = []NetworkType{
	{
		Mode: NetworkNAT, Word: "NAT", Forward: "nat", HostAddresses: true, OptionalFields: []string{"device", "bridge", "mtu"},
		Help: "Guests reach outside networks through their host's address. Outside systems cannot connect to guests.",
	},
	{
		Mode: NetworkRouted, Word: "Routed", Forward: "route", HostAddresses: true, OptionalFields: []string{"device", "bridge", "mtu"},
		Help: "Guests reach outside networks with their own addresses. Your routers need a route to the guests through each host.",
	},
	{
		Mode: NetworkIsolated, Word: "Isolated", HostAddresses: true, OptionalFields: []string{"bridge", "mtu"},
		Help: "Guests on the same host reach one another and the host, but no outside network.",
	},
	{
		Mode: NetworkVXLAN, Word: "VXLAN overlay", Forward: "bridge", External: true, CreatesDevices: true, SpansHosts: true,
		RequiredFields: []string{"vni", "underlay"}, OptionalFields: []string{"bridge", "mtu"},
		Help: "Guests on all assigned hosts share one layer 2 network. The hosts connect it by VXLAN tunnels over their existing network.",
	},
	{
		Mode: NetworkUplink, Word: "Bridge on a device", Forward: "bridge", External: true, CreatesDevices: true, SpansHosts: true,
		RequiredFields: []string{"device"}, OptionalFields: []string{"bridge", "vlan", "stp"},
		Help: "Each host creates a Linux bridge on one of its network devices. Guests are on the physical network of that device.",
	},
	{
		Mode: NetworkBridged, Word: "Existing bridge", Forward: "bridge", External: true, SpansHosts: true, RequiredFields: []string{"bridge"},
		Help: "Guests are on an existing Linux bridge of the hosts, which Quantix does not change.",
	},
	{
		Mode: NetworkOVS, Word: "Open vSwitch", Forward: "bridge", External: true, SpansHosts: true, PortGroupVLANs: true, Unfiltered: true, RequiredFields: []string{"bridge"}, OptionalFields: []string{"vlan"},
		Help: "Guests are on an existing Open vSwitch bridge of the hosts, optionally in a VLAN. Security groups do not work on it.",
	},
	{
		Mode: NetworkMacvtap, Word: "macvtap", Forward: "bridge", External: true, SpansHosts: true, Unfiltered: true, RequiredFields: []string{"device"}, OptionalFields: []string{"direct"},
		Help: "Guests connect directly to a network device of the host, without a bridge. Guests and their host cannot reach each other.",
	},
	{
		Mode: NetworkSRIOV, Word: "SR-IOV", Forward: "hostdev", External: true, SpansHosts: true, Unfiltered: true, RequiredFields: []string{"device"}, OptionalFields: []string{"vlan"},
		Help: "Each NIC uses one virtual function (VF) of a host device exclusively. VMs with such NICs cannot migrate live.",
	},
}

// NetworkTypes returns all modes, in the order of the form.
func NetworkTypes() []NetworkType { return slices.Clone(networkTypes) }

// Info returns the mode's row of the table; the zero value for an unknown mode.
func (m NetworkMode) Info() NetworkType {
	if i := slices.IndexFunc(networkTypes, func(t NetworkType) bool { return t.Mode == m }); i >= 0 {
		return networkTypes[i]
	}
	return NetworkType{}
}

// HasField reports whether a network of the mode may have the field.
func (t NetworkType) HasField(field string) bool {
	return slices.Contains(t.RequiredFields, field) || slices.Contains(t.OptionalFields, field)
}

// ModesWithField lists the modes that may have the field. The pseudo-field "served" selects the modes that give hosts
// addresses.
func ModesWithField(field string) (out []NetworkMode) {
	for _, t := range networkTypes {
		if t.HasField(field) || field == "served" && t.HostAddresses {
			out = append(out, t.Mode)
		}
	}
	return out
}

// UnfilteredModes lists the modes whose NICs hosts cannot filter.
func UnfilteredModes() (out []string) {
	for _, t := range networkTypes {
		if t.Unfiltered {
			out = append(out, string(t.Mode))
		}
	}
	return out
}

// WithoutFieldsOfOtherModes returns the spec without the fields that its mode does not have. A form without scripts sends the fields of
// all modes.
func (s NetworkSpec) WithoutFieldsOfOtherModes() NetworkSpec {
	t := s.Mode.Info()
	for _, f := range networkFields {
		if !t.HasField(f.Name) {
			f.clear(&s)
		}
	}
	if !t.HostAddresses {
		s.IPv4, s.IPv6, s.DNS, s.Domain = nil, nil, false, ""
	}
	return s
}

// checkMode adds an error for each missing field of the spec's mode, and for each field that the mode does not have.
func (s NetworkSpec) checkMode(c *Checks, prefix string) {
	t := s.Mode.Info()
	if t.Mode == "" {
		words := make([]string, len(networkTypes))
		for i, known := range networkTypes {
			words[i] = string(known.Mode)
		}
		c.Add(prefix+".mode", "A network's mode is %s.", joinOr(words))
		return
	}
	for _, f := range networkFields {
		given := f.isSet(s)
		switch {
		case given && !t.HasField(f.Name):
			c.Add(prefix+"."+f.Name, "A network of mode %q has no %s. Leave the field empty, or choose another mode.", string(s.Mode), lowerFirst(f.Label))
		case given && f.check != nil:
			if why := f.check(s); why != "" {
				c.Add(prefix+"."+f.Name, "%s", why)
			}
		case !given && slices.Contains(t.RequiredFields, f.Name):
			c.Add(prefix+"."+f.Name, "%s", f.Missing)
		}
	}
	if t.HostAddresses {
		return
	}
	for _, x := range []struct {
		field string
		given bool
	}{{"ipv4.gateway", s.IPv4 != nil}, {"ipv6.gateway", s.IPv6 != nil}, {"dns", s.DNS}, {"domain", s.Domain != ""}} {
		if x.given {
			c.Add(prefix+"."+x.field, "Hosts have no address in a network of mode %q and serve neither DHCP nor DNS. Leave the field empty.", string(s.Mode))
		}
	}
}

// lowerFirst returns a label for use inside a sentence; abbreviations keep their capitals.
func lowerFirst(label string) string {
	if strings.ToUpper(label) == label {
		return label
	}
	return strings.ToLower(label[:1]) + label[1:]
}

// BridgeDevice returns the name of the bridge that a host creates for the network, if its mode has CreatesDevices.
func (n Network) BridgeDevice() string {
	if n.Spec.Bridge != "" {
		return n.Spec.Bridge
	}
	return n.deviceName("qxb-")
}

// TunnelDevice and VLANDevice return the names of the devices that a host attaches to the bridge BridgeDevice.
func (n Network) TunnelDevice() string { return n.deviceName("qxv-") }
func (n Network) VLANDevice() string   { return n.deviceName("qxl-") }

// deviceName returns a device name that is unique per network and the same on every host. It ends with the last digits
// of the network's ID, which are random.
func (n Network) deviceName(prefix string) string {
	id := strings.ReplaceAll(string(n.ID), "-", "")
	return prefix + id[max(0, len(id)-10):]
}

// NetworkGap is a network mode that a host does not support. Why is the reason, as a sentence.
type NetworkGap struct {
	Mode NetworkMode `json:"mode"`
	Why  string      `json:"why"`
}
