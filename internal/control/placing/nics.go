package placing

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// readNICCapacity returns, by host and network, the capacity for NICs that each occupy a part of a host device, such as
// a virtual function. It locks the devices, so that no other transaction can reserve their capacity until the
// transaction ends.
func readNICCapacity(ctx context.Context, q *db.Queries, host fleet.HostID, nics []fleet.NIC) (map[fleet.HostID]map[fleet.NetworkID]*placement.NICCapacity, error) {
	var ids []fleet.NetworkID
	for _, n := range nics {
		if n.NetworkID != "" && !slices.Contains(ids, n.NetworkID) {
			ids = append(ids, n.NetworkID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	counted, err := q.CountedNetworks(ctx, store.ToStrings(ids))
	if err != nil || len(counted) == 0 {
		return nil, err
	}
	ids = nil
	var devices []string
	for _, n := range counted {
		ids = append(ids, n.ID)
		if slices.Contains(devices, n.Device) {
			continue
		}
		devices = append(devices, n.Device)
		if err := q.LockNICs(ctx, n.Device); err != nil {
			return nil, err
		}
	}
	networks, err := q.NICsReported(ctx, db.NICsReportedParams{Ids: store.ToStrings(ids), Host: string(host)})
	if err != nil {
		return nil, err
	}
	allocated, err := q.NICsAllocated(ctx, db.NICsAllocatedParams{Devices: devices, Host: string(host)})
	if err != nil {
		return nil, err
	}
	out := map[fleet.HostID]map[fleet.NetworkID]*placement.NICCapacity{}
	shared := map[string]*placement.NICCapacity{}
	for _, t := range networks {
		i := slices.IndexFunc(counted, func(n db.CountedNetworksRow) bool { return string(n.ID) == t.NetworkID })
		n := counted[i]
		key := string(t.HostID) + " " + n.Mode + " " + n.Device // networks on one device share its capacity
		c := shared[key]
		if c == nil {
			c = &placement.NICCapacity{Device: n.Device, Functions: n.Mode == string(fleet.NetworkSRIOV), Total: int(t.Total), Used: int(t.Used)}
			shared[key] = c
		}
		if out[t.HostID] == nil {
			out[t.HostID] = map[fleet.NetworkID]*placement.NICCapacity{}
		}
		out[t.HostID][n.ID] = c
	}
	for _, p := range allocated {
		if c := shared[string(p.HostID)+" "+p.Mode+" "+p.Device]; c != nil {
			c.Allocated += int(p.Nics)
			c.VMNames = append(c.VMNames, p.Name)
		}
	}
	return out, nil
}

// ReleaseNICCapacity counts the capacity of NICs that an edit removes as free on the host.
func ReleaseNICCapacity(h *placement.Host, removed []fleet.NIC) {
	for _, n := range removed {
		if c := h.NICs[n.NetworkID]; c != nil {
			c.Allocated, c.Used = max(0, c.Allocated-1), max(0, c.Used-1)
		}
	}
}

// BandwidthLimitedNICs returns the indexes of NICs whose port group limits their bandwidth.
func BandwidthLimitedNICs(ctx context.Context, q *db.Queries, nics []fleet.NIC) (map[int]bool, error) {
	var ids []fleet.NetworkID
	for _, n := range nics {
		if n.NetworkID != "" && n.PortGroup != "" {
			ids = append(ids, n.NetworkID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	groups, err := q.LimitedPortGroups(ctx, store.ToStrings(ids))
	out := map[int]bool{}
	for i, n := range nics {
		out[i] = slices.Contains(groups, db.LimitedPortGroupsRow{ID: n.NetworkID, Name: n.PortGroup})
	}
	return out, err
}
