package mock

import (
	"errors"
	"slices"

	"quantix/internal/fleet"
)

// SetNICLimitSupport sets whether the host's kernel can limit the bandwidth of NICs.
func (h *Host) SetNICLimitSupport(can bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inventory.VMGaps = slices.DeleteFunc(slices.Clone(h.inventory.VMGaps), isNICLimitGap)
	if !can {
		h.inventory.VMGaps = append(h.inventory.VMGaps, fleet.NICLimitGaps("The kernel lacks sch_sfq, which libvirt needs to limit a NIC. Install the kernel's extra modules, or another kernel.")...)
	}
	h.notify()
}

func isNICLimitGap(g fleet.VMGap) bool {
	return g.Field == fleet.NICLimitIn || g.Field == fleet.NICLimitOut
}

// checkNICLimits refuses NIC limits that the kernel does not support, with the text of libvirt and tc. The caller holds
// h.mu.
func (h *Host) checkNICLimits(nics []fleet.NIC) error {
	limited := func(n fleet.NIC) bool {
		if n.Limits != (fleet.NICLimits{}) || h.networks[n.Network] == nil {
			return n.Limits != fleet.NICLimits{}
		}
		g := h.networks[n.Network].live.PortGroupByName(n.PortGroup)
		return g != nil && (g.ToGuest != nil || g.FromGuest != nil)
	}
	if !slices.ContainsFunc(h.inventory.VMGaps, isNICLimitGap) || !slices.ContainsFunc(nics, limited) {
		return nil
	}
	return errors.New("internal error: Child process (tc qdisc add dev vnet0 parent 1:1 handle 2: sfq perturb 10) unexpected exit status 2: Error: Specified qdisc kind is unknown")
}
