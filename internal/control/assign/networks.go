package assign

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// NetworkType is the resource type of networks defined in Quantix. Hosts execute them as libvirt networks. Discovered
// networks cannot be assigned.
var NetworkType = registerAssignableType(AssignableType{
	typ: string(fleet.TypeNetwork), applyKind: fleet.NetworkApply, releaseKind: fleet.NetworkRelease, reapplyKind: fleet.NetworkReapply,
	lockObject: func(ctx context.Context, q *db.Queries, id string) (AssignableObject, error) {
		row, err := q.LockNetwork(ctx, fleet.NetworkID(id))
		n := fleet.NetworkView{Network: store.NetworkFromRow(row)}
		_, leaving := n.Allows(fleet.ActAssign)
		return AssignableObject{Name: n.Name, generation: n.Generation, changeRefusal: leaving, spec: n.Spec}, err
	},
	checkHostsFit: checkNetworkFitsHosts, checkUnusedOnHost: checkNetworkUnused, actionAllowed: networkActionAllowed,
	markDeleted: func(ctx context.Context, q *db.Queries, id string) error {
		return q.MarkNetworkDeleted(ctx, fleet.NetworkID(id))
	},
	deleteRow: func(ctx context.Context, q *db.Queries, id string) error { return q.EndNetwork(ctx, id) },
	readAssigned: func(ctx context.Context, q *db.Queries) ([]assignedObject, error) {
		rows, err := q.AssignedNetworks(ctx)
		out := make([]assignedObject, len(rows))
		for i, r := range rows {
			network := store.NetworkFromRow(r.Network)
			out[i] = assignedObject{r.Hosts, func(on *wire.AssignedObjects) { on.Networks = appendClipped(on.Networks, network) }}
		}
		return out, err
	},
	observedStatus: func(in wire.Finish) any {
		if in.Network == nil {
			return nil
		}
		return in.Network
	},
})

// NewNetworkObject returns a network whose row the transaction has just created.
func NewNetworkObject(id fleet.NetworkID, name string, spec fleet.NetworkSpec) AssignableObject {
	return NetworkType.createdObject(string(id), AssignableObject{Name: name, spec: &spec})
}

// networkActionAllowed reports whether the assignment's status allows the action. It uses the same rules as the
// network's page.
func networkActionAllowed(on db.AssignmentOnRow, act fleet.Action) (bool, string, error) {
	status := fleet.NetworkHost{HostName: on.HostName, SeenAt: fleet.NewReportTime(on.LookedAt, on.FreshFor), Assigned: on.Assigned, Releasing: !on.Assigned}
	if len(on.Status) > 0 {
		if err := json.Unmarshal(on.Status, &status.Status); err != nil {
			return false, "", err
		}
	}
	status.State = status.StateAt(on.Now)
	ok, why := status.Allows(act)
	return ok, why, nil
}

