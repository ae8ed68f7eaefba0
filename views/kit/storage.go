package kit

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// StorageTabs link the storage lists. The grid of all hosts needs the permission to see hosts. here is the address of
// the current list.
func StorageTabs(a fleet.Actor, here string) []Tab {
	tabs := []Tab{{Text: "Pools", Href: "/pools"}}
	if policy.May(a, policy.InfraSee, "") {
		tabs = append(tabs, Tab{Text: "On each host", Href: "/pools/matrix"})
	}
	tabs = append(tabs, Tab{Text: "Images", Href: "/images"}, Tab{Text: "Templates", Href: "/templates"})
	return markCurrentTab(tabs, here)
}

// NetworkTabs link the network lists in the same way.
func NetworkTabs(a fleet.Actor, here string) []Tab {
	tabs := []Tab{{Text: "Networks", Href: "/networks"}}
	if policy.May(a, policy.InfraSee, "") {
		tabs = append(tabs, Tab{Text: "Topology", Href: "/networks/topology"})
	}
	return markCurrentTab(append(tabs, Tab{Text: "Security groups", Href: "/security-groups"}, Tab{Text: "Traffic test", Href: "/security-groups/test"}), here)
}

func markCurrentTab(tabs []Tab, here string) []Tab {
	for i := range tabs {
		tabs[i].Here = tabs[i].Href == here
	}
	return tabs
}
