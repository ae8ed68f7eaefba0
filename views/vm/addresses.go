package vm

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// reservationActions are the actions on the address reservations of a NIC.
func (p Page) reservationActions(c fleet.NICAddresses) []kit.ActionButton {
	ip := c.Reserved
	for _, s := range c.Seen {
		if ip == "" && !strings.Contains(s.IP, ":") {
			ip = s.IP
		}
	}
	reserve := kit.ActionButton{Icon: "lock", Word: "Reserve an address", Href: kit.ReservationPath(c.NetworkID, c.MAC, ip, "", p.VM.Name), Dialog: true}
	if c.Reserved != "" {
		reserve.Icon, reserve.Word = "pencil", "Reserve another address"
	}
	acts := []kit.ActionButton{reserve.DisableFor(c.WhyNoReservations).RequirePermission(p.Actor, policy.InfraChange)}
	if c.Reserved != "" {
		acts = append(acts, kit.ReleaseAddressAction(p.Actor, c.NetworkID, c.MAC, c.Reserved))
	}
	return append(acts, kit.ActionButton{Icon: "network", Word: "Addresses of " + c.Network, Href: views.TabPath(views.NetworkPath(c.NetworkID), "addresses")})
}

// duplicateMACText names the other machines with the NIC's MAC address; empty: none.
func duplicateMACText(c fleet.NICAddresses) string {
	if len(c.Others) == 0 {
		return ""
	}
	var names []string
	for _, o := range c.Others {
		switch {
		case o.Name == "":
			return "Another VM has the same MAC address. On one network both malfunction: remove the NIC and add a new one."
		case o.VMID == "":
			names = append(names, o.Name+" on "+o.HostName+", which Quantix did not create")
		default:
			names = append(names, o.Name+" on "+o.HostName)
		}
	}
	return "Also used by " + strings.Join(names, "; ") + ". On one network both malfunction: remove the NIC and add a new one."
}
