package kit

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

// ReservationPath is the address of the dialog that reserves a network address for a NIC, with the known values filled
// in.
func ReservationPath(id fleet.NetworkID, mac, ip, name, card string) string {
	l := Link{Path: views.NetworkPath(id, "reservations")}
	for _, v := range [][2]string{{"mac", mac}, {"ip", ip}, {"name", name}, {"card", card}} {
		if v[1] != "" {
			l = l.With(v[0], v[1])
		}
	}
	return l.String()
}

// ReleaseAddressAction is the action that deletes the reservation of a NIC's address.
func ReleaseAddressAction(a fleet.Actor, id fleet.NetworkID, mac, ip string) ActionButton {
	return ActionButton{
		Icon: "trash-2", Word: "Free " + ip, Danger: true, Post: views.NetworkPath(id, "reservations", mac, "free"), Back: views.TabPath(views.NetworkPath(id), "addresses"),
		Confirm: "Free " + ip + "? Other NICs may get the address when the lease ends.",
	}.RequirePermission(a, policy.InfraChange)
}

// AddressSourcesText names the sources of a reported address: DHCP lease, guest agent and so on.
func AddressSourcesText(by []fleet.AddressSource) string {
	words := make([]string, len(by))
	for i, s := range by {
		words[i] = s.DisplayName()
	}
	return TextOrDash(strings.Join(words, ", "))
}
