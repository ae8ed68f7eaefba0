package query

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/ipam"
	"quantix/internal/policy"
)

// Limits of one list of a network's addresses. The addresses of a larger network can be listed host by host.
const (
	maxNICs       = 5000
	maxLeaseHosts = 500 // hosts whose leases are read
)

// NetworkAddresses returns the used addresses, reservations and address conflicts of a network that is defined in
// Quantix, on one host, or on all hosts if host is empty.
func (b *Queries) NetworkAddresses(ctx context.Context, a fleet.Actor, id fleet.NetworkID, host fleet.HostID) (out ipam.Usage, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return out, err
	}
	n, err := b.NetworkBrief(ctx, a, id)
	if err != nil {
		return out, err
	}
	if n.Spec == nil {
		return out, fleet.Errorf(fleet.Conflict, "This network was discovered on hosts, so its addresses are not defined in Quantix.")
	}
	of, err := b.NetworkAddressesBySpec(ctx, a, id, host)
	if err != nil {
		return out, err
	}
	return of(*n.Spec), nil
}

// NetworkAddressesBySpec reads what hosts report about a network's addresses. The returned function combines this with a spec of
// the network.
func (b *Queries) NetworkAddressesBySpec(ctx context.Context, a fleet.Actor, id fleet.NetworkID, host fleet.HostID) (of func(fleet.NetworkSpec) ipam.Usage, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.NICsOn(ctx, db.NICsOnParams{NetworkID: string(id), Host: string(host), Most: maxNICs + 1})
	if err != nil {
		return nil, store.UserError(err)
	}
	more := len(rows) > maxNICs
	nics, macs := []policy.AddressNIC{}, []string{}
	for _, r := range rows[:min(len(rows), maxNICs)] {
		on, err := addressNICs(r)
		if err != nil {
			return nil, err
		}
		for _, c := range on {
			nics, macs = append(nics, c), append(macs, c.MAC)
		}
	}
	leases, err := b.networkLeases(ctx, id, host)
	if err != nil {
		return nil, err
	}
	holders, err := b.macHolders(ctx, macs)
	return func(s fleet.NetworkSpec) ipam.Usage {
		out := policy.MergeNetworkAddresses(s, nics, leases, holders)
		out.More = more
		return out
	}, err
}

func addressNICs(r db.NICsOnRow) (out []policy.AddressNIC, err error) {
	var macs []string
	var seen []fleet.NICState
	if err := json.Unmarshal(r.Macs, &macs); err != nil {
		return nil, fmt.Errorf("read the NICs of VM %s: %w", r.ID, err)
	}
	if err := json.Unmarshal(r.Seen, &seen); err != nil {
		return nil, fmt.Errorf("read the reported NICs of VM %s: %w", r.ID, err)
	}
	host := policy.ReportingHost{ID: r.HostID, Name: r.HostName, SeenAt: fleet.NewReportTime(r.LookedAt, r.FreshFor), Fresh: r.Fresh}
	for _, mac := range macs {
		c := policy.AddressNIC{Host: host, VMID: r.ID, VMName: r.Name, MAC: mac}
		if i := slices.IndexFunc(seen, func(n fleet.NICState) bool { return strings.EqualFold(n.MAC, mac) }); i >= 0 {
			c.Seen = seenAddresses(seen[i])
		}
		out = append(out, c)
	}
	return out, nil
}

// seenAddresses returns the NIC's reported addresses with their sources. For older agents, which report no sources, the
// source is empty.
func seenAddresses(n fleet.NICState) []fleet.SeenAddress {
	out := slices.Clone(n.Seen)
	for _, ip := range n.Addresses {
		if !slices.ContainsFunc(out, func(a fleet.SeenAddress) bool { return a.IP == ip }) {
			out = append(out, fleet.SeenAddress{IP: ip, By: []fleet.AddressSource{}})
		}
	}
	return out
}

