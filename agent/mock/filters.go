package mock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// NoFilter in the name of a security group makes its apply fail, as on a host without ebtables.
const NoFilter = "no-filter"

// ApplySecurityGroup implements hypervisor.Firewall.
func (h *Host) ApplySecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	return h.updateSecurityGroup(g)
}

// updateSecurityGroup simulates libvirt's update of the group's filter. The caller holds h.mu.
func (h *Host) updateSecurityGroup(g secgroup.FlatGroup) error {
	if nameContains(g.Name, NoFilter) {
		return fmt.Errorf("libvirt: internal error: Failed to run firewall command /usr/sbin/iptables -w -N FO-vnet0: No such file or directory")
	}
	h.securityGroups[g.ID] = g
	delete(h.changedFilters, hypervisor.GroupFilterName(g.ID))
	return nil
}

// editFilter changes a Quantix network filter as an administrator would; with remove set, it removes the filter.
func (h *Host) editFilter(name string, remove bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.notify()
	if h.changedFilters[name] = hypervisor.FilterChangedText(name); remove {
		h.changedFilters[name] = hypervisor.FilterMissingText(name)
	}
}

// reportChangedSecurityGroups returns the security groups that somebody changed on the host. The caller holds h.mu.
func (h *Host) reportChangedSecurityGroups() (out []wire.GroupReport) {
	for name, said := range h.changedFilters {
		if id, ours := strings.CutPrefix(name, secgroup.FilterPrefix+"group-"); ours {
			out = append(out, wire.GroupReport{ID: fleet.SecurityGroupID(id), Changed: said})
		}
	}
	slices.SortFunc(out, func(x, y wire.GroupReport) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return out
}

// rewriteFilters rewrites the filters of a VM's NICs. A filter that somebody changed stays if the NIC's spec is
// unchanged. The caller holds h.mu.
func (h *Host) rewriteFilters(in hypervisor.ApplyWork, was []fleet.NIC) {
	for _, n := range in.VM.Spec.NICs {
		same := slices.ContainsFunc(was, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, n.MAC) && o.HasSameFilter(n) })
		if in.Overwrites("nics") || !same {
			delete(h.changedFilters, hypervisor.FilterName(in.VM.ID, n.MAC))
		}
	}
}

// ReleaseSecurityGroup implements hypervisor.Firewall.
func (h *Host) ReleaseSecurityGroup(ctx context.Context, g secgroup.FlatGroup) error {
	if err := h.simulateCall(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, other := range h.guests {
		if slices.Contains(other.persistent.spec.SecurityGroups(), g.ID) {
			return hypervisor.RefuseUsedSecurityGroup(g.Name, other.name)
		}
	}
	delete(h.securityGroups, g.ID)
	delete(h.changedFilters, hypervisor.GroupFilterName(g.ID))
	h.notify()
	return nil
}

// FilterCounts implements hypervisor.Telemetry. Each rule accepts one packet per second, and every five seconds one
// packet is dropped.
func (h *Host) FilterCounts(ctx context.Context) ([]hypervisor.NICPacketCounts, error) {
	if err := h.simulateCall(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []hypervisor.NICPacketCounts
	for _, g := range h.guests {
		if !g.managed || !g.isRunning() {
			continue
		}
		n := int64(time.Since(g.startedAt).Seconds())
		for _, nic := range g.live.spec.NICs {
			if filterNameOfNIC(g.id, nic) == "" {
				continue
			}
			chain := map[string]secgroup.PassCount{hypervisor.DroppedKey: {Packets: n / 5, Bytes: n / 5 * 60}}
			for _, id := range nic.SecurityGroups {
				for _, r := range h.securityGroups[id].Rules {
					chain[r.ID] = secgroup.PassCount{Packets: n, Bytes: n * 500}
				}
			}
			out = append(out, hypervisor.NICPacketCounts{VM: g.id, MAC: nic.MAC, Chains: map[string]map[string]secgroup.PassCount{"all": chain}})
		}
	}
	return out, nil
}

// checkSecurityGroups refuses NICs in groups that the job does not have or that the host cannot apply.
func (h *Host) checkSecurityGroups(in hypervisor.ApplyWork) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range in.VM.Spec.NICs {
		groups, err := hypervisor.SecurityGroupsOfNIC(n, in.Groups)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if _, here := h.securityGroups[g.ID]; here {
				continue
			}
			if err := h.updateSecurityGroup(g); err != nil {
				return err
			}
		}
	}
	return nil
}

// filterNameOfNIC returns the name of the NIC's network filter.
func filterNameOfNIC(vm fleet.VMID, n fleet.NIC) string {
	if !n.NeedsFilter() {
		return ""
	}
	return hypervisor.FilterName(vm, n.MAC)
}
