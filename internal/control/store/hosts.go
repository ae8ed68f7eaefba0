package store

import (
	"time"

	"quantix/db"
	"quantix/internal/fleet"
)

// HostView returns the view of a host row at time now. cluster is the host's cluster, seen the time of the agent's last
// contact, and looked the time of its last inventory.
func HostView(r db.Host, cluster db.Cluster, seen, looked *fleet.ReportTime, conflict string, now time.Time) fleet.HostView {
	h := fleet.Host{
		ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, Status: r.Status, SeenAt: seen, InventoryAt: looked, Conflict: conflict, Maintenance: r.Maintenance, HasBMC: r.HasBmc, CreatedAt: r.CreatedAt,
	}
	v := fleet.HostView{Host: h, Phase: h.Phase(now), Lifecycle: h.Lifecycle(now), ClusterID: cluster.ID, ClusterName: cluster.Name, Labels: h.EffectiveLabels(), ReportInterval: h.EffectiveReportInterval()}
	if h.Status != nil {
		v.Capacity = HostCapacity(h.Spec, cluster.Spec, int64(h.Status.Inventory.CPU.Threads), h.Status.Inventory.MemoryBytes)
		v.BaselineGap = h.Status.Inventory.GapOf(cluster.Spec.CPUModel)
	}
	return v
}

// HostCapacity returns what a host with this spec, in a cluster with this spec, can allocate.
func HostCapacity(host fleet.HostSpec, cluster fleet.ClusterSpec, threads, memoryBytes int64) fleet.HostCapacity {
	return host.Capacity(int(threads), memoryBytes>>20, cluster.Overcommit)
}

// ClusterFromRow returns a cluster row as a fleet type.
func ClusterFromRow(r db.Cluster) fleet.Cluster {
	return fleet.Cluster{ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt}
}

// AlarmRuleFromRow returns the alarm rule of a row.
func AlarmRuleFromRow(r db.AlarmRule) fleet.AlarmRule {
	return fleet.AlarmRule{ID: r.ID, Name: r.Name, Builtin: r.Builtin, Spec: r.Spec, Generation: r.Generation, CreatedAt: r.CreatedAt}
}

// HostViewFromRow works like HostView and adds the resources used by the host's VMs.
func HostViewFromRow(r db.GetHostRow) fleet.HostView {
	v := HostView(r.Host, r.Cluster, fleet.NewReportTime(r.SeenAt, r.FreshFor), fleet.NewReportTime(r.LookedAt, r.FreshFor), r.Conflict, r.Now)
	v.VMs, v.Deleting, v.CommittedCPUs, v.CommittedMiB, v.Load = int(r.Vms), int(r.Leaving), int(r.Cpus), r.MemoryMib, r.Load
	v.DiscoveredVMs, v.DiscoveredCPUs, v.DiscoveredMiB = int(r.DiscoveredVms), r.DiscoveredCpus, r.DiscoveredMib
	return v
}

// HostPhase computes fleet.Host.Phase from columns of the host, without the host's complete status. connected is nil if
// the host has never reported.
func HostPhase(seen, looked *fleet.ReportTime, connected *bool, conflict string, now time.Time) fleet.HostPhase {
	h := fleet.Host{SeenAt: seen, InventoryAt: looked, Conflict: conflict}
	if connected != nil {
		h.Status = &fleet.HostStatus{Connected: *connected}
	}
	return h.Phase(now)
}

// ConnectedIfReported returns connected, whether the agent reaches its hypervisor, or nil if the host has never
// reported.
func ConnectedIfReported(ever, connected bool) *bool {
	if !ever {
		return nil
	}
	return &connected
}
