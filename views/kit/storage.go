package kit

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// StorageTabs lead between the lists about storage; that of all hosts only who sees hosts. here is the address of the one that is shown.
func StorageTabs(a fleet.Actor, here string) []Tab {
	tabs := []Tab{{Text: "Pools", Href: "/pools"}}
	if policy.May(a, policy.InfraSee, "") {
		tabs = append(tabs, Tab{Text: "On each host", Href: "/pools/matrix"})
	}
	tabs = append(tabs, Tab{Text: "Images", Href: "/images"})
	for i := range tabs {
		tabs[i].Here = tabs[i].Href == here
	}
	return tabs
}
