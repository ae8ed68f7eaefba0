package adoption

import (
	"reflect"

	"quantix/internal/fleet"
)

// ChangeRefusal is why the definition of an adopted network cannot be changed in Quantix.
const ChangeRefusal = "The network existed on its hosts before Quantix, which never changes their definition. Change the network on the hosts with virsh net-edit, then accept the drift here."

// DiscoveredNetwork is a libvirt network of a host that Quantix did not create and that is not assigned to the host.
type DiscoveredNetwork struct {
	ID        fleet.NetworkID    `json:"id"` // of the network with this name in Quantix, which all hosts share
	Name      string             `json:"name"`
	Forward   string             `json:"forward,omitempty"` // libvirt's forward mode; empty: isolated
	Bridge    string             `json:"bridge,omitempty"`
	Subnets   []string           `json:"subnets,omitempty"`
	State     fleet.NetworkState `json:"state"`
	Autostart bool               `json:"autostart,omitempty"`
	Error     string             `json:"error,omitempty"`
	Joins     bool               `json:"joins,omitempty"` // Quantix has adopted a network with this name, which the adoption joins
	Spec      *fleet.NetworkSpec `json:"spec,omitempty"`  // the host's definition; nil: see Refusal
	fleet.Adoptability
}

// Network is a discovered network with the other hosts that have an equal one.
type Network struct {
	fleet.NamedHost
	Network DiscoveredNetwork `json:"network"`
	Others  []fleet.NamedHost `json:"others"`
}

// DiscoveredOn returns the network as a discovery on the host; ok is false if it is none: a bridge, a network assigned to
// the host, or a network that the host does not have.
func DiscoveredOn(n fleet.NetworkView, host fleet.HostID) (d DiscoveredNetwork, ok bool) {
	for _, h := range n.Hosts {
		if h.HostID != host || n.Kind != fleet.NetworkLibvirt || h.Assigned || h.Releasing || h.Status == nil {
			continue
		}
		st := h.Status
		d = DiscoveredNetwork{
			ID: n.ID, Name: n.Name, Forward: st.Forward, Bridge: st.Bridge, Subnets: st.Subnets, State: h.State, Autostart: st.Autostart, Error: st.Error,
			Joins: n.IsAdopted(),
		}
		if st.Definition != nil {
			d.Spec, d.Kept = st.Definition.Spec, st.Definition.Kept
		}
		d.Refusal = WhyNetworkNotAdoptable(n.Network, st.Definition)
		return d, true
	}
	return d, false
}

// WhyNetworkNotAdoptable returns why a host's network with the name of n cannot be adopted; empty: it can. def is the
// host's definition; nil: the host does not report it.
func WhyNetworkNotAdoptable(n fleet.Network, def *fleet.HostNetworkDefinition) string {
	switch {
	case n.DeletedAt != nil:
		_, why := fleet.NetworkView{Network: n}.Allows(fleet.ActAssign)
		return why
	case n.Spec != nil && !n.Spec.Adopted:
		return "Quantix created another network with this name. Delete that network, or define the host's network under another name with virsh."
	case def == nil:
		return oldAgentRefusal
	case def.Spec == nil:
		return def.Refusal
	case n.Spec != nil && !SameDefinition(*n.Spec, *def.Spec):
		return "Quantix has adopted a network with this name but another definition from another host. Make the definitions equal with virsh net-edit, or define the host's network under another name."
	}
	return ""
}

// SameDefinition reports whether hosts define both networks alike. Description, adoption and settings of port groups
// that hosts do not have do not count.
func SameDefinition(a, b fleet.NetworkSpec) bool { return reflect.DeepEqual(hostPart(a), hostPart(b)) }

// hostPart returns the part of the spec that is in the definitions of hosts, with empty lists as nil.
func hostPart(s fleet.NetworkSpec) fleet.NetworkSpec {
	s = s.Normalized()
	s.Description, s.Adopted = "", false
	s.IPv4, s.IPv6 = hostSubnet(s.IPv4), hostSubnet(s.IPv6)
	groups := s.PortGroups
	s.PortGroups = nil
	for _, g := range groups {
		s.PortGroups = append(s.PortGroups, fleet.PortGroup{Name: g.Name, VLAN: g.VLAN, ToGuest: g.ToGuest, FromGuest: g.FromGuest})
	}
	return s
}

func hostSubnet(n *fleet.Subnet) *fleet.Subnet {
	if n == nil || n.DHCP == nil || len(n.DHCP.Ranges)+len(n.DHCP.Leases) > 0 {
		return n
	}
	return &fleet.Subnet{Gateway: n.Gateway}
}
