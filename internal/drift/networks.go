package drift

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// Parts of a network's definition, as the texts of agents name them.
const (
	PartForward    = "the forward mode"
	PartBridge     = "the bridge"
	PartMTU        = "the MTU"
	PartDomain     = "the domain"
	PartDNS        = "DNS"
	PartAddresses  = "addresses and DHCP"
	PartPortGroups = "port groups"
	PartOther      = "settings that Quantix does not manage"
)

// Autostart is the field for objects that no longer start with their host.
const Autostart = "autostart"

// OfAutostart is the drift of an object that no longer starts with its host.
func OfAutostart() fleet.Drift { return fleet.Drift{Field: Autostart, Applied: "on", Actual: "off"} }

// NetworkField is a field of a network's definition.
type NetworkField struct {
	Name, Label string
	Part        string // the part of the definition that has the field
	// Odd: differences of the part that no spec can express show at this field
	Odd    bool
	Text   func(fleet.NetworkSpec) string
	value  func(fleet.NetworkSpec) any // the value that a spec can take; nil: the field is fixed
	decode func(*fleet.NetworkSpec, []byte) error
}

// NetworkFields are the fields of networks, in the order of pages.
var NetworkFields = []NetworkField{
	{Name: "mode", Label: "Mode", Part: PartForward, Odd: true, Text: func(s fleet.NetworkSpec) string {
		return cmp.Or(s.Mode.Info().Word, string(s.Mode))
	}},
	{Name: "device", Label: "Device", Part: PartForward, Text: func(s fleet.NetworkSpec) string { return cmp.Or(s.Device, "any") }},
	{Name: "bridge", Label: "Bridge", Part: PartBridge, Odd: true, Text: func(s fleet.NetworkSpec) string { return cmp.Or(s.Bridge, "chosen by the host") }},
	acceptable(NetworkField{Name: "mtu", Label: "MTU", Part: PartMTU, Odd: true, Text: func(s fleet.NetworkSpec) string {
		if s.MTU == 0 {
			return "default"
		}
		return strconv.Itoa(s.MTU)
	}}, func(s fleet.NetworkSpec) int { return s.MTU }, func(s *fleet.NetworkSpec, mtu int) { s.MTU = mtu }),
	acceptable(NetworkField{Name: "domain", Label: "Domain", Part: PartDomain, Odd: true, Text: func(s fleet.NetworkSpec) string { return cmp.Or(s.Domain, "none") }},
		func(s fleet.NetworkSpec) string { return s.Domain }, func(s *fleet.NetworkSpec, domain string) { s.Domain = domain }),
	acceptable(NetworkField{Name: "dns", Label: "DNS", Part: PartDNS, Odd: true, Text: func(s fleet.NetworkSpec) string {
		if s.DNS {
			return "on"
		}
		return "off"
	}}, func(s fleet.NetworkSpec) bool { return s.DNS }, func(s *fleet.NetworkSpec, on bool) { s.DNS = on }),
	{Name: "ipv4.gateway", Label: "IPv4 subnet", Part: PartAddresses, Odd: true, Text: func(s fleet.NetworkSpec) string { return gatewayText(s.IPv4) }},
	rangesField("ipv4.ranges", "IPv4 DHCP ranges", func(s *fleet.NetworkSpec) **fleet.Subnet { return &s.IPv4 }),
	acceptable(NetworkField{Name: "ipv4.reservations", Label: "Reserved addresses", Part: PartAddresses, Text: func(s fleet.NetworkSpec) string {
		return reservationsText(dhcpOf(s.IPv4).Leases)
	}}, func(s fleet.NetworkSpec) []fleet.StaticLease {
		return append([]fleet.StaticLease{}, dhcpOf(s.IPv4).Leases...)
	},
		func(s *fleet.NetworkSpec, all []fleet.StaticLease) {
			setDHCP(&s.IPv4, func(d *fleet.DHCP) { d.Leases = all })
		}),
	{Name: "ipv6.gateway", Label: "IPv6 subnet", Part: PartAddresses, Text: func(s fleet.NetworkSpec) string { return gatewayText(s.IPv6) }},
	rangesField("ipv6.ranges", "IPv6 DHCP ranges", func(s *fleet.NetworkSpec) **fleet.Subnet { return &s.IPv6 }),
	{Name: "portGroups", Label: "Port groups", Part: PartPortGroups, Odd: true, Text: portGroupsText},
	{Name: "vlan", Label: "VLAN", Part: PartOther, Text: func(s fleet.NetworkSpec) string {
		if s.VLAN == 0 {
			return "none"
		}
		return strconv.Itoa(s.VLAN)
	}},
	{Name: "other", Label: "Other settings", Part: PartOther, Odd: true, Text: func(fleet.NetworkSpec) string { return "none" }},
}

