package mock

import (
	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// SetFunctions sets the number of enabled virtual functions of a device, as an administrator does; the host gets the
// device if it lacks it.
func (h *Host) SetFunctions(device string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.functions[device] = n
	h.notify()
}

// nics returns the NIC capacity of networks on the spec's device. h.mu must be held.
func (h *Host) nics(s fleet.NetworkSpec) *fleet.NetworkNICs {
	c := &fleet.NetworkNICs{Total: 1}
	if s.Mode == fleet.NetworkSRIOV {
		c.Total = h.functions[s.Device]
	}
	for _, g := range h.guests {
		if g.on() {
			c.Used += h.countNICs(g.live.spec.NICs, s)
		}
	}
	return c
}

// countNICs counts the NICs on networks of the same kind on the spec's device. h.mu must be held.
func (h *Host) countNICs(nics []fleet.NIC, s fleet.NetworkSpec) (cards int) {
	for _, n := range nics {
		if o := h.networks[n.Network]; o != nil && o.spec.Counted() && o.spec.Mode == s.Mode && o.spec.Device == s.Device {
			cards++
		}
	}
	return cards
}

// checkFreeDevices refuses a start if no device is free. h.mu must be held.
func (h *Host) checkFreeDevices(g *guest) error {
	for _, n := range g.def.spec.NICs {
		o := h.networks[n.Network]
		if o == nil || !o.spec.Counted() {
			continue
		}
		if c := h.nics(o.spec); c.Used+h.countNICs(g.def.spec.NICs, o.spec) > c.Total {
			return hypervisor.NoDeviceFree(n.Network)
		}
	}
	return nil
}
