package mock

import (
	"slices"
	"strings"

	"quantix/agent"
	"quantix/internal/fleet"
)

// hasDevices refuses a start without what is to be plugged in at a port, or for which no mediated device can be made; h.mu is held.
func (h *Host) hasDevices(g *guest) error {
	for _, want := range g.def.spec.HostDevices {
		i := slices.IndexFunc(h.inv.Devices, func(d fleet.HostDevice) bool { return d.Device == want.Device && !d.Empty })
		if port, ok := strings.CutPrefix(want.Device, "usb-port/"); ok && i < 0 {
			return agent.NothingPlugged(port, h.opts.Name)
		}
		kind, ok := strings.CutPrefix(want.Device, "mdev/")
		if !ok {
			continue
		}
		used := 0
		for _, o := range h.guests {
			if o.on() && slices.ContainsFunc(o.live.spec.HostDevices, func(d fleet.VMHostDevice) bool { return d.Device == want.Device }) {
				used++
			}
		}
		if i < 0 || used >= h.inv.Devices[i].Most {
			return agent.NoMdevFree(kind, h.opts.Name)
		}
	}
	return nil
}