// acceptable makes a field one whose value on a host can become the spec's value.
func acceptable[T any](f NetworkField, get func(fleet.NetworkSpec) T, set func(*fleet.NetworkSpec, T)) NetworkField {
	f.value = func(s fleet.NetworkSpec) any { return get(s) }
	f.decode = func(s *fleet.NetworkSpec, data []byte) error {
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		set(s, v)
		return nil
	}
	return f
}

func rangesField(name, label string, at func(*fleet.NetworkSpec) **fleet.Subnet) NetworkField {
	get := func(s fleet.NetworkSpec) []fleet.AddressRange {
		return append([]fleet.AddressRange{}, dhcpOf(*at(&s)).Ranges...)
	}
	return acceptable(NetworkField{Name: name, Label: label, Part: PartAddresses, Text: func(s fleet.NetworkSpec) string {
		var out []string
		for _, r := range get(s) {
			out = append(out, addressText(r.Start)+"–"+addressText(r.End))
		}
		return cmp.Or(strings.Join(out, ", "), "none")
	}}, get, func(s *fleet.NetworkSpec, all []fleet.AddressRange) {
		setDHCP(at(s), func(d *fleet.DHCP) { d.Ranges = all })
	})
}

// dhcpOf returns the subnet's DHCP settings, which are empty without a subnet or DHCP.
func dhcpOf(n *fleet.Subnet) fleet.DHCP {
	if n == nil || n.DHCP == nil {
		return fleet.DHCP{}
	}
	return *n.DHCP
}

// setDHCP replaces the subnet by a copy with changed DHCP settings. A network without the subnet stays without it.
func setDHCP(n **fleet.Subnet, change func(*fleet.DHCP)) {
	if *n == nil {
		return
	}
	next, dhcp := **n, dhcpOf(*n)
	change(&dhcp)
	next.DHCP = nil
	if len(dhcp.Ranges)+len(dhcp.Leases) > 0 {
		next.DHCP = &dhcp
	}
	*n = &next
}

func gatewayText(n *fleet.Subnet) string {
	if n == nil {
		return "none"
	}
	if p, err := netip.ParsePrefix(n.Gateway); err == nil {
		return p.String()
	}
	return n.Gateway
}

// addressText returns an address in its shortest notation.
func addressText(text string) string {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.String()
	}
	return text
}

func reservationsText(all []fleet.StaticLease) string {
	out := make([]string, len(all))
	for i, l := range all {
		out[i] = strings.TrimSpace(addressText(l.IP) + " for " + strings.ToLower(l.MAC) + " " + l.Name)
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(out, ", "), "none")
}

// portGroupsText describes the settings of port groups that hosts know.
func portGroupsText(s fleet.NetworkSpec) string {
	out := make([]string, len(s.PortGroups))
	for i, g := range s.PortGroups {
		plain := fleet.PortGroup{Name: g.Name, VLAN: g.VLAN, ToGuest: g.ToGuest, FromGuest: g.FromGuest}
		out[i] = g.Name + " (" + plain.Text() + ")"
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(out, ", "), "none")
}