// checkNetworkFitsHosts rejects hosts that have another network with the same name, the same bridge or an overlapping
// subnet.
func checkNetworkFitsHosts(ctx context.Context, q *db.Queries, o AssignableObject, hosts []string) error {
	if err := q.AssignNetworksAlone(ctx); err != nil {
		return err
	}
	rows, err := q.NetworksOn(ctx, db.NetworksOnParams{ID: fleet.NetworkID(o.id), Hosts: hosts})
	if err != nil {
		return err
	}
	var checks fleet.Checks
	if o.spec.Adopted {
		if err := checkHostsHaveNetwork(ctx, q, &checks, o, hosts); err != nil {
			return err
		}
	}
	if o.spec.Mode == fleet.NetworkVXLAN {
		assigned, err := q.AssignedHosts(ctx, db.AssignedHostsParams{Noun: o.assignable.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		for _, h := range assigned {
			if !slices.Contains(hosts, string(h)) {
				hosts = append(slices.Clip(hosts), string(h)) // also check the hosts that already have the network
			}
		}
		if len(hosts) > fleet.MaxPeers {
			checks.Add("hostIds", "An overlay network can have at most %d hosts, because each host sends its broadcasts to all others. Define another overlay for the other hosts.", fleet.MaxPeers)
		}
	}
	for _, other := range rows {
		if other.Same && o.spec.Adopted {
			continue // the host's own network, which becomes the assigned one
		}
		if other.Same {
			checks.Add("hostIds", "%s has a network named %s already, which Quantix did not make. Give the new network another name, or remove the old one with virsh.", other.HostName, o.Name)
			continue
		}
		what := "network"
		if other.Kind == fleet.NetworkBridge {
			what = "bridge"
		}
		for _, mine := range o.spec.Prefixes() {
			for _, theirs := range networkSubnets(other) {
				if mine.Overlaps(theirs) {
					checks.Add(subnetSpecField(mine), "%s of network %s overlaps %s of %s %s on %s. Give another subnet.", mine, o.Name, theirs, what, other.Name, other.HostName)
				}
			}
		}
		checkUnderlayOverlap(&checks, o, other, what)
		if other.Spec != nil {
			checkDeviceAndVNIConflicts(&checks, *o.spec, other)
		}
		if !o.spec.Mode.Info().HostAddresses && !o.spec.Mode.Info().CreatesDevices {
			continue // the network uses an existing device, which networks may share
		}
		if o.spec.Bridge != "" && (o.spec.Bridge == other.Bridge || other.Spec != nil && o.spec.Bridge == other.Spec.Bridge) {
			checks.Add("spec.bridge", "The %s %s has the bridge device %s on %s already. Give another name.", what, other.Name, o.spec.Bridge, other.HostName)
		}
	}
	return checks.Err()
}

// checkHostsHaveNetwork rejects hosts without a definition of their own that equals the adopted network.
func checkHostsHaveNetwork(ctx context.Context, q *db.Queries, checks *fleet.Checks, o AssignableObject, hosts []string) error {
	rows, err := q.HostDefinitions(ctx, db.HostDefinitionsParams{ID: o.id, Hosts: hosts})
	if err != nil {
		return err
	}
	for _, r := range rows {
		var own *fleet.NetworkSpec
		if err := json.Unmarshal(r.Spec, &own); err != nil {
			return err
		}
		switch {
		case own == nil:
			checks.Add("hostIds", "%s has no network named %s that Quantix could use: an adopted network is never created on a host.", r.HostName, o.Name)
		case !adoption.SameDefinition(*own, *o.spec):
			checks.Add("hostIds", "The network %s of %s has another definition. Make the definitions equal with virsh net-edit first.", o.Name, r.HostName)
		}
	}
	return nil
}

// checkDeviceAndVNIConflicts reports that two networks of one host have the same VNI, or that one of them needs a
// device of the other exclusively. Two bridges on one device could form a loop.
func checkDeviceAndVNIConflicts(c *fleet.Checks, mine fleet.NetworkSpec, other db.NetworksOnRow) {
	theirs := *other.Spec
	sameDevice := mine.Device != "" && mine.Device == theirs.Device && mine.VLAN == theirs.VLAN
	taking := func(m fleet.NetworkMode) bool { return m == fleet.NetworkUplink || m == fleet.NetworkMacvtap }
	switch {
	case mine.Mode == fleet.NetworkVXLAN && theirs.Mode == fleet.NetworkVXLAN && mine.VNI == theirs.VNI:
		c.Add("spec.vni", "The network %s has the VNI %d on %s already. Give another one.", other.Name, mine.VNI, other.HostName)
	case sameDevice && taking(mine.Mode) && taking(theirs.Mode) && (mine.Mode == fleet.NetworkUplink || theirs.Mode == fleet.NetworkUplink):
		c.Add("spec.device", "The network %s has the device %s on %s already: a device can be in only one bridge. Give another device or a VLAN, or connect the VMs to that network.", other.Name, mine.Device, other.HostName)
	case sameDevice && taking(mine.Mode) && taking(theirs.Mode) && mine.Direct != theirs.Direct && (mine.Direct == fleet.DirectPassthrough || theirs.Direct == fleet.DirectPassthrough):
		c.Add("spec.device", "The network %s has the device %s on %s already: only one NIC can use a passthrough device. Give another device.", other.Name, mine.Device, other.HostName)
	}
}

// checkUnderlayOverlap reports a guest network whose subnet overlaps the underlay of an overlay network. The host would
// have addresses in both, and would route the overlay's packets into the guest network. Discovered bridges are exempt,
// because they may be the underlay.
func checkUnderlayOverlap(c *fleet.Checks, o AssignableObject, other db.NetworksOnRow, what string) {
	if other.Kind == fleet.NetworkBridge {
		return
	}
	if mine, err := netip.ParsePrefix(o.spec.Underlay); err == nil {
		for _, theirs := range networkSubnets(other) {
			if mine.Overlaps(theirs) {
				c.Add("spec.underlay", "The underlay subnet %s overlaps the guests' subnet %s of %s %s on %s. Give the subnet through which the hosts reach one another.", mine, theirs, what, other.Name, other.HostName)
			}
		}
	}
	if other.Spec == nil {
		return
	}
	if theirs, err := netip.ParsePrefix(other.Spec.Underlay); err == nil {
		for _, mine := range o.spec.Prefixes() {
			if mine.Overlaps(theirs) {
				c.Add(subnetSpecField(mine), "%s of network %s overlaps %s, the underlay subnet of the network %s on %s. Give another subnet.", mine, o.Name, theirs, other.Name, other.HostName)
			}
		}
	}
}

// networkSubnets returns the subnets of another network, from its spec and from the hosts' reports.
func networkSubnets(other db.NetworksOnRow) (out []netip.Prefix) {
	if other.Spec != nil {
		out = other.Spec.Prefixes()
	}
	var reported []string
	_ = json.Unmarshal([]byte(other.Subnets), &reported) // validated when the report was stored
	for _, text := range reported {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Bits() == 0 { // a reported default route claims no subnet
			continue
		}
		if p = p.Masked(); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func subnetSpecField(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "spec.ipv4.gateway"
	}
	return "spec.ipv6.gateway"
}

// checkNetworkUnused returns a conflict while VMs have NICs on the network, on the host or on any host if host is
// empty.
func checkNetworkUnused(ctx context.Context, q *db.Queries, o AssignableObject, host fleet.HostID) error {
	vms, err := q.NetworkNeeded(ctx, db.NetworkNeededParams{NetworkID: o.id, Host: string(host)})
	if err != nil || len(vms) == 0 {
		return err
	}
	return objectInUseError(o, host, vms, "NICs on")
}
