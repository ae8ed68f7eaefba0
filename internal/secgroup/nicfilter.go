package secgroup

import (
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// NICFilter is the traffic filtering of a VM's NIC and its state on the host.
type NICFilter struct {
	MAC          string     `json:"mac"`
	AntiSpoofing bool       `json:"antiSpoofing"`
	Groups       []NICGroup `json:"groups"`
	State        State      `json:"state,omitempty"` // empty: no filter is required
	// Problem: why the filter is not applied; libvirt's own message if there is one
	Problem         string `json:"problem,omitempty"`
	UnmanagedFilter string `json:"foreign,omitempty"` // network filter on the NIC that was defined outside Quantix
	// PortGroup is the port group that supplies the settings in ByPortGroup; empty: none.
	PortGroup   string   `json:"portGroup,omitempty"`
	ByPortGroup []string `json:"byPortGroup,omitempty"` // "securityGroups", "antiSpoofing"
	Hits        *NICHits `json:"hits,omitempty"`        // packets that the NIC's rules allowed; nil: unknown
}

// NICGroup is a security group of a NIC.
type NICGroup struct {
	ID    fleet.SecurityGroupID `json:"id"`
	Name  string                `json:"name"`
	Rules int                   `json:"rules"`
	State State                 `json:"state"`
	Error string                `json:"error,omitempty"`
}

// FilterPrefix is the name prefix of the network filters that Quantix defines on hosts.
const FilterPrefix = "quantix-"

// WorstGroupState returns the worst state of the NIC's groups; empty: no filter is required.
func (c NICFilter) WorstGroupState() State {
	worst := Applied
	order := []State{Applied, Pending, Unknown, Changed, NotApplied}
	for _, g := range c.Groups {
		if slices.Index(order, g.State) > slices.Index(order, worst) {
			worst = g.State
		}
	}
	if len(c.Groups) == 0 && !c.AntiSpoofing {
		return ""
	}
	return worst
}

// MergeHostStatus merges the host's report on the NIC into the filter's state. If the NIC requires a filter, the host
// must report a filter that Quantix defined.
func (c *NICFilter) MergeHostStatus(vm fleet.VM) {
	for _, g := range c.Groups {
		if (g.State == NotApplied || g.State == Changed) && c.Problem == "" {
			c.Problem = g.Name + ": " + g.Error
		}
	}
	if vm.Status == nil {
		return
	}
	i := slices.IndexFunc(vm.Status.NICs, func(s fleet.NICState) bool { return strings.EqualFold(s.MAC, c.MAC) })
	if i < 0 {
		return
	}
	filter := vm.Status.NICs[i].Filter
	if drift := vm.Status.NICs[i].FilterDrift; drift != "" && c.State != Unknown {
		c.State, c.Problem = Changed, drift
	}
	ours := strings.HasPrefix(filter, FilterPrefix)
	if filter != "" && !ours {
		c.UnmanagedFilter = filter
	}
	switch {
	case c.State == "" || ours || c.State == Unknown:
	case vm.ObservedGeneration < vm.Generation:
		c.State = Pending
	default:
		c.State = NotApplied
		if c.Problem == "" {
			c.Problem = "The NIC has no network filter of Quantix on its host."
			if vm.Status.Error != "" {
				c.Problem = vm.Status.Error
			} else if c.UnmanagedFilter != "" {
				c.Problem = "The NIC has the network filter " + c.UnmanagedFilter + ", which was set on the host outside Quantix."
			}
		}
	}
}
