package host

import (
	"strings"

	"quantix/internal/adoption"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// adoptAction is the action that adopts a pool ("discovered-pools") or a network ("discovered-networks") of the host. why
// is the reason against it.
func (p Page) adoptAction(list, name, why string) kit.ActionButton {
	return kit.ActionButton{
		Word: "Adopt…", Label: "Adopt… " + name, Href: views.HostPath(p.Host.ID, list, name, "adopt"), Dialog: true, Why: why,
	}.RequirePermission(p.Actor, policy.InfraChange)
}

// keptText lists the parts of a host's definition that Quantix has no fields for.
func keptText(a fleet.Adoptability) string { return strings.Join(a.Kept, ", ") }

var networkStateWords = map[fleet.NetworkState]string{
	fleet.NetworkPending: "Pending", fleet.NetworkActive: "Active", fleet.NetworkInactive: "Inactive", fleet.NetworkFailed: "Failed", fleet.NetworkUnknown: "Unknown",
}

// discoveredNetworkState is the state of a discovered network in words, with its problem if it has one.
func discoveredNetworkState(d adoption.DiscoveredNetwork) string {
	word := networkStateWords[d.State]
	switch {
	case d.Error != "":
		return word + ": " + d.Error
	case d.State == fleet.NetworkActive && !d.Autostart:
		return word + ", without autostart"
	}
	return word
}

// AdoptDialog is the dialog that adopts a pool or network of a host.
type AdoptDialog struct {
	HostID   fleet.HostID
	HostName string
	Type     string // "pool" or "network"
	Tab      string // the tab of the host's page that lists the object
	List     string // "discovered-pools" or "discovered-networks"
	Name     string
	Facts    []Fact
	Joins    bool // Quantix has an equal object, which the host joins
	Adoption fleet.Adoptability
	Others   []kit.HostChoice
	Errors   kit.Errors
}

// Fact is a labelled value of the host's definition.
type Fact struct{ Label, Value string }

func (d AdoptDialog) back() string { return views.TabPath(views.HostPath(d.HostID), d.Tab) }

// PoolFacts are the facts of a discovered pool.
func PoolFacts(p fleet.DiscoveredPool) []Fact {
	return []Fact{{"Kind", discoveredPoolKind(p)}, {"Location", strings.TrimPrefix(p.Place, "at ")}, {"State", discoveredPoolState(p)}}
}

// NetworkFacts are the facts of a discovered network.
func NetworkFacts(d adoption.DiscoveredNetwork) []Fact {
	return []Fact{
		{"Forward mode", networkModeText(d)},
		{"Bridge", kit.TextOrDash(d.Bridge)},
		{"Subnets", kit.TextOrDash(strings.Join(d.Subnets, ", "))},
		{"State", discoveredNetworkState(d)},
	}
}
