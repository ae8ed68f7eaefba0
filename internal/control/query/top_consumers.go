package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/metrics"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/timeseries"
	"quantix/internal/usage"
)

// topResource is a resource with a list of top consumers. A value is the sum of the metrics.
type topResource struct {
	title     string
	unit      fleet.MetricUnit
	vms, host []string // names of metrics
}

var topResources = [...]topResource{
	{"CPU", fleet.UnitPercent, []string{"cpu.usage"}, []string{"cpu.user", "cpu.system", "cpu.guest"}},
	{"Memory", fleet.UnitBytes, []string{"memory.resident"}, []string{"memory.used"}},
	{"Disk", fleet.UnitBytesPerSecond, []string{"disk.read", "disk.write"}, []string{"disk.read", "disk.write"}},
	{"Network", fleet.UnitBytesPerSecond, []string{"network.receive", "network.send"}, []string{"network.receive", "network.send"}},
}

// topUsageKey is the key type of the cache Queries.topUsage, which has only one entry.
type topUsageKey struct{}

// topUsage has the highest newest values of the fleet.
type topUsage struct {
	objects  int // VMs that were read
	projects map[fleet.ProjectID]*topLists
	hosts    topLists
}

// topLists has for each resource its top consumers, highest first. The consumers have no names.
type topLists [len(topResources)][]usage.Consumer

// add adds the consumer if its value is among the highest.
func (l *topLists) add(resource int, c usage.Consumer) {
	if math.IsNaN(c.Value) || c.Value <= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(l[resource], c, func(x, y usage.Consumer) int {
		return cmp.Or(cmp.Compare(y.Value, x.Value), cmp.Compare(x.ID, y.ID))
	})
	if at < usage.MaxTopConsumers {
		l[resource] = slices.Insert(l[resource], at, c)
		l[resource] = l[resource][:min(len(l[resource]), usage.MaxTopConsumers)]
	}
}

// TopConsumers returns the VMs that the actor may see, and for people who see hosts the hosts, with the highest values in
// the newest samples of online hosts. The values of large fleets are some seconds old.
func (b *Queries) TopConsumers(ctx context.Context, a fleet.Actor) ([]usage.TopConsumers, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	newest, err := b.topUsage.getTotal(ctx, topUsageKey{})
	if err != nil {
		return nil, err
	}
	var vms, hosts topLists
	for project, lists := range newest.projects {
		if policy.SeesAllProjects(a) || policy.May(a, policy.VMSee, project) {
			for i, all := range lists {
				for _, c := range all {
					vms.add(i, c)
				}
			}
		}
	}
	if policy.May(a, policy.InfraSee, "") {
		hosts = newest.hosts
	}
	names, err := b.consumerNames(ctx, a, vms, hosts)
	if err != nil {
		return nil, err
	}
	named := func(all []usage.Consumer) (out []usage.Consumer) {
		for _, c := range all {
			if c.Name = names[c.ID]; c.Name != "" { // otherwise it was deleted or moved to another project
				out = append(out, c)
			}
		}
		return out
	}
	out := make([]usage.TopConsumers, len(topResources))
	for i, r := range topResources {
		out[i] = usage.TopConsumers{Title: r.title, Unit: r.unit, VMs: named(vms[i]), Hosts: named(hosts[i])}
	}
	return out, nil
}

