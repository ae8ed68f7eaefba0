package mock

import (
	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// SetVirtualFunctions sets the number of enabled virtual functions of a device, as an administrator does. It adds a
// missing device to the host.
func (h *Host) SetVirtualFunctions(device string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.virtualFunctions[device] = n
	h.notify()
}

// nicCapacity returns the NIC capacity of networks on the spec's device. The caller holds h.mu.
func (h *Host) nicCapacity(s fleet.NetworkSpec) *fleet.NetworkNICs {
	c := &fleet.NetworkNICs{Total: 1}
	if s.Mode == fleet.NetworkSRIOV {
		c.Total = h.virtualFunctions[s.Device]
	}
	for _, g := range h.guests {
		if g.isRunning() {
			c.Used += h.countNICs(g.live.spec.NICs, s)
		}
	}
	return c
}

// countNICs returns how many of the NICs are on networks of the spec's mode on the spec's device. The caller holds
// h.mu.
func (h *Host) countNICs(nics []fleet.NIC, s fleet.NetworkSpec) (cards int) {
	for _, n := range nics {
		if o := h.networks[n.Network]; o != nil && o.spec.HasExclusiveNICs() && o.spec.Mode == s.Mode && o.spec.Device == s.Device {
			cards++
		}
	}
	return cards
}

// checkFreeDevices refuses a start if a network of the guest has no free device. The caller holds h.mu.
func (h *Host) checkFreeDevices(g *guest) error {
	for _, n := range g.persistent.spec.NICs {
		o := h.networks[n.Network]
		if o == nil || !o.spec.HasExclusiveNICs() {
			continue
		}
		if c := h.nicCapacity(o.spec); c.Used+h.countNICs(g.persistent.spec.NICs, o.spec) > c.Total {
			return hypervisor.RefuseNICWithoutDevice(n.Network)
		}
	}
	return nil
}