// OfNetwork lists the fields that differ between a definition and the applied spec. actual is the definition as a spec,
// and parts are its differing parts. A part without a differing field differs in a way that no spec can express. A field
// with the wanted value is no drift, because a user accepted its drift.
func OfNetwork(applied, actual, wanted fleet.NetworkSpec, parts []string) []fleet.Drift {
	var out []fleet.Drift
	differing := map[string]bool{}
	for _, f := range NetworkFields {
		is := f.Text(actual)
		if is == f.Text(applied) {
			continue
		}
		if differing[f.Part] = true; is == f.Text(wanted) {
			continue
		}
		d := fleet.Drift{Field: f.Name, Applied: f.Text(applied), Actual: is}
		if f.value != nil {
			d.Take = mustMarshal(f.value(actual))
		}
		out = append(out, d)
	}
	for _, f := range NetworkFields {
		if f.Odd && !differing[f.Part] && slices.Contains(parts, f.Part) {
			out = append(out, fleet.Drift{Field: f.Name, Applied: f.Text(applied), Actual: fmt.Sprintf("%s, with settings that Quantix does not have", f.Text(actual))})
		}
	}
	return out
}

// OfAdoptedNetwork lists the differences between a host's own definition, as a spec, and the spec of the adopted network.
func OfAdoptedNetwork(actual, wanted fleet.NetworkSpec) []fleet.Drift {
	return OfNetwork(wanted, actual, wanted, nil)
}

// NetworkParts returns the parts of the definition that have the drift, in the order of NetworkFields.
func NetworkParts(all []fleet.Drift) (parts []string) {
	for _, f := range NetworkFields {
		if Find(all, f.Name) != nil && !slices.Contains(parts, f.Part) {
			parts = append(parts, f.Part)
		}
	}
	return parts
}

// WantedOfNetwork returns the spec's value of the field with the drift, as text.
func WantedOfNetwork(s fleet.NetworkSpec, d fleet.Drift) string {
	if f := networkField(d.Field); f != nil {
		return f.Text(s)
	}
	return d.Applied
}

// WhyNotAcceptable returns why a network's spec cannot take the host's value; empty: it can.
func WhyNotAcceptable(d fleet.Drift) string {
	switch f := networkField(d.Field); {
	case d.Field == Autostart:
		return "A network always starts with its host. Reapply, or ignore the drift."
	case f == nil || f.decode == nil:
		return "This setting of a network is fixed. Reapply, or define another network."
	case d.Take == nil:
		return "Quantix has no setting for this value. Reapply, or ignore the drift."
	}
	return ""
}

// Accept writes the host's value of the field into the network's spec.
func Accept(s *fleet.NetworkSpec, d fleet.Drift) error {
	if why := WhyNotAcceptable(d); why != "" {
		return fleet.RefusalError(why)
	}
	if networkField(d.Field).decode(s, d.Take) != nil {
		return fleet.Errorf(fleet.Conflict, "The host's value of %s is not valid for a network. Reapply the network, or change the value on the host.", d.Field)
	}
	return nil
}

// OtherHostText is the reason why a network's spec cannot take a host's value that another host contradicts.
func OtherHostText(field, host string) string {
	return fmt.Sprintf("%s was changed on %s, too, to another value. Reapply the network there first.", Label(field), host)
}

// ChangedNetworkFields returns the fields that differ between two specs.
func ChangedNetworkFields(a, b fleet.NetworkSpec) (fields []string) {
	for _, f := range NetworkFields {
		if f.Text(a) != f.Text(b) {
			fields = append(fields, f.Name)
		}
	}
	return fields
}

func networkField(name string) *NetworkField {
	if i := slices.IndexFunc(NetworkFields, func(f NetworkField) bool { return f.Name == name }); i >= 0 {
		return &NetworkFields[i]
	}
	return nil
}
