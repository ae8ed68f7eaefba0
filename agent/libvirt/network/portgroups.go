package network

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// portGroupXML is a port group of a network definition. libvirtxml does not support the bandwidth of a port group, so
// Quantix reads and writes port groups separately.
type portGroupXML struct {
	XMLName   xml.Name                     `xml:"portgroup"`
	Name      string                       `xml:"name,attr"`
	VLAN      *libvirtxml.NetworkVLAN      `xml:"vlan"`
	Bandwidth *libvirtxml.NetworkBandwidth `xml:"bandwidth"`
}

// portGroupList has the port groups of a network definition, sorted by name.
type portGroupList []portGroupXML

// portGroupsOf returns the spec's port groups for libvirt.
func portGroupsOf(s *fleet.NetworkSpec) (out portGroupList) {
	for _, g := range s.PortGroups {
		x := portGroupXML{Name: g.Name}
		if g.VLAN != nil {
			x.VLAN = vlanXML(*g.VLAN)
		}
		if g.ToGuest != nil || g.FromGuest != nil {
			// In libvirt, inbound is the traffic to the guest, and outbound is the traffic from the guest.
			x.Bandwidth = &libvirtxml.NetworkBandwidth{Inbound: bandwidthXML(g.ToGuest), Outbound: bandwidthXML(g.FromGuest)}
		}
		out = append(out, x)
	}
	return out.sorted()
}

func vlanXML(v fleet.VLAN) *libvirtxml.NetworkVLAN {
	if len(v.Trunk) == 0 {
		return &libvirtxml.NetworkVLAN{Tags: []libvirtxml.NetworkVLANTag{{ID: uint(v.ID)}}}
	}
	x := &libvirtxml.NetworkVLAN{Trunk: "yes"}
	if v.ID != 0 {
		x.Tags = append(x.Tags, libvirtxml.NetworkVLANTag{ID: uint(v.ID), NativeMode: "untagged"})
	}
	for _, id := range v.Trunk {
		x.Tags = append(x.Tags, libvirtxml.NetworkVLANTag{ID: uint(id)})
	}
	return x
}

func bandwidthXML(r *fleet.Rate) *libvirtxml.NetworkBandwidthParams {
	if r == nil {
		return nil
	}
	set := func(n int) *uint {
		if n == 0 {
			return nil
		}
		u := uint(n)
		return &u
	}
	return &libvirtxml.NetworkBandwidthParams{Average: set(r.AverageKiB), Peak: set(r.PeakKiB), Burst: set(r.BurstKiB)}
}

// parsePortGroups reads the port groups of a network's XML.
func parsePortGroups(text string) (portGroupList, error) {
	var x struct {
		Groups portGroupList `xml:"portgroup"`
	}
	err := xml.Unmarshal([]byte(text), &x)
	return x.Groups.sorted(), err
}

func (g portGroupList) sorted() portGroupList {
	slices.SortFunc(g, func(a, b portGroupXML) int { return cmp.Compare(a.Name, b.Name) })
	return g
}

func (g portGroupXML) text() string {
	g.XMLName = xml.Name{}
	text, err := xml.Marshal(g)
	if err != nil {
		return err.Error() // an error text equals no group
	}
	return string(text)
}

func (g portGroupList) text() string {
	var b strings.Builder
	for _, x := range g {
		b.WriteString(x.text())
	}
	return b.String()
}

func (g portGroupList) digest() string {
	if len(g) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(g.text()))
	return hex.EncodeToString(sum[:])
}

// groupText returns the text of the group with this name. It is empty if there is none.
func (g portGroupList) groupText(name string) string {
	if i := slices.IndexFunc(g, func(x portGroupXML) bool { return x.Name == name }); i >= 0 {
		return g[i].text()
	}
	return ""
}

// insertInto inserts the port groups into a network's XML.
func (g portGroupList) insertInto(text string) string {
	const end = "</network>"
	i := strings.LastIndex(text, end)
	if i < 0 || len(g) == 0 {
		return text
	}
	return text[:i] + g.text() + text[i:]
}

// updatesTo returns the changes that turn the running network's port groups into the wanted ones.
func (g portGroupList) updatesTo(wanted portGroupList) (out []networkUpdate) {
	add := func(command golibvirt.NetworkUpdateCommand, text string) {
		out = append(out, networkUpdate{command, golibvirt.NetworkSectionPortgroup, -1, text})
	}
	for _, x := range g {
		if wanted.groupText(x.Name) == "" {
			add(golibvirt.NetworkUpdateCommandDelete, x.text())
		}
	}
	for _, x := range wanted {
		switch g.groupText(x.Name) {
		case x.text():
		case "":
			add(golibvirt.NetworkUpdateCommandAddLast, x.text())
		default:
			add(golibvirt.NetworkUpdateCommandModify, x.text())
		}
	}
	return out
}

