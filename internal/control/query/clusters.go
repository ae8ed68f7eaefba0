package query

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var clustersByName = sortOrder[fleet.ClusterView]{[]sortColumn{textColumn("cl.name"), textColumn("cl.id")}, func(v fleet.ClusterView) []string {
	return []string{v.Name, string(v.ID)}
}}

const clusterHostsSQL = "(SELECT count(*) FROM hosts h WHERE h.cluster_id = cl.id)"

// clusterFilter are the conditions of fleet.ClusterKeys.
var clusterFilter = listFilter{
	"name":        lowerTextCondition("cl.name"),
	"hosts":       numberCondition(clusterHostsSQL, 1),
	"baseline":    containsTextCondition("cl.spec->>'cpuModel'"),
	"placement":   exactTextCondition("COALESCE(cl.spec->>'placement', 'spread')"),
	"description": containsTextCondition("cl.spec->>'description'"),
	"created":     dayCondition("cl.created_at"),
	"uuid":        lowerTextCondition("cl.id"),
}

var clusterList = list[fleet.ClusterView]{
	name: "cluster", see: policy.StorageSee, sort: "name", keys: fleet.ClusterKeys, filter: clusterFilter, id: "cl.id", read: (*Queries).readClusters,
	orders: sortOrders[fleet.ClusterView]{
		"name":    clustersByName,
		"created": clustersByName.withFirstColumn(timeColumn("cl.created_at"), func(v fleet.ClusterView) string { return formatTime(v.CreatedAt) }),
		"hosts":   clustersByName.withFirstColumn(int64Column(clusterHostsSQL), func(v fleet.ClusterView) string { return strconv.Itoa(v.Hosts) }),
	},
}

// clusterListFor returns clusterList, for actors who cannot see hosts without the filter key and the sort order by
// number of hosts.
func clusterListFor(a fleet.Actor) list[fleet.ClusterView] {
	l := clusterList
	if !store.SeesHosts(a) {
		l.keys = slices.DeleteFunc(slices.Clone(l.keys), func(k fleet.FilterKey) bool { return k.Key == "hosts" })
		l.orders = maps.Clone(l.orders)
		delete(l.orders, "hosts")
	}
	return l
}

// ListClusters returns one page of clusters. An actor who cannot see hosts gets no numbers of hosts. Sorts: name,
// created, hosts.
func (b *Queries) ListClusters(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.ClusterView], error) {
	return clusterListFor(a).readPage(ctx, b, a, q)
}

// AllClusters returns all clusters by name. Their number is limited: see fleet.MaxClusters.
func (b *Queries) AllClusters(ctx context.Context, a fleet.Actor) ([]fleet.Cluster, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.AllClusters(ctx)
	out := make([]fleet.Cluster, len(rows))
	for i, r := range rows {
		out[i] = store.ClusterFromRow(r)
	}
	return out, store.UserError(err)
}

// ClusterBrief returns one cluster without its Usage.
func (b *Queries) ClusterBrief(ctx context.Context, a fleet.Actor, id fleet.ClusterID) (fleet.ClusterView, error) {
	return clusterList.readOne(ctx, b, a, string(id))
}

// GetCluster returns one cluster, for an actor who sees hosts with its Usage. The VMs come from the counters.
func (b *Queries) GetCluster(ctx context.Context, a fleet.Actor, id fleet.ClusterID) (fleet.ClusterView, error) {
	v, err := b.ClusterBrief(ctx, a, id)
	if err != nil || !store.SeesHosts(a) {
		return v, err
	}
	v.Usage, err = b.clusterUsage(ctx, v.Cluster)
	return v, err
}

func (b *Queries) readClusters(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]fleet.ClusterView, error) {
	seesHosts := store.SeesHosts(a)
	return collectRows(ctx, b, "SELECT cl.id, cl.name, cl.spec, cl.generation, cl.created_at, "+clusterHostsSQL+" FROM clusters cl"+s.whereClause()+tail, s,
		func(row pgx.CollectableRow) (v fleet.ClusterView, err error) {
			err = row.Scan(&v.ID, &v.Name, &v.Spec, &v.Generation, &v.CreatedAt, &v.Hosts)
			if !seesHosts {
				v.Hosts, v.Spec.Description = 0, ""
			}
			return v, err
		})
}

// clusterHostGroup are hosts of a cluster with the same phase, settings and hardware.
type clusterHostGroup struct {
	phase                fleet.HostPhase
	spec                 fleet.HostSpec // only Overcommit, Reserved, Schedulable and Roles.Compute
	threads, memoryBytes int64
	ids                  []fleet.HostID
}

// clusterUsage adds up the hosts of a cluster. Allocatable counts only hosts with the role compute.
func (b *Queries) clusterUsage(ctx context.Context, cluster fleet.Cluster) (*fleet.ClusterUsage, error) {
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("h.cluster_id = " + s.addKeyArg(string(cluster.ID)))
	groups, err := collectRows(ctx, b, "SELECT "+hostPhaseSQL+`, COALESCE(h.spec->'overcommit', '{}'), COALESCE(h.spec->'reserved', '{}'), COALESCE(h.spec->>'schedulable', 'true') = 'true',
		COALESCE(h.spec->'roles'->>'compute', 'true') = 'true', h.threads, h.memory_bytes, array_agg(h.id)
		FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id`+s.whereClause()+" GROUP BY 1, 2, 3, 4, 5, 6, 7", &s, func(row pgx.CollectableRow) (g clusterHostGroup, err error) {
		err = row.Scan(&g.phase, &g.spec.Overcommit, &g.spec.Reserved, &g.spec.Schedulable, &g.spec.Roles.Compute, &g.threads, &g.memoryBytes, &g.ids)
		return g, err
	})
	if err != nil {
		return nil, err
	}
	u := &fleet.ClusterUsage{HostStates: map[fleet.HostPhase]int{}}
	for _, g := range groups {
		n := int64(len(g.ids))
		u.HostStates[g.phase] += len(g.ids)
		if !g.spec.Schedulable {
			u.Cordoned += len(g.ids)
		}
		c := store.HostCapacity(g.spec, cluster.Spec, g.threads, g.memoryBytes)
		u.Threads += n * int64(c.Threads)
		u.MemoryMiB += n * c.MemoryMiB
		if g.spec.Roles.Compute {
			u.AllocatableCPUs += n * c.AllocatableCPUs
			u.AllocatableMemoryMiB += n * c.AllocatableMemoryMiB
		}
		for _, id := range g.ids {
			vms := sums.hosts[id]
			u.VMs += vms.vms
			u.CommittedCPUs += int64(vms.cpus)
			u.CommittedMiB += vms.memoryMiB
			found := sums.discovered[id]
			u.DiscoveredVMs += int(found.Vms)
			u.DiscoveredCPUs += found.Cpus
			u.DiscoveredMiB += found.Mib
		}
	}
	if cluster.Spec.CPUModel == "" {
		return u, nil
	}
	below, err := b.store.HostsBelowModel(ctx, db.HostsBelowModelParams{Model: cluster.Spec.CPUModel, Cluster: string(cluster.ID), Ids: []string{}, Most: fleet.MaxBaselineGaps})
	for _, r := range below {
		u.BelowBaseline = int(r.Hosts)
		u.BaselineGaps = append(u.BaselineGaps, fleet.HostCPUGap{HostID: r.ID, HostName: r.Name, CPUModelGap: fleet.CPUModelGap{Model: cluster.Spec.CPUModel, Missing: r.Missing}})
	}
	return u, store.UserError(err)
}
