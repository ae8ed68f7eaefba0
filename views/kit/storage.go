package kit

import (
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// StorageTabs are the links between the lists about storage. The grid of pools and hosts requires permission to see
// hosts. here is the address of the current list.
func StorageTabs(a fleet.Actor, here string) []Tab {
	tabs := []Tab{{Text: "Pools", Href: "/pools"}}
	if policy.May(a, policy.InfraSee, "") {
		tabs = append(tabs, Tab{Text: "On each host", Href: "/pools/matrix"})
	}
	return markCurrentTab(append(tabs, ResourceTabs(fleet.TypePool)...), here)
}

// NetworkTabs are the links between the lists about networks. The topology requires permission to see hosts. here is
// the address of the current list.
func NetworkTabs(a fleet.Actor, here string) []Tab {
	tabs := []Tab{{Text: "Networks", Href: "/networks"}}
	if policy.May(a, policy.InfraSee, "") {
		tabs = append(tabs, Tab{Text: "Topology", Href: "/networks/topology"})
	}
	tabs = append(tabs, ResourceTabs(fleet.TypeNetwork)...)
	return markCurrentTab(append(tabs, Tab{Text: "Traffic test", Href: "/security-groups/test"}), here)
}

// ResourceTabs link the lists of the resource types that are tabs of another type's list.
func ResourceTabs(list fleet.ResourceType) (tabs []Tab) {
	for _, t := range fleet.ResourceTypes() {
		if t.TabOf == list {
			tabs = append(tabs, Tab{Key: t.Plural, Text: t.Title, Href: t.Path})
		}
	}
	return tabs
}

func markCurrentTab(tabs []Tab, here string) []Tab {
	for i := range tabs {
		tabs[i].Here = tabs[i].Href == here
	}
	return tabs
}
