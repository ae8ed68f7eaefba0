package metrics

import (
	"context"
	"slices"
	"time"

	"quantix/internal/control/store"
	"quantix/internal/exposition"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/timeseries"
)

// ExposeFleet returns the newest values of all VMs, hosts and pools, for actors who see hosts, who also see the VMs of
// all projects. Objects on hosts that are offline, and VMs that are off, have no values. The database is no longer used
// when it returns.
func (m *Metrics) ExposeFleet(ctx context.Context, a fleet.Actor) (exposition.Fleet, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return exposition.Fleet{}, err
	}
	out, err := m.exposeFleet(ctx)
	return out, store.UserError(err)
}

func (m *Metrics) exposeFleet(ctx context.Context) (out exposition.Fleet, err error) {
	q := m.store.Queries
	hosts, err := q.ExposedHosts(ctx)
	if err != nil {
		return out, err
	}
	projects, err := q.ExposedProjects(ctx)
	if err != nil {
		return out, err
	}
	vms, err := q.ExposedVMs(ctx)
	if err != nil {
		return out, err
	}
	pools, err := q.ExposedPools(ctx)
	if err != nil {
		return out, err
	}
	hostInfo := exposition.Group{Name: "quantix_host_info", Help: "A host; the value is always 1."}
	online := exposition.Group{Name: "quantix_host_online", Help: "1 while the host's agent reports."}
	maintenance := exposition.Group{Name: "quantix_host_maintenance", Help: "1 while the host is in maintenance or enters it."}
	vmInfo := exposition.Group{Name: "quantix_vm_info", Help: "A VM; the value is always 1."}
	running := exposition.Group{Name: "quantix_vm_running", Help: "1 while the VM runs. VMs on hosts that are offline have no value."}
	vcpus := exposition.Group{Name: "quantix_vm_vcpus", Help: "vCPUs that the VM is configured with."}
	poolInfo := exposition.Group{Name: "quantix_pool_info", Help: "A storage pool; the value is always 1."}

	type hostName struct {
		name   string
		online bool
	}
	names := make(map[fleet.HostID]hostName, len(hosts))
	out.Hosts = exposition.NewTable(fleet.TypeHost, len(hosts))
	hostRows := make(map[string]int, len(hosts))
	for _, h := range hosts {
		names[h.ID] = hostName{h.Name, h.Online}
		labels := exposition.Labels("host", h.Name)
		hostRows[string(h.ID)] = out.Hosts.Add(labels)
		hostInfo.Add(1, exposition.Labels("host", h.Name, "id", string(h.ID), "cluster", h.Cluster, "agent_version", h.AgentVersion))
		online.AddBool(h.Online, labels)
		maintenance.AddBool(h.InMaintenance, labels)
	}
	projectNames := make(map[fleet.ProjectID]string, len(projects))
	for _, p := range projects {
		projectNames[p.ID] = p.Name
	}
	type vmRow struct {
		host fleet.HostID
		row  int
	}
	out.VMs = exposition.NewTable(fleet.TypeVM, len(vms))
	vmRows := make(map[string]vmRow, len(vms))
	for _, v := range vms {
		on := names[v.HostID]
		labels := exposition.Labels("vm", string(v.ID), "name", v.Name, "project", projectNames[v.ProjectID], "host", on.name)
		vmRows[string(v.ID)] = vmRow{v.HostID, out.VMs.Add(labels)}
		vmInfo.Add(1, labels)
		vcpus.Add(float64(v.Cpus), labels)
		if on.online {
			running.AddBool(v.Power == string(fleet.Running), labels)
		}
	}
	out.Pools = exposition.NewTable(fleet.TypePool, len(pools))
	poolNames := make(map[string]string, len(pools))
	for _, p := range pools {
		poolNames[string(p.ID)] = p.Name
		shared := "false"
		if p.Shared {
			shared = "true"
		}
		poolInfo.Add(1, exposition.Labels("pool", p.Name, "id", string(p.ID), "kind", p.Kind, "shared", shared))
	}
	err = m.newest.Read(ctx, q, time.Now(), func(host fleet.HostID, o timeseries.Object, numbers []int, values []float64) {
		on, known := names[host]
		if !known { // the host was added after the list was read
			return
		}
		switch o.Type {
		case fleet.TypeHost:
			if row, ok := hostRows[o.ID]; ok {
				out.Hosts.Set(row, numbers, values)
			}
		case fleet.TypeVM:
			if v, ok := vmRows[o.ID]; ok && v.host == host { // otherwise it was deleted, or it moved
				out.VMs.Set(v.row, numbers, values)
			}
		case fleet.TypePool:
			if pool, ok := poolNames[o.ID]; ok {
				out.Pools.Set(out.Pools.Add(exposition.Labels("pool", pool, "host", on.name)), numbers, values)
			}
		}
	})
	if err != nil {
		return out, err
	}
	counts, err := m.exposeCounts(ctx)
	out.Groups = slices.Concat(counts, []exposition.Group{hostInfo, online, maintenance, vmInfo, running, vcpus, poolInfo})
	return out, err
}

// exposeCounts returns the numbers of open alarms and tasks.
func (m *Metrics) exposeCounts(ctx context.Context) ([]exposition.Group, error) {
	alarms := exposition.Group{Name: "quantix_alarms", Help: "Open alarms by severity, without silenced ones."}
	tasks := exposition.Group{Name: "quantix_tasks", Help: "Queued and running tasks, by state."}
	open, err := m.store.CountOpenAlarms(ctx)
	if err != nil {
		return nil, err
	}
	bySeverity := map[fleet.AlarmSeverity]int64{}
	for _, r := range open {
		bySeverity[r.Severity] = r.N
	}
	for _, s := range fleet.AlarmSeverities {
		alarms.Add(float64(bySeverity[fleet.AlarmSeverity(s.Value)]), exposition.Labels("severity", s.Value))
	}
	pending, err := m.store.CountOpenTasks(ctx)
	if err != nil {
		return nil, err
	}
	byState := map[fleet.JobState]int64{}
	for _, r := range pending {
		byState[r.State] = r.N
	}
	for _, s := range []fleet.JobState{fleet.JobQueued, fleet.JobRunning} {
		tasks.Add(float64(byState[s]), exposition.Labels("state", string(s)))
	}
	return []exposition.Group{alarms, tasks}, nil
}
