package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// unfilteredNetworks returns, by id, the names of those of the NICs' networks whose traffic hosts cannot filter.
func unfilteredNetworks(ctx context.Context, q *db.Queries, old, nics []fleet.NIC) (map[fleet.NetworkID]string, error) {
	var ids []string
	for _, n := range slices.Concat(old, nics) {
		if n.NetworkID != "" {
			ids = append(ids, string(n.NetworkID))
		}
	}
	out := map[fleet.NetworkID]string{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := q.BareNetworks(ctx, db.BareNetworksParams{Ids: ids, Modes: fleet.UnfilteredModes()})
	for _, r := range rows {
		out[r.ID] = r.Name
	}
	return out, err
}

// disableNICFilters returns NIC n with its filters off, because hosts cannot filter traffic of its network. It refuses
// security groups or anti-spoofing that the edit adds. A NIC that was on the network before keeps its settings. old is
// the NIC before the edit; nil: a new NIC.
func disableNICFilters(c *fleet.Checks, i int, network string, n fleet.NIC, old *fleet.NIC) fleet.NIC {
	if old != nil && old.NetworkID == n.NetworkID {
		if n.AntiSpoofing == nil {
			n.AntiSpoofing = old.AntiSpoofing
		}
		if n.HasSameFilter(*old) {
			return n
		}
	}
	const why = "Hosts cannot filter the traffic of a NIC on %s, so %s would have no effect there. Leave it out, or choose another network."
	if len(n.SecurityGroups) > 0 {
		c.Add(fmt.Sprintf("spec.nics[%d].securityGroups", i), why, network, "a security group")
	}
	if n.HasAntiSpoofing() && (old == nil || !old.HasAntiSpoofing()) {
		c.Add(fmt.Sprintf("spec.nics[%d].antiSpoofing", i), why, network, "anti-spoofing")
	}
	off := false
	n.AntiSpoofing = &off
	return n
}

// fillFilterSettings fills in filter settings that the input left out. An existing NIC keeps its settings. A new NIC
// gets anti-spoofing unless an administrator creates it. Only administrators may switch anti-spoofing off. Security
// groups must be the project's own or global; a group of another project is refused as unknown.
func fillFilterSettings(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, old, nics []fleet.NIC) error {
	runs := policy.May(a, policy.InfraChange, "") || a.System
	bare, err := unfilteredNetworks(ctx, q, old, nics)
	if err != nil {
		return err
	}
	defaults, err := readPortGroups(ctx, q, nics)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	var groups []fleet.SecurityGroupID
	for i, n := range nics {
		k := slices.IndexFunc(old, func(o fleet.NIC) bool { return n.MAC != "" && strings.EqualFold(o.MAC, n.MAC) })
		if name := bare[n.NetworkID]; name != "" {
			if k >= 0 {
				nics[i] = disableNICFilters(&checks, i, name, n, &old[k])
			} else {
				nics[i] = disableNICFilters(&checks, i, name, n, nil)
			}
			continue
		}
		if k >= 0 && bare[old[k].NetworkID] != "" {
			k = -1 // the old network had no filters, so treat it as a new NIC
		}
		was := k >= 0 && old[k].HasAntiSpoofing()
		// Treat a NIC that leaves a port group as new if it had the port group's anti-spoofing setting, which may be off only
		// in that port group.
		fresh := k < 0 || old[k].DefaultAntiSpoofing && (old[k].NetworkID != n.NetworkID || old[k].PortGroup != n.PortGroup)
		var before *fleet.NIC
		if k >= 0 {
			before = &old[k]
		}
		n = n.WithPortGroupDefaults(before, defaults[portGroupKey{n.NetworkID, n.PortGroup}])
		nics[i] = n
		guard := n.HasAntiSpoofing()
		if n.AntiSpoofing == nil {
			guard = was || fresh && !runs
		}
		if !guard && !runs && !n.DefaultAntiSpoofing && (fresh || was) {
			checks.Add(fmt.Sprintf("spec.nics[%d].antiSpoofing", i), "Only those who may change infrastructure may turn anti-spoofing off. Leave it on.")
		}
		nics[i].AntiSpoofing = &guard
	}
	if err := flavors.FillGroups(ctx, q, a, project, old, nics, func(n fleet.NIC) bool { return bare[n.NetworkID] != "" }); err != nil {
		return err
	}
	for _, n := range nics {
		if bare[n.NetworkID] == "" && len(n.SecurityGroups) <= fleet.MaxNICGroups { // the spec's check refuses more
			groups = append(groups, n.SecurityGroups...)
		}
	}
	usable, err := assign.UsableSecurityGroups(ctx, q, project, groups)
	if err != nil {
		return err
	}
	for i, n := range nics {
		if bare[n.NetworkID] != "" {
			continue // refused by the spec's check, or unchanged
		}
		for j, id := range n.SecurityGroups {
			if !usable[id] {
				checks.Add(fmt.Sprintf("spec.nics[%d].securityGroups[%d]", i, j), "There is no such security group.")
			}
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	for i, n := range nics {
		// A list with duplicates stays unchanged, so that the later check of the complete spec refuses the duplicates.
		if distinct := slices.Compact(slices.Sorted(slices.Values(n.SecurityGroups))); len(distinct) == len(n.SecurityGroups) {
			nics[i] = n.WithNormalizedFilter()
		}
	}
	return nil
}

// portGroupKey identifies a port group.
type portGroupKey struct {
	network fleet.NetworkID
	name    string
}

// readPortGroups returns the port groups of the NICs.
func readPortGroups(ctx context.Context, q *db.Queries, nics []fleet.NIC) (map[portGroupKey]*fleet.PortGroup, error) {
	var ids []string
	for _, n := range nics {
		if n.PortGroup != "" && n.NetworkID != "" {
			ids = append(ids, string(n.NetworkID))
		}
	}
	out := map[portGroupKey]*fleet.PortGroup{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := q.NetworkSpecs(ctx, ids)
	for _, r := range rows {
		if r.Spec == nil { // a discovered network, without a definition
			continue
		}
		for i, g := range r.Spec.PortGroups {
			out[portGroupKey{r.ID, g.Name}] = &r.Spec.PortGroups[i]
		}
	}
	return out, err
}

// portGroupBatchSize limits the VMs updated by one pass of ApplyPortGroupDefaults.
const portGroupBatchSize = 200

// ApplyPortGroupDefaults applies changed defaults of port groups to NICs without settings of their own, by an edit of
// each VM. The next pass retries VMs that cannot be edited now.
func (c *Control) ApplyPortGroupDefaults(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "port groups' defaults", func(q *db.Queries) error {
		ids, err := q.NICsOffDefault(ctx, portGroupBatchSize)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := applyPortGroupChanges(ctx, q, a, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func applyPortGroupChanges(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID) error {
	vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
	if fleet.CodeOf(err) == fleet.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if ok, _ := vm.Allows(fleet.ActEdit); !ok {
		return nil
	}
	old := vm.Spec
	vm.Spec.NICs = slices.Clone(old.NICs)
	err = fillFilterSettings(ctx, q, a, vm.ProjectID, old.NICs, vm.Spec.NICs)
	if fleet.CodeOf(err) == fleet.Invalid {
		return nil // the edit is refused because of another NIC, which only a person can correct
	}
	if err != nil {
		return err
	}
	changes := old.Diff(vm.Spec, true)
	if len(changes) == 0 {
		return nil
	}
	_, _, err = applyVMChange(ctx, q, a, vmChange{vm: vm, action: "vm.follow", detail: describeChanges(changes)})
	return err
}
