package mock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quantix/agent"
	"quantix/internal/fleet"
)

// NoFilter in a security group's name makes it impossible to apply, as on a host without ebtables.
const NoFilter = "no-filter"

// ApplySecurityGroup implements agent.Hypervisor.
func (h *Host) ApplySecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	return h.putGroup(g)
}

// putGroup is what libvirt does with the group's filter; h.mu is held.
func (h *Host) putGroup(g fleet.FlatGroup) error {
	if misbehaves(g.Name, NoFilter) {
		return fmt.Errorf("libvirt: internal error: Failed to run firewall command /usr/sbin/iptables -w -N FO-vnet0: No such file or directory")
	}
	h.groups[g.ID] = g
	return nil
}

// ReleaseSecurityGroup implements agent.Hypervisor.
func (h *Host) ReleaseSecurityGroup(ctx context.Context, g fleet.FlatGroup) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.guests {
		if slices.Contains(other.def.spec.SecurityGroups(), g.ID) {
			return agent.FilterInUse(g.Name, other.name)
		}
	}
	delete(h.groups, g.ID)
	h.notify()
	return nil
}

// FilterCounts implements agent.Hypervisor. By each rule a packet a second passes, and one in five seconds is dropped.
func (h *Host) FilterCounts(ctx context.Context) ([]agent.CountedCard, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []agent.CountedCard
	for _, g := range h.guests {
		if !g.managed || !g.on() {
			continue
		}
		n := int64(time.Since(g.startedAt).Seconds())
		for _, nic := range g.live.spec.NICs {
			if filterOf(g.id, nic) == "" {
				continue
			}
			chain := map[string]fleet.PassCount{agent.Dropped: {Packets: n / 5, Bytes: n / 5 * 60}}
			for _, id := range nic.SecurityGroups {
				for _, r := range h.groups[id].Rules {
					chain[r.ID] = fleet.PassCount{Packets: n, Bytes: n * 500}
				}
			}
			out = append(out, agent.CountedCard{VM: g.id, MAC: nic.MAC, Chains: map[string]map[string]fleet.PassCount{"all": chain}})
		}
	}
	return out, nil
}

// takesGroups refuses cards in groups that the order does not bring, or that the host cannot apply.
func (h *Host) takesGroups(in agent.Apply) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range in.VM.Spec.NICs {
		groups, err := agent.CardGroups(n, in.Groups)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if _, here := h.groups[g.ID]; here {
				continue
			}
			if err := h.putGroup(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// filterOf is the name of the network filter that the card has.
func filterOf(vm fleet.VMID, n fleet.NIC) string {
	if !n.Filtered() {
		return ""
	}
	return agent.FilterName(vm, n.MAC)
}
