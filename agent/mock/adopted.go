package mock

import (
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/adoption"
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// defaultNetwork is the definition of the network "default", which every simulated host has.
var defaultNetwork = fleet.NetworkSpec{
	Mode: fleet.NetworkNAT, DNS: true, Bridge: "virbr0",
	IPv4: &fleet.Subnet{Gateway: "192.168.122.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "192.168.122.2", End: "192.168.122.254"}}}},
}

// applyAdoptedNetwork starts the host's own network with the name. The caller holds h.mu.
func (h *Host) applyAdoptedNetwork(n fleet.Network, own *network, overwrite bool) error {
	var spec fleet.NetworkSpec
	switch {
	case overwrite:
		return fleet.RefusalError(fleet.AdoptedReapplyRefusal)
	case own != nil:
		spec = own.spec
	case n.Name == fixedNetworks()[0].Name:
		spec = defaultNetwork
	default:
		return hypervisor.RefuseMissingAdoptedNetwork(n.Name)
	}
	if problem := adoptedNetworkProblem(spec, n); problem != "" {
		return fleet.RefusalError(problem)
	}
	if own != nil {
		own.active = true
	}
	return nil
}

// adoptedNetworkProblem returns why the host's network is not the adopted one any more, or an empty string.
func adoptedNetworkProblem(own fleet.NetworkSpec, n fleet.Network) string {
	if parts := drift.NetworkParts(drift.OfAdoptedNetwork(own, *n.Spec)); len(parts) > 0 {
		return hypervisor.AdoptedNetworkEditedText(parts)
	}
	return ""
}

// addDefinition adds the host's own definition to the report on a network that Quantix did not create. If the network is
// adopted and assigned to the host, it adds the drift and returns true.
func addDefinition(r *wire.NetworkReport, own fleet.NetworkSpec, assigned []fleet.Network) bool {
	def := &fleet.HostNetworkDefinition{Spec: &own}
	if why := adoption.WhyUnsupported(r.Name, own.Check); why != "" {
		def = &fleet.HostNetworkDefinition{Adoptability: fleet.Adoptability{Refusal: why}}
	}
	r.Status.Definition = def
	i := slices.IndexFunc(assigned, func(a fleet.Network) bool { return a.IsAdopted() && a.Name == r.Name })
	if i < 0 {
		return false
	}
	r.ID, r.Status.Drift = assigned[i].ID, drift.OfAdoptedNetwork(own, *assigned[i].Spec)
	if r.Status.Error == "" {
		r.Status.Error = adoptedNetworkProblem(own, assigned[i])
	}
	return true
}

// NetworkDefinition returns the definition of the host's network, like virsh net-dumpxml.
func (h *Host) NetworkDefinition(name string) fleet.NetworkSpec {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.networks[name]; n != nil {
		return n.spec
	}
	return defaultNetwork
}

// PoolDefinition returns the definition of the host's pool, like virsh pool-dumpxml; ok is false if there is none.
func (h *Host) PoolDefinition(name string) (spec fleet.PoolSpec, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools[name]
	if p == nil {
		return fleet.PoolSpec{}, false
	}
	return p.spec, true
}

// adoptionOf returns the spec with which Quantix would adopt the host's pool.
func adoptionOf(name string, spec fleet.PoolSpec) (*fleet.PoolSpec, fleet.Adoptability) {
	if spec.Kind.Info().Kind == "" {
		return nil, fleet.Adoptability{Refusal: "Quantix has no pools of the type " + string(spec.Kind) + "."}
	}
	spec.Shared, spec.Description = spec.Kind.Info().Shared, ""
	if why := adoption.WhyUnsupported(name, spec.Check); why != "" {
		return nil, fleet.Adoptability{Refusal: why}
	}
	return &spec, fleet.Adoptability{}
}
