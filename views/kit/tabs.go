package kit

import (
	"cmp"
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Tab is one tab of an object or list.
type Tab struct {
	Key      string // value in the address
	Text     string
	Href     string
	Count    string // "" shows none
	Severity string // of the count; "" is muted
	Here     bool
	Hosts    bool // about hosts or publication: tenants do not see the tab
}

// TabsFor returns the tabs that the actor sees.
func TabsFor(a fleet.Actor, tabs ...Tab) []Tab {
	if policy.May(a, policy.InfraSee, "") {
		return tabs
	}
	return slices.DeleteFunc(tabs, func(t Tab) bool { return t.Hosts })
}

// LinkTabs sets the links of the tabs. The tab with the key here is the current one. A tab links to the address l with
// its key as the query value name. The first tab is the default, so its link has no key. A tab that already has an
// address keeps that address.
func LinkTabs(l Link, name, here string, tabs ...Tab) []Tab {
	for i := range tabs {
		t := &tabs[i]
		t.Here = t.Key == here
		switch {
		case t.Href != "":
		case i == 0:
			t.Href = l.Without(name).String()
		default:
			t.Href = l.With(name, t.Key).String()
		}
	}
	return tabs
}

// TabKeys are the keys of the tabs.
func TabKeys(tabs []Tab) []string {
	keys := make([]string, len(tabs))
	for i, t := range tabs {
		keys[i] = t.Key
	}
	return keys
}

func (t Tab) tone() string { return cmp.Or(t.Severity, "muted") }
