package host

import (
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/release"
	"quantix/views/kit"
)

// UpgradePath is the page that upgrades agents.
const UpgradePath = "/hosts/upgrade"

// What happens to a host in an upgrade of many hosts.
const (
	RoleCanary = "canary"
	RoleFollow = "follow"
)

// UpgradePage is the page that upgrades the agents of many hosts.
type UpgradePage struct {
	Offers         []release.Offer
	Version        string // the chosen version; empty: there is none
	AllowDowngrade bool
	Hosts          []UpgradeHost
	Truncated      bool   // there are more hosts than the page shows
	Filter         string // of the shown hosts
	Soak           string // minutes, as typed
	Errors         kit.Errors
}

// UpgradeHost is a host of the page.
type UpgradeHost struct {
	fleet.HostView
	Why  string // why the host cannot take the version now; empty: it can
	Role string // RoleCanary, RoleFollow or empty: the host is not upgraded
}

func upgradeCrumbs() []kit.Breadcrumb { return []kit.Breadcrumb{{Text: "Hosts", Href: "/hosts"}} }

func (p UpgradePage) versionOptions() []kit.Option {
	out := []kit.Option{}
	for _, v := range release.Versions(p.Offers) {
		out = append(out, kit.Option{Value: v, Text: v})
	}
	return out
}

// problems are the offers that no host can take.
func (p UpgradePage) problems() []release.Offer {
	return slices.DeleteFunc(slices.Clone(p.Offers), func(o release.Offer) bool { return o.Problem == "" })
}

// chosen are the offers of the chosen version.
func (p UpgradePage) chosen() []release.Offer {
	return slices.DeleteFunc(slices.Clone(p.Offers), func(o release.Offer) bool { return o.Version != p.Version || o.Problem != "" })
}

// whyNone is why no host can be upgraded; empty: at least one can.
func (p UpgradePage) whyNone() string {
	if slices.ContainsFunc(p.Hosts, func(h UpgradeHost) bool { return h.Why == "" }) {
		return ""
	}
	return "No host can be upgraded to this version now."
}

func (p UpgradePage) ready() int {
	n := 0
	for _, h := range p.Hosts {
		if h.Why == "" {
			n++
		}
	}
	return n
}

func (p UpgradePage) summary() string {
	return strconv.Itoa(p.ready()) + " of " + kit.CountText(len(p.Hosts), "host") + " can be upgraded"
}

func (h UpgradeHost) roleName() string { return "role." + string(h.ID) }

func (h UpgradeHost) errorOf(e kit.Errors) string {
	return strings.TrimPrefix(e.At("hosts."+string(h.ID)), h.Name+": ")
}

func roleOptions() []kit.Option {
	return []kit.Option{{Value: "", Text: "Not upgraded"}, {Value: RoleCanary, Text: "Canary: first"}, {Value: RoleFollow, Text: "After the canaries"}}
}

func upgradeAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "upload", Word: "Upgrade agents", Href: UpgradePath}.RequirePermission(a, policy.InfraChange)
}

// listActions are the buttons of the list of hosts.
func listActions(a fleet.Actor) templ.Component {
	return templ.Join(kit.StandaloneButton("upgrade-agents", "", upgradeAction(a)), kit.StandaloneButton("add-host", "primary", addHostAction(a)))
}
