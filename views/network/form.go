package network

import (
	"fmt"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Form is the form of a new network, as typed.
type Form struct {
	Name, Mode, Domain, Bridge, MTU, Device, Description string
	VNI, Underlay, VLAN, Direct                          string
	DNS, STP                                             bool
	IPv4, IPv6                                           SubnetForm
	Hosts                                                []kit.HostChoice
	Publish                                              kit.PublishForm
	Labels                                               kit.HostLabelForm
	Errors                                               kit.Errors
}

// SubnetForm holds the typed addresses of one address family: ranges and static leases, one per line.
type SubnetForm struct {
	Gateway, Ranges, Leases string
	DHCP                    bool
}

// networkModes are the network modes, in the form's order.
func networkModes() []fleet.NetworkType { return fleet.NetworkTypes() }

// showWhenModeHasField returns attributes that show a part of the form only for network modes with the field.
func showWhenModeHasField(field string) templ.Attributes {
	var words []string
	for _, m := range fleet.ModesWithField(field) {
		words = append(words, string(m))
	}
	return templ.Attributes{"data-show-when": "mode=" + strings.Join(words, "|")}
}

func showWhenMode(m fleet.NetworkMode) templ.Attributes {
	return templ.Attributes{"data-show-when": "mode=" + string(m)}
}

// showWhenModeSpansHosts returns attributes that show a part of the form only for some network modes. If across is
// true, these are the modes that connect guests of different hosts, else all other modes.
func showWhenModeSpansHosts(across bool) templ.Attributes {
	var words []string
	for _, t := range fleet.NetworkTypes() {
		if t.SpansHosts == across {
			words = append(words, string(t.Mode))
		}
	}
	return templ.Attributes{"data-show-when": "mode=" + strings.Join(words, "|")}
}

// MissingCapabilities are the capabilities that a host lacks for networks of the mode. If mode is empty, they are notes
// for each mode of the form, and the form shows only those of the chosen mode.
func MissingCapabilities(h fleet.Host, mode fleet.NetworkMode) (out []kit.MissingCapability) {
	if h.Status == nil {
		return nil
	}
	for _, gap := range h.Status.Inventory.NetworkGaps {
		switch mode {
		case "":
			out = append(out, kit.MissingCapability{Text: gap.Why, When: showWhenMode(gap.Mode)})
		case gap.Mode:
			out = append(out, kit.MissingCapability{Text: gap.Why})
		}
	}
	if mode != "" {
		return out
	}
	var carriers, others, pools []string
	for _, nic := range h.Status.Inventory.NICs {
		switch {
		case nic.VFsTotal > 0 && nic.VFs > 0:
			pools = append(pools, fmt.Sprintf("%s (%d of %d)", nic.Name, nic.VFs, nic.VFsTotal))
		case nic.VFsTotal > 0:
			pools = append(pools, fmt.Sprintf("%s (none of %d)", nic.Name, nic.VFsTotal))
		}
		switch {
		case nic.Agent:
			carriers = append(carriers, nic.Name)
		case nic.Kind == "physical" || nic.Kind == "bond" || nic.Kind == "vlan":
			others = append(others, nic.Name)
		}
	}
	if len(carriers) > 0 {
		out = append(out, kit.MissingCapability{Text: "The agent reaches the portal through " + strings.Join(carriers, ", ") + ". If the agent loses the portal because of a new bridge, the host removes the bridge.", When: showWhenMode(fleet.NetworkUplink)})
	}
	if len(pools) > 0 {
		out = append(out, kit.MissingCapability{Text: "Enabled virtual functions: " + strings.Join(pools, ", ") + ".", When: showWhenMode(fleet.NetworkSRIOV)})
	}
	if len(others) > 0 {
		out = append(out, kit.MissingCapability{Text: "Other devices: " + strings.Join(others, ", ") + ".", When: showWhenModeHasField("device")})
	}
	return out
}