// consumerNames returns the names of the VMs that the actor may see, and of the hosts.
func (b *Queries) consumerNames(ctx context.Context, a fleet.Actor, vms, hosts topLists) (map[string]string, error) {
	ids := func(lists topLists) []string {
		out := []string{}
		for _, all := range lists {
			for _, c := range all {
				out = append(out, c.ID)
			}
		}
		return out
	}
	names := map[string]string{}
	found, err := b.store.NamesOfVMs(ctx, db.NamesOfVMsParams{Ids: ids(vms), AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return nil, store.UserError(err)
	}
	for _, v := range found {
		names[string(v.ID)] = v.Name
	}
	if of := ids(hosts); len(of) > 0 {
		found, err := b.store.NamesOfHosts(ctx, of)
		if err != nil {
			return nil, store.UserError(err)
		}
		for _, h := range found {
			names[string(h.ID)] = h.Name
		}
	}
	return names, nil
}

// computeTopUsage computes the highest values from the newest samples. Pages read them from the cache Queries.topUsage.
func (b *Queries) computeTopUsage(ctx context.Context, _ []topUsageKey) (map[topUsageKey]topUsage, error) {
	rows, err := b.store.ProjectsOfVMs(ctx)
	if err != nil {
		return nil, store.UserError(err)
	}
	vms := make(map[string]db.ProjectsOfVMsRow, len(rows))
	for _, v := range rows {
		vms[string(v.ID)] = v
	}
	out := topUsage{objects: len(rows), projects: map[fleet.ProjectID]*topLists{}}
	err = b.newestMetrics.Read(ctx, b.store.Queries, time.Now(), func(host fleet.HostID, o timeseries.Object, numbers []int, values []float64) {
		lists, of := &out.hosts, hostResources
		switch o.Type {
		case fleet.TypeVM:
			v, known := vms[o.ID]
			if !known || v.HostID != host { // it was deleted, or it moved
				return
			}
			if out.projects[v.ProjectID] == nil {
				out.projects[v.ProjectID] = new(topLists)
			}
			lists, of = out.projects[v.ProjectID], vmResources
		case fleet.TypeHost:
		default:
			return
		}
		var sums [len(topResources)]float64
		for i, n := range numbers {
			if resource, counts := of[n]; counts && !math.IsNaN(values[i]) {
				sums[resource] += values[i]
			}
		}
		for resource, sum := range sums {
			lists.add(resource, usage.Consumer{ID: o.ID, Value: sum})
		}
	})
	return map[topUsageKey]topUsage{{}: out}, store.UserError(err)
}

// vmResources and hostResources are the indexes in topResources by metric number.
var (
	vmResources   = resourcesByNumber(fleet.VMMetrics, func(r topResource) []string { return r.vms })
	hostResources = resourcesByNumber(fleet.HostMetrics, func(r topResource) []string { return r.host })
)

func resourcesByNumber(all []fleet.MetricInfo, names func(topResource) []string) map[int]int {
	out := map[int]int{}
	for i, r := range topResources {
		for _, m := range all {
			if slices.Contains(names(r), m.Name) {
				out[m.Number] = i
			}
		}
	}
	return out
}

// MaxRecent limits the VMs or hosts whose use RecentVMUse and RecentHostUse read.
const MaxRecent = 200

// RecentVMUse returns the use of the first MaxRecent of the VMs that the actor may see in the last hour. A VM without
// values is missing.
func (b *Queries) RecentVMUse(ctx context.Context, a fleet.Actor, ids []fleet.VMID) (map[fleet.VMID]*usage.Recent, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.HostsOfVMs(ctx, db.HostsOfVMsParams{Ids: store.ToStrings(ids[:min(len(ids), MaxRecent)]), AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return nil, store.UserError(err)
	}
	wanted, hosts := map[string]bool{}, []string{}
	for _, r := range rows {
		wanted[string(r.ID)] = true
		if !slices.Contains(hosts, r.HostID) {
			hosts = append(hosts, r.HostID)
		}
	}
	return recentUse[fleet.VMID](ctx, b, hosts, false, func(o timeseries.Object) bool { return o.Type == fleet.TypeVM && wanted[o.ID] },
		func(value func(name string) float64) (cpu, memory float64) {
			used := value("memory.guestUsed")
			if math.IsNaN(used) {
				used = value("memory.resident")
			}
			return value("cpu.usage"), share(used, value("memory.assigned"))
		})
}

// RecentHostUse returns the use of the first MaxRecent of the hosts in the last hour. A host without values is missing.
func (b *Queries) RecentHostUse(ctx context.Context, a fleet.Actor, ids []fleet.HostID) (map[fleet.HostID]*usage.Recent, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	return recentUse[fleet.HostID](ctx, b, store.ToStrings(ids[:min(len(ids), MaxRecent)]), true, func(o timeseries.Object) bool { return o.Type == fleet.TypeHost },
		func(value func(name string) float64) (cpu, memory float64) {
			return min(100, value("cpu.user")+value("cpu.system")+value("cpu.guest")), share(value("memory.used"), value("memory.total"))
		})
}

// recentUse returns the use of the wanted objects on hosts. of returns the use from the values of metrics by name; NaN: no
// value.
func recentUse[ID ~string](ctx context.Context, b *Queries, hosts []string, onlyHosts bool, want func(timeseries.Object) bool, of func(func(name string) float64) (cpu, memory float64)) (map[ID]*usage.Recent, error) {
	out := map[ID]*usage.Recent{}
	if len(hosts) == 0 {
		return out, nil
	}
	err := metrics.ReadRecent(ctx, b.store.Queries, hosts, onlyHosts, time.Now(), want, func(slot int, o timeseries.Object, numbers []int, values []float64) {
		if out[ID(o.ID)] == nil {
			out[ID(o.ID)] = usage.NewRecent()
		}
		out[ID(o.ID)].CPU[slot], out[ID(o.ID)].Memory[slot] = of(func(name string) float64 {
			if i := slices.Index(numbers, numbersByName[o.Type][name]); i >= 0 {
				return values[i]
			}
			return math.NaN()
		})
	})
	return out, store.UserError(err)
}

// share returns a part in percent of a whole, at most 100; NaN if one of them is unknown.
func share(part, whole float64) float64 {
	if !(whole > 0) {
		return math.NaN()
	}
	return min(100, 100*part/whole)
}

// numbersByName are the numbers of the metrics of VMs and hosts.
var numbersByName = func() map[fleet.ResourceType]map[string]int {
	out := map[fleet.ResourceType]map[string]int{}
	for _, of := range []fleet.ResourceType{fleet.TypeVM, fleet.TypeHost} {
		out[of] = map[string]int{}
		for _, m := range fleet.MetricsOf(of) {
			out[of][m.Name] = m.Number
		}
	}
	return out
}()