func (b *Queries) networkLeases(ctx context.Context, id fleet.NetworkID, host fleet.HostID) (out []policy.AddressLease, err error) {
	rows, err := b.store.LeasesOf(ctx, db.LeasesOfParams{NetworkID: string(id), Host: string(host), Most: maxLeaseHosts})
	if err != nil {
		return nil, store.UserError(err)
	}
	for _, r := range rows {
		var leases []fleet.DHCPLease
		if err := json.Unmarshal(r.Leases, &leases); err != nil {
			return nil, fmt.Errorf("read the DHCP leases of host %s: %w", r.HostID, err)
		}
		for _, l := range leases {
			out = append(out, policy.AddressLease{Host: policy.ReportingHost{ID: r.HostID, Name: r.HostName, SeenAt: fleet.NewReportTime(r.LookedAt, r.FreshFor), Fresh: r.Fresh}, DHCPLease: l})
		}
	}
	return out, nil
}

func (b *Queries) macHolders(ctx context.Context, macs []string) ([]policy.MACHolder, error) {
	rows, err := b.store.MACOwners(ctx, macs)
	out := make([]policy.MACHolder, len(rows))
	for i, r := range rows {
		out[i] = policy.MACHolder{MAC: r.Mac, MACHolder: fleet.MACHolder{VMID: r.ID, Name: r.Name, HostName: r.HostName}}
	}
	return out, store.UserError(err)
}

// VMAddresses returns all known addresses of a VM's NICs, in the order of its spec.
func (b *Queries) VMAddresses(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.NICAddresses, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return nil, err
	}
	vm, err := store.GetVM(ctx, b.store.Queries, a, id)
	if err != nil {
		return nil, err
	}
	return b.vmAddresses(ctx, a, vm)
}

func (b *Queries) vmAddresses(ctx context.Context, a fleet.Actor, vm fleet.VMView) ([]fleet.NICAddresses, error) {
	out := make([]fleet.NICAddresses, len(vm.Spec.NICs))
	if len(out) == 0 {
		return out, nil
	}
	var ids, macs []string
	for _, n := range vm.Spec.NICs {
		ids, macs = append(ids, string(n.NetworkID)), append(macs, n.MAC)
	}
	networks, err := b.store.NetworkSpecs(ctx, ids)
	if err != nil {
		return nil, store.UserError(err)
	}
	holders, err := b.macHolders(ctx, macs)
	if err != nil {
		return nil, err
	}
	for i, n := range vm.Spec.NICs {
		_, name := n.NetworkKindAndName()
		c := fleet.NICAddresses{MAC: n.MAC, NetworkID: n.NetworkID, Network: name, Seen: []fleet.SeenAddress{}, SeenAt: vm.SeenAt, Unknown: vm.Phase == fleet.PhaseUnknown}
		if vm.Status != nil {
			if k := slices.IndexFunc(vm.Status.NICs, func(s fleet.NICState) bool { return strings.EqualFold(s.MAC, n.MAC) }); k >= 0 {
				c.Seen = seenAddresses(vm.Status.NICs[k])
			}
		}
		for _, h := range holders {
			if h.MAC == n.MAC && h.VMID != vm.ID {
				c.Others = append(c.Others, redactMACHolder(a, h.MACHolder))
			}
		}
		if k := slices.IndexFunc(networks, func(r db.NetworkSpecsRow) bool { return r.ID == n.NetworkID }); k >= 0 {
			c.Reserved, c.WhyNoReservations = reservedAddress(networks[k].Spec, n.MAC)
		}
		c.SupportsReservations = c.WhyNoReservations == ""
		out[i] = c
	}
	return out, nil
}

// reservedAddress returns the address that the network reserves for the NIC; empty: none. If the network cannot reserve
// addresses, whyNot is the reason.
func reservedAddress(s *fleet.NetworkSpec, mac string) (ip, whyNot string) {
	switch {
	case s == nil:
		return "", "This network was discovered on hosts. Reserve addresses in the DHCP server of that network."
	case s.IPv4 == nil || s.IPv4.DHCP == nil:
		return "", "DHCP is off in this network."
	}
	for _, l := range s.IPv4.DHCP.Leases {
		if l.MAC == mac {
			return l.IP, ""
		}
	}
	return "", ""
}

// redactMACHolder removes the name of the unmanaged VM that has the MAC address, unless the actor may see hosts.
func redactMACHolder(a fleet.Actor, h fleet.MACHolder) fleet.MACHolder {
	if store.SeesHosts(a) {
		return h
	}
	return fleet.MACHolder{}
}
