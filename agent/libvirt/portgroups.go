package libvirt

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

	"quantix/internal/fleet"
)

// groupXML is a port group in a network's definition. libvirtxml knows no bounds of one, so it is read and written beside the rest.
type groupXML struct {
	XMLName   xml.Name                     `xml:"portgroup"`
	Name      string                       `xml:"name,attr"`
	VLAN      *libvirtxml.NetworkVLAN      `xml:"vlan"`
	Bandwidth *libvirtxml.NetworkBandwidth `xml:"bandwidth"`
}

// groups are those of a definition, in the order of their names.
type groups []groupXML

// groupsOf are the port groups as libvirt is told of them.
func groupsOf(s *fleet.NetworkSpec) (out groups) {
	for _, g := range s.PortGroups {
		x := groupXML{Name: g.Name}
		if g.VLAN != nil {
			x.VLAN = vlanXML(*g.VLAN)
		}
		if g.ToGuest != nil || g.FromGuest != nil {
			x.Bandwidth = &libvirtxml.NetworkBandwidth{Inbound: rateXML(g.ToGuest), Outbound: rateXML(g.FromGuest)} // as the guest sees it
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

func rateXML(r *fleet.Rate) *libvirtxml.NetworkBandwidthParams {
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

// groupsIn reads the port groups of a network's XML.
func groupsIn(text string) (groups, error) {
	var x struct {
		Groups groups `xml:"portgroup"`
	}
	err := xml.Unmarshal([]byte(text), &x)
	return x.Groups.sorted(), err
}

func (g groups) sorted() groups {
	slices.SortFunc(g, func(a, b groupXML) int { return cmp.Compare(a.Name, b.Name) })
	return g
}

func (g groupXML) text() string {
	g.XMLName = xml.Name{}
	text, err := xml.Marshal(g)
	if err != nil {
		return err.Error() // and so like no other
	}
	return string(text)
}

func (g groups) text() string {
	var b strings.Builder
	for _, x := range g {
		b.WriteString(x.text())
	}
	return b.String()
}

func (g groups) digest() string {
	if len(g) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(g.text()))
	return hex.EncodeToString(sum[:])
}

// named is the text of the group of that name; empty: there is none.
func (g groups) named(name string) string {
	if i := slices.IndexFunc(g, func(x groupXML) bool { return x.Name == name }); i >= 0 {
		return g[i].text()
	}
	return ""
}

// into puts the port groups into a network's XML.
func (g groups) into(text string) string {
	const end = "</network>"
	i := strings.LastIndex(text, end)
	if i < 0 || len(g) == 0 {
		return text
	}
	return text[:i] + g.text() + text[i:]
}

// updatesTo are the changes of what runs that bring want about.
func (g groups) updatesTo(want groups) (out []networkUpdate) {
	add := func(command golibvirt.NetworkUpdateCommand, text string) {
		out = append(out, networkUpdate{command, golibvirt.NetworkSectionPortgroup, -1, text})
	}
	for _, x := range g {
		if want.named(x.Name) == "" {
			add(golibvirt.NetworkUpdateCommandDelete, x.text())
		}
	}
	for _, x := range want {
		switch g.named(x.Name) {
		case x.text():
		case "":
			add(golibvirt.NetworkUpdateCommandAddLast, x.text())
		default:
			add(golibvirt.NetworkUpdateCommandModify, x.text())
		}
	}
	return out
}

// wholeNetwork is a network's definition with its port groups.
func wholeNetwork(ctx context.Context, c *conn, ref golibvirt.Network, flags uint32) (x libvirtxml.Network, g groups, err error) {
	text, err := call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.NetworkGetXMLDesc(ref, flags) })
	if err != nil {
		return x, nil, err
	}
	if err := x.Unmarshal(text); err != nil {
		return x, nil, err
	}
	x.PortGroups = nil
	g, err = groupsIn(text)
	return x, g, err
}

// boundNICs gives the cards of running guests the bounds of their port groups, which libvirt reads only when a card comes. A card with bounds
// of its own in its definition keeps them.
func (b *Backend) boundNICs(ctx context.Context, c *conn, n fleet.Network) error {
	all, err := b.inventory(ctx, c)
	if err != nil {
		return err
	}
	on := func(k nic) bool { return strings.HasPrefix(k.source, "network "+n.Name+", ") }
	for _, s := range all {
		if s.live == nil || !slices.ContainsFunc(s.live.nics, on) {
			continue
		}
		live, err := readXML(ctx, c, s.ref, 0)
		if err != nil {
			return err
		}
		kept, err := readXML(ctx, c, s.ref, golibvirt.DomainXMLInactive)
		if err != nil {
			return err
		}
		for _, d := range live.Devices.Interfaces {
			if err := boundNIC(ctx, c, s.ref, n, d, kept); err != nil {
				return fmt.Errorf("bound the card %s of %s: %w", macOf(&d), s.ref.Name, err)
			}
		}
	}
	return nil
}

func boundNIC(ctx context.Context, c *conn, ref golibvirt.Domain, n fleet.Network, d libvirtxml.DomainInterface, kept *libvirtxml.Domain) error {
	if d.Source == nil || d.Source.Network == nil || d.Source.Network.Network != n.Name {
		return nil
	}
	g := n.Spec.Group(d.Source.Network.PortGroup)
	own := slices.ContainsFunc(kept.Devices.Interfaces, func(k libvirtxml.DomainInterface) bool { return macOf(&k) == macOf(&d) && k.Bandwidth != nil })
	if g == nil || own {
		return nil
	}
	want := append(bounds("inbound", g.ToGuest), bounds("outbound", g.FromGuest)...)
	if slices.Equal(want, boundsNow(d.Bandwidth)) {
		return nil
	}
	params := make([]golibvirt.TypedParam, len(want))
	for i, w := range want {
		params[i] = golibvirt.TypedParam{Field: w.name, Value: *golibvirt.NewTypedParamValueUint(w.value)}
	}
	return c.do(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainSetInterfaceParameters(ref, macOf(&d), params, uint32(golibvirt.DomainAffectLive))
	})
}

// bound is one of libvirt's parameters; 0: none.
type bound struct {
	name  string
	value uint32
}

func bounds(way string, r *fleet.Rate) []bound {
	if r == nil {
		r = &fleet.Rate{}
	}
	return []bound{{way + ".average", uint32(r.AverageKiB)}, {way + ".peak", uint32(r.PeakKiB)}, {way + ".burst", uint32(r.BurstKiB)}}
}

// boundsNow are the bounds that a card has.
func boundsNow(b *libvirtxml.DomainInterfaceBandwidth) []bound {
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
	return append(bounds("inbound", rate(b.Inbound)), bounds("outbound", rate(b.Outbound))...)
}