// readNetworkXML reads a network's definition and its port groups.
func readNetworkXML(ctx context.Context, c *conn.Conn, ref golibvirt.Network, flags uint32) (x libvirtxml.Network, g portGroupList, err error) {
	text, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.NetworkGetXMLDesc(ref, flags) })
	if err != nil {
		return x, nil, err
	}
	if err := x.Unmarshal(text); err != nil {
		return x, nil, err
	}
	x.PortGroups = nil
	g, err = parsePortGroups(text)
	return x, g, err
}

// applyNICBandwidths applies changed port group bandwidths to the NICs of running guests, because libvirt applies the
// bandwidth only when it attaches a NIC. It does not change a NIC with bandwidth limits of its own.
func (ns *Networks) applyNICBandwidths(ctx context.Context, c *conn.Conn, n fleet.Network) error {
	all, err := ns.guests(ctx, c)
	if err != nil {
		return err
	}
	on := func(k domxml.NICHardware) bool { return strings.HasPrefix(k.Source, "network "+n.Name+", ") }
	for _, s := range all {
		if s.Live == nil || !slices.ContainsFunc(s.Live.NICs, on) {
			continue
		}
		live, err := conn.ReadDefinition(ctx, c, s.Ref, 0)
		if err != nil {
			return err
		}
		inactive, err := conn.ReadDefinition(ctx, c, s.Ref, golibvirt.DomainXMLInactive)
		if err != nil {
			return err
		}
		for _, d := range live.Devices.Interfaces {
			if err := applyNICBandwidth(ctx, c, s.Ref, n, d, inactive); err != nil {
				return fmt.Errorf("limit the NIC %s of %s: %w", domxml.NICMACOf(&d), s.Ref.Name, err)
			}
		}
	}
	return nil
}

// applyNICBandwidth sets the bandwidth of one NIC of a running guest to the bandwidth of the NIC's port group.
func applyNICBandwidth(ctx context.Context, c *conn.Conn, ref golibvirt.Domain, n fleet.Network, d libvirtxml.DomainInterface, inactive *libvirtxml.Domain) error {
	if d.Source == nil || d.Source.Network == nil || d.Source.Network.Network != n.Name {
		return nil
	}
	g := n.Spec.PortGroupByName(d.Source.Network.PortGroup)
	own := slices.ContainsFunc(inactive.Devices.Interfaces, func(k libvirtxml.DomainInterface) bool {
		return domxml.NICMACOf(&k) == domxml.NICMACOf(&d) && k.Bandwidth != nil
	})
	if g == nil || own {
		return nil
	}
	want := append(bandwidthParams("inbound", g.ToGuest), bandwidthParams("outbound", g.FromGuest)...)
	if slices.Equal(want, currentBandwidth(d.Bandwidth)) {
		return nil
	}
	params := make([]golibvirt.TypedParam, len(want))
	for i, w := range want {
		params[i] = golibvirt.TypedParam{Field: w.name, Value: *golibvirt.NewTypedParamValueUint(w.value)}
	}
	return c.Do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetInterfaceParameters(ref, domxml.NICMACOf(&d), params, uint32(golibvirt.DomainAffectLive))
	})
}

// bandwidthParam is one of libvirt's bandwidth parameters; 0 means no limit.
type bandwidthParam struct {
	name  string
	value uint32
}

// bandwidthParams returns libvirt's bandwidth parameters for one direction.
func bandwidthParams(way string, r *fleet.Rate) []bandwidthParam {
	if r == nil {
		r = &fleet.Rate{}
	}
	return []bandwidthParam{{way + ".average", uint32(r.AverageKiB)}, {way + ".peak", uint32(r.PeakKiB)}, {way + ".burst", uint32(r.BurstKiB)}}
}

// currentBandwidth returns a NIC's current bandwidth parameters.
func currentBandwidth(b *libvirtxml.DomainInterfaceBandwidth) []bandwidthParam {
	if b == nil {
		b = &libvirtxml.DomainInterfaceBandwidth{}
	}
	rate := func(p *libvirtxml.DomainInterfaceBandwidthParams) *fleet.Rate {
		if p == nil {
			return nil
		}
		get := func(n *int) int {
			if n == nil {
				return 0
			}
			return *n
		}
		return &fleet.Rate{AverageKiB: get(p.Average), PeakKiB: get(p.Peak), BurstKiB: get(p.Burst)}
	}
	return append(bandwidthParams("inbound", rate(b.Inbound)), bandwidthParams("outbound", rate(b.Outbound))...)
}
