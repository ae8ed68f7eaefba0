package mock

import (
	"cmp"
	"slices"

	"quantix/internal/fleet"
)

// NICs returns the host's current network devices, both of its hardware and of its networks. It fits
// agent.Options.NICs.
func (h *Host) NICs() []fleet.HostNIC {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.inventory.NICs)
	for i := range out {
		out[i].Up = !h.devicesWithoutLink[out[i].Name]
	}
	bridge := func(name string) {
		if !slices.ContainsFunc(out, func(n fleet.HostNIC) bool { return n.Name == name }) {
			out = append(out, fleet.HostNIC{Name: name, MAC: stableMAC(h.options.Name + name), Kind: "bridge", Up: true, MTU: 1500})
		}
	}
	bridge("virbr0")
	for _, n := range h.networks {
		if n.active && n.ownBridge() != "" {
			bridge(n.ownBridge())
		}
		if !n.active || !n.spec.Mode.Info().CreatesDevices {
			continue
		}
		is := fleet.Network{ID: n.id, Spec: &n.spec}
		port := func(name string) {
			if i := slices.IndexFunc(out, func(n fleet.HostNIC) bool { return n.Name == name }); i >= 0 {
				out[i].Master = n.bridgeName()
			}
		}
		switch {
		case n.spec.Mode == fleet.NetworkVXLAN:
			out = append(out, fleet.HostNIC{Name: is.TunnelDevice(), Kind: "virtual", Up: true, MTU: 1450, Master: n.bridgeName()})
		case n.spec.VLAN > 0:
			out = append(out, fleet.HostNIC{Name: is.VLANDevice(), Kind: "vlan", Up: true, MTU: 1500, Master: n.bridgeName(), Over: n.spec.Device})
		default:
			port(n.spec.Device)
		}
	}
	slices.SortFunc(out, func(a, b fleet.HostNIC) int { return cmp.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(out, func(n fleet.HostNIC) bool { return h.removedDevices[n.Name] })
}

// PullCable removes the link of a device.
func (h *Host) PullCable(name string) { h.addToSet(&h.devicesWithoutLink, name) }

// RemoveDevice removes a device, like ip link delete.
func (h *Host) RemoveDevice(name string) { h.addToSet(&h.removedDevices, name) }

func (h *Host) addToSet(set *map[string]bool, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[name] = true
	h.notify()
}
