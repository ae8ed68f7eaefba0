package network

import (
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/ipam"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// AddressTab lists the addresses of a managed network.
type AddressTab struct {
	ipam.Usage
	Search  string         // search text
	Host    fleet.HostID   // only addresses of this host; empty: of all hosts
	Name    string         // name of Host
	Rows    []ipam.Address // matching addresses in use, at most maxShownAddresses
	Matches int            // number of matches
}

// maxShownAddresses is how many addresses in use a page shows.
const maxShownAddresses = 200

// NewAddressTab returns the tab with the addresses in use that match the search text find: a part of an address, or of
// the name of a VM, guest or host.
func NewAddressTab(all ipam.Usage, find string, host fleet.HostID) AddressTab {
	b := AddressTab{Usage: all, Search: find, Host: host}
	text := strings.ToLower(strings.TrimSpace(find))
	for _, u := range all.InUse {
		if host != "" {
			b.Name = u.HostName
		}
		if text != "" && !strings.Contains(strings.ToLower(strings.Join([]string{u.IP, u.MAC, u.VMName, u.Name, u.HostName}, "\n")), text) {
			continue
		}
		b.Matches++
		if len(b.Rows) < maxShownAddresses {
			b.Rows = append(b.Rows, u)
		}
	}
	return b
}

// ReserveAddressForm holds the values that a person typed for a reservation.
type ReserveAddressForm struct{ MAC, IP, Name string }

// ReserveAddressPage is the dialog that reserves an address of the network.
type ReserveAddressPage struct {
	Network fleet.NetworkView
	In      ReserveAddressForm
	Next    string // next free address; empty: none
	NIC     string // VM of the NIC, where a VM's page opens the dialog; empty: any
	Back    string
	Errors  kit.Errors
}

func (p ReserveAddressPage) dialog() kit.Dialog {
	title := "Reserve an address in " + p.Network.Name
	if p.NIC != "" {
		title = "Reserve an address for " + p.NIC
	}
	return kit.Dialog{Title: title, Action: views.NetworkPath(p.Network.ID, "reservations"), Button: "Reserve", Back: p.Back}
}

func (p Page) reserveAddressAction() kit.ActionButton {
	_, why := p.Network.Allows(fleet.ActAssign)
	if s := p.Network.Spec; why == "" && (s.IPv4 == nil || s.IPv4.DHCP == nil) {
		why = "DHCP is off in this network."
	}
	return kit.ActionButton{Icon: "plus", Word: "Reserve an address", Href: kit.ReservationPath(p.Network.ID, "", "", "", ""), Dialog: true}.DisableFor(why).RequirePermission(p.Actor, policy.InfraChange)
}

func (p Page) reservationActions(r ipam.Reservation) []kit.ActionButton {
	return []kit.ActionButton{
		kit.ActionButton{Icon: "pencil", Word: "Change", Href: kit.ReservationPath(p.Network.ID, r.MAC, r.IP, r.Name, ""), Dialog: true}.RequirePermission(p.Actor, policy.InfraChange),
		kit.ReleaseAddressAction(p.Actor, p.Network.ID, r.MAC, r.IP),
	}
}

func (p Page) addressInUseActions(u ipam.Address) []kit.ActionButton {
	act := kit.ActionButton{Icon: "lock", Word: "Reserve " + u.IP + " for this NIC", Href: kit.ReservationPath(p.Network.ID, u.MAC, u.IP, u.Name, u.VMName), Dialog: true}
	switch {
	case strings.Contains(u.IP, ":"):
		act.Why = "IPv6 addresses cannot be reserved: guests choose them."
	case u.Reserved:
		act.Why = "The address is reserved."
	case p.reserveAddressAction().Why != "":
		act.Why = p.reserveAddressAction().Why
	}
	acts := []kit.ActionButton{act.RequirePermission(p.Actor, policy.InfraChange)}
	if u.VMID != "" {
		acts = append(acts, kit.ActionButton{Icon: "monitor", Word: "Open " + u.VMName, Href: views.VMPath(u.VMID)})
	}
	return append(acts, kit.ActionButton{Icon: "server", Word: "Open " + u.HostName, Href: views.HostPath(u.HostID)})
}

func rangeUsageText(r ipam.Range) string {
	out := strconv.Itoa(r.Used) + " of " + addressCountText(r.Size)
	if r.HostName != "" {
		out += ", on " + r.HostName
	}
	return out
}

func addressCountText(n int64) string {
	if n > 1<<32 {
		return "more than 4 billion"
	}
	return strconv.FormatInt(n, 10)
}

func nextFreeAddressHint(next string) string {
	if next == "" {
		return "Empty: the NIC's current address. No other address is free."
	}
	return "Empty: the NIC's current address, or else " + next + ", the next free address."
}
