package query

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// hiddenKeys are the filter keys, by resource type, whose values tenants do not see.
var hiddenKeys = map[fleet.ResourceType][]string{
	fleet.TypeVM: {"host"}, fleet.TypeTask: {"host"}, fleet.TypePool: {"host", "drift", "source", "description"}, fleet.TypeNetwork: {"host", "drift"},
}

// filterKeys returns the filter keys of a resource type for the actor, without those that would reveal hidden values.
func filterKeys(a fleet.Actor, of fleet.ResourceType) fleet.FilterKeys {
	keys := of.Info().Filter
	if store.SeesHosts(a) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k fleet.FilterKey) bool { return slices.Contains(hiddenKeys[of], k.Key) })
}

// redactPoolHealth reduces the health of pools to what concerns a tenant: whether new disks can be in the pool, its
// space, and how many VMs of the actor's projects are on hosts where the pool has a problem.
func (b *Queries) redactPoolHealth(ctx context.Context, a fleet.Actor, views []fleet.PoolView) error {
	if store.SeesHosts(a) {
		return nil
	}
	var ids []string
	for _, v := range views {
		if v.Health.Severity != fleet.SeverityOK && v.Health.Hosts > 0 {
			ids = append(ids, string(v.ID))
		}
	}
	affected, worst := map[fleet.PoolID]int{}, map[fleet.PoolID]fleet.Severity{}
	if len(ids) > 0 {
		var s statementBuilder
		s.addCondition("a.pool_id = ANY (" + s.addKeyArg(ids) + "::text[])")
		s.whereProjectVisible(a, "v.project_id", "")
		_, err := collectRows(ctx, b, "SELECT a.pool_id, COALESCE(a.said, ''), "+reportsFreshSQL+", a.used_percent, w.vms IS NOT NULL, a.by_others, a.faulty, count(*)"+statusesFromSQL+
			` JOIN vms v ON v.host_id = a.host_id AND v.spec->'disks' @> jsonb_build_array(jsonb_build_object('poolId', a.pool_id))`+s.whereClause()+
			" GROUP BY 1, 2, 3, 4, 5, 6, 7", &s, func(x pgx.CollectableRow) (none struct{}, err error) {
			var id fleet.PoolID
			var said fleet.PoolState
			var fresh bool
			var k policy.PoolHealthKey
			var n int
			err = x.Scan(&id, &said, &fresh, &k.UsedPercent, &k.VMsPaused, &k.StoppedOutside, &k.Faulty, &n)
			k.State = fleet.DerivePoolState(said, fresh)
			// The state on an offline host is unknown, as that of its VMs, which the VMs show themselves.
			if t := k.Severity(); fresh && t != fleet.SeverityOK && t != fleet.SeverityIdle {
				affected[id] += n
				if had, ok := worst[id]; !ok || severityRank[t] < severityRank[had] {
					worst[id] = t
				}
			}
			return none, err
		})
		if err != nil {
			return err
		}
	}
	for i, v := range views {
		h := v.Health
		views[i].Health = fleet.PoolHealth{
			Healthy: min(1, h.Healthy), Severity: fleet.SeverityOK, Summary: "Available", AffectedVMs: affected[v.ID],
			CapacityBytes: h.CapacityBytes, UsedBytes: h.UsedBytes, AvailableBytes: h.AvailableBytes,
		}
		switch r := &views[i].Health; {
		case r.AffectedVMs > 0:
			r.Severity, r.Summary = worst[v.ID], "Affects "+fleet.CountWithUnit(r.AffectedVMs, "VM")+" of yours"
		case v.DeletedAt != nil:
			r.Severity, r.Summary = fleet.SeverityIdle, "Being deleted"
		case h.Healthy == 0:
			r.Severity, r.Summary = fleet.SeverityIdle, "Not available now"
		}
	}
	return nil
}

