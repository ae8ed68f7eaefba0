package mock

import (
	"quantix/agent"
	"quantix/internal/fleet"
)

// SetFunctions switches so many virtual functions of a device on, as an administrator does; the host has the device from then on.
func (h *Host) SetFunctions(device string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.functions[device] = n
	h.notify()
}

// nics are those that networks on the spec's device have room for; h.mu is held.
func (h *Host) nics(s fleet.NetworkSpec) *fleet.NetworkNICs {
	c := &fleet.NetworkNICs{Total: 1}
	if s.Mode == fleet.NetworkSRIOV {
		c.Total = h.functions[s.Device]
	}
	for _, g := range h.guests {
		if g.on() {
			c.Used += h.takes(g.live.spec.NICs, s)
		}
	}
	return c
}

// takes counts the cards on networks of the same kind on the spec's device; h.mu is held.
func (h *Host) takes(nics []fleet.NIC, s fleet.NetworkSpec) (cards int) {
	for _, n := range nics {
		if o := h.networks[n.Network]; o != nil && o.spec.Counted() && o.spec.Mode == s.Mode && o.spec.Device == s.Device {
			cards++
		}
	}
	return cards
}

// roomFor refuses a start for which no device is free; h.mu is held.
func (h *Host) roomFor(g *guest) error {
	for _, n := range g.def.spec.NICs {
		o := h.networks[n.Network]
		if o == nil || !o.spec.Counted() {
			continue
		}
		if c := h.nics(o.spec); c.Used+h.takes(g.def.spec.NICs, o.spec) > c.Total {
			return agent.NoDeviceFree(n.Network)
		}
	}
	return nil
}
