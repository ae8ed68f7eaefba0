package pages

import (
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/network"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
	"quantix/web/form"
)

type networkForm struct {
	Name        string         `form:"name"`
	Mode        string         `form:"mode"`
	Device      string         `form:"device"`
	Description string         `form:"description"`
	Gateway4    string         `form:"gateway4"`
	DHCP4       string         `form:"dhcp4"`
	Ranges4     string         `form:"ranges4"`
	Leases4     string         `form:"leases4"`
	Gateway6    string         `form:"gateway6"`
	DHCP6       string         `form:"dhcp6"`
	Ranges6     string         `form:"ranges6"`
	DNS         string         `form:"dns"`
	Domain      string         `form:"domain"`
	Bridge      string         `form:"bridge"`
	MTU         string         `form:"mtu"`
	VNI         string         `form:"vni"`
	Underlay    string         `form:"underlay"`
	VLAN        string         `form:"vlan"`
	STP         string         `form:"stp"`
	Direct      string         `form:"direct"`
	Hosts       []fleet.HostID `form:"host"`
	Selector    string         `form:"selector"`
	publishForm
}

// spec returns the network's spec as typed, and adds an error to checks for each invalid number. It ignores the fields
// of other modes, because without JavaScript the form shows and sends all fields.
func (in networkForm) spec(checks *fleet.Checks) fleet.NetworkSpec {
	s := fleet.NetworkSpec{
		Mode: fleet.NetworkMode(in.Mode), DNS: in.DNS != "", Domain: in.Domain, Bridge: in.Bridge, Device: in.Device, Description: in.Description,
		Underlay: in.Underlay, STP: in.STP != "", Direct: fleet.DirectMode(in.Direct),
		IPv4: subnetFromForm(in.Gateway4, in.DHCP4, in.Ranges4, in.Leases4), IPv6: subnetFromForm(in.Gateway6, in.DHCP6, in.Ranges6, ""),
	}
	for _, n := range []struct {
		at, text, what string
		to             *int
	}{{"mtu", in.MTU, "MTU as a number of bytes", &s.MTU}, {"vni", in.VNI, "VNI as a number", &s.VNI}, {"vlan", in.VLAN, "VLAN as a number", &s.VLAN}} {
		if text := strings.TrimSpace(n.text); text != "" && s.Mode.Info().HasField(n.at) {
			*n.to = form.ParseField(checks, "spec."+n.at, text, func(text string) (int, error) {
				number, err := strconv.Atoi(text)
				if err != nil || number == 0 {
					return 0, fleet.Errorf(fleet.Invalid, "%q is not a positive number. Give the %s, or leave the field empty.", text, n.what)
				}
				return number, nil
			})
		}
	}
	if s.Mode.Info().Mode == "" {
		return s
	}
	return s.WithoutFieldsOfOtherModes()
}

func subnetFromForm(gateway, dhcp, ranges, leases string) *fleet.Subnet {
	if gateway = strings.TrimSpace(gateway); gateway == "" {
		return nil
	}
	out := &fleet.Subnet{Gateway: gateway}
	if dhcp == "" {
		return out
	}
	out.DHCP = &fleet.DHCP{}
	for line := range strings.Lines(ranges) {
		if words := splitAddressWords(line); len(words) > 0 {
			out.DHCP.Ranges = append(out.DHCP.Ranges, fleet.AddressRange{Start: words[0], End: strings.Join(words[1:], " ")})
		}
	}
	for line := range strings.Lines(leases) {
		words := append(splitAddressWords(line), "", "")
		if words[0] != "" {
			out.DHCP.Leases = append(out.DHCP.Leases, fleet.StaticLease{MAC: words[0], IP: words[1], Name: strings.TrimSpace(strings.Join(words[2:], " "))})
		}
	}
	return out
}

// splitAddressWords splits a line into words. A hyphen, a dash or a space separates words, and a comma may follow a
// word.
func splitAddressWords(line string) []string {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n,–", r) })
	words = slices.DeleteFunc(words, func(w string) bool { return w == "-" })
	if len(words) == 1 { // addresses contain no hyphens, so a hyphen separates two addresses
		if from, to, ok := strings.Cut(words[0], "-"); ok {
			return []string{from, to}
		}
	}
	return words
}

func (s *Site) ShowNetworkForm(c echo.Context, a fleet.Actor, in networkForm, how form.Display) (err error) {
	f := networkview.Form{
		Name: in.Name, Mode: in.Mode, Device: in.Device, Description: in.Description, DNS: in.DNS != "", Domain: in.Domain, Bridge: in.Bridge, MTU: in.MTU, Errors: how.Errors,
		VNI: in.VNI, Underlay: in.Underlay, VLAN: in.VLAN, STP: in.STP != "", Direct: in.Direct,
		IPv4: networkview.SubnetForm{Gateway: in.Gateway4, Ranges: in.Ranges4, Leases: in.Leases4, DHCP: in.DHCP4 != ""},
		IPv6: networkview.SubnetForm{Gateway: in.Gateway6, Ranges: in.Ranges6, DHCP: in.DHCP6 != ""},
	}
	if !how.WasRefused() {
		f.Mode, f.DNS, f.IPv4.DHCP = string(fleet.NetworkNAT), true, true
	}
	if f.Hosts, err = s.assignableHosts(c.Request().Context(), a, in.Hosts, nil, func(h fleet.Host) []kit.MissingCapability { return networkview.MissingCapabilities(h, "") }); err != nil {
		return err
	}
	if f.Labels, err = s.newLabelSelectorForm(c.Request().Context(), a, fleet.TypeNetwork, in.Selector, how); err != nil {
		return err
	}
	if f.Publish, err = s.publishFields(c.Request().Context(), a, in.publishForm, "network", how); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, shell.PageLayout{Title: "New network"}, networkview.NewNetworkForm(f))
}

func (s *Site) CreateNetwork(c echo.Context, a fleet.Actor, in networkForm) (form.Response, error) {
	var checks fleet.Checks
	ask := network.CreateNetwork{Name: strings.TrimSpace(in.Name), Spec: in.spec(&checks), HostIDs: in.Hosts, Selector: in.Selector}
	if err := checks.Err(); err != nil {
		var all fleet.Checks
		fleet.CheckName(&all, "name", ask.Name)
		ask.Spec.Check(&all, "spec")
		fleet.ParseSelector(&all, "selector", ask.Selector)
		return nil, form.JoinErrors(&checks, all.Err())
	}
	var err error
	if ask.Publish, err = s.publishTo(c.Request().Context(), a, in.publishForm); err != nil {
		return nil, err
	}
	n, err := s.Control.CreateNetwork(c.Request().Context(), a, ask)
	return form.RedirectTo(views.NetworkPath(n.ID)), err
}