// redactNetworkHealth works like redactPoolHealth. A network is Active on one host or none, as the network is usable.
func (b *Queries) redactNetworkHealth(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	var ids []string
	for _, v := range views {
		if v.Health.Active < v.Health.Hosts || v.Health.SeverityCounts.Bad > 0 {
			ids = append(ids, string(v.ID))
		}
	}
	affected := map[fleet.NetworkID]int{}
	if len(ids) > 0 {
		var s statementBuilder
		s.addCondition("a.network_id = ANY (" + s.addKeyArg(ids) + "::text[])")
		s.whereProjectVisible(a, "v.project_id", "")
		_, err := collectRows(ctx, b, "SELECT a.network_id, COALESCE(a.said, ''), "+reportsFreshSQL+`, a.faulty, count(*)
			FROM assignments a LEFT JOIN host_sessions s ON s.host_id = a.host_id
			JOIN vms v ON v.host_id = a.host_id AND v.spec->'nics' @> jsonb_build_array(jsonb_build_object('networkId', a.network_id))`+s.whereClause()+
			" GROUP BY 1, 2, 3, 4", &s, func(x pgx.CollectableRow) (none struct{}, err error) {
			var id fleet.NetworkID
			var said fleet.NetworkState
			var fresh, faulty bool
			var n int
			err = x.Scan(&id, &said, &fresh, &faulty, &n)
			if t := fleet.DeriveNetworkState(said, faulty, fresh).Severity(); fresh && t != fleet.SeverityOK {
				affected[id] += n
			}
			return none, err
		})
		if err != nil {
			return err
		}
	}
	for i, v := range views {
		views[i].Health = fleet.NetworkHealth{Active: min(1, v.Health.Active), Forwards: v.Health.Forwards, Subnets: v.Health.Subnets, AffectedVMs: affected[v.ID]}
		views[i].Hosts = []fleet.NetworkHost{}
	}
	return nil
}

// redactNetwork redacts host devices, the MAC addresses of reservations and the administrators' description.
func redactNetwork(a fleet.Actor, v fleet.NetworkView) fleet.NetworkView {
	if store.SeesHosts(a) || v.Spec == nil {
		return v
	}
	spec := *v.Spec
	// Port groups are removed too: the actor may see only some of them, which the use case PortGroups returns.
	spec.Bridge, spec.Device, spec.Underlay, spec.Description, spec.PortGroups, v.Peers = "", "", "", "", nil, nil
	if spec.IPv4 != nil && spec.IPv4.DHCP != nil {
		spec.IPv4 = &fleet.Subnet{Gateway: spec.IPv4.Gateway, DHCP: &fleet.DHCP{Ranges: spec.IPv4.DHCP.Ranges}}
	}
	v.Spec = &spec
	return v
}

func redactNetworkHost(a fleet.Actor, h fleet.NetworkHost) fleet.NetworkHost {
	if !store.SeesHosts(a) {
		h.HostID, h.HostName, h.VMs = "", "", 0
		if h.Status != nil {
			h.Status = &fleet.NetworkStatus{Active: h.Status.Active}
		}
	}
	return h
}

func redactVolume(a fleet.Actor, v VolumeOn) VolumeOn {
	if store.SeesHosts(a) {
		return v
	}
	v.Path, v.Hosts, v.Unfit, v.UsedBy, v.Backing = "", []HostRef{}, "", nil, ""
	v.InDrive, v.BaseOf, v.ModifiedAt, v.BackingUsers = nil, nil, nil, nil
	switch p := v.Published; {
	case p == nil:
	case !v.offeredToActor(a):
		v.Published = nil
	default:
		v.Published = &Published{At: p.At, ImageID: p.ImageID, Image: p.Image, VersionID: p.VersionID, Number: p.Number, toAllProjects: p.toAllProjects, projects: p.projects}
	}
	return v
}

func redactAuditEntry(a fleet.Actor, e fleet.AuditEntry) fleet.AuditEntry {
	if !policy.SeesAllProjects(a) {
		e.Address = ""
	}
	if !store.SeesHosts(a) {
		switch e.Action {
		case "vm.create":
			e.Detail, _, _ = strings.Cut(e.Detail, " on ")
		case "vm.disk.move", "vm.export": // the pool may not be published to the project
			e.Detail, _, _ = strings.Cut(e.Detail, " → pool ")
			e.Detail, _, _ = strings.Cut(e.Detail, " in pool ")
		case "vm.follow", "vm.alarm", "vm.place":
			e.Detail = ""
		}
	}
	return e
}

// pointers returns a pointer to each item.
func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// redactAll replaces each item by the result of shown, which redacts it for the actor.
func redactAll[T any](a fleet.Actor, items []T, shown func(fleet.Actor, T) T) []T {
	for i := range items {
		items[i] = shown(a, items[i])
	}
	return items
}
