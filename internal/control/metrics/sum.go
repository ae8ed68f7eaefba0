package metrics

import (
	"context"
	"crypto/sha256"
	"math"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

// FleetSums is the object with the sums over all hosts.
var FleetSums = timeseries.Object{Type: fleet.TypeCluster, ID: "all"}

// SumSource is the source of the samples of sums, in the place of a host.
const SumSource = "all"

// sumInterval is the time between two samples of sums. A pass that follows another one within less than minSumInterval
// adds none: each portal runs the pass.
const (
	sumInterval    = fleet.DefaultReportInterval * time.Second
	minSumInterval = sumInterval * 4 / 5
)

// summer remembers the layout of sums between two passes.
type summer struct {
	mu  sync.Mutex
	own usedLayout
}

// SumMetrics stores the sums of the newest values of online hosts, for the fleet and for each cluster. A sum counts only
// hosts that have reported; their number is a metric of its own.
func (m *Metrics) SumMetrics(ctx context.Context, a fleet.Actor) error {
	m.sums.mu.Lock()
	defer m.sums.mu.Unlock()
	err := m.store.RunPass(ctx, a, "sum metrics", func(q *db.Queries) error {
		last, err := q.NewestSumTime(ctx, SumSource)
		age := last.Now.Sub(last.Newest)
		if err != nil || age < minSumInterval {
			return err
		}
		rows, err := q.NewestHostSamples(ctx, db.NewestHostSamplesParams{MostBytes: timeseries.MaxHostBytes, FromTime: last.Now.Add(-newestAge)})
		if err != nil || len(rows) == 0 {
			return err
		}
		layouts, err := m.newest.layouts.read(ctx, q, func(yield func(int64) bool) {
			for _, r := range rows {
				if r.LayoutID != 0 && !yield(r.LayoutID) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		layout, row := timeseries.NewClusterRow(addHosts(rows, layouts))
		id, err := m.sums.layoutID(ctx, q, layout)
		if err != nil {
			return err
		}
		return q.AddMetricSamples(ctx, db.AddMetricSamplesParams{
			HostIds: []string{SumSource}, Layouts: []int64{id}, Samples: [][]byte{row}, Seconds: []float32{float32(min(age, 2*sumInterval).Seconds())},
		})
	})
	if err != nil {
		m.sums.own = usedLayout{} // its ID may be unknown to the database
	}
	return err
}

// sum adds up the values of hosts. Capacities are those of the hosts with a used value.
type sum struct {
	cpuUsed, cpuCapacity, memoryUsed, memoryCapacity, diskRead, diskWrite, receive, send float64

	cpu, memory, disk, network bool // at least one host has values
	reporting, hosts           int
}

// hostNumbers are the numbers of the metrics of hosts, by name.
var hostNumbers = func() map[string]int {
	out := map[string]int{}
	for _, m := range fleet.HostMetrics {
		out[m.Name] = m.Number
	}
	return out
}()

// Limits of a host's values in sums: more is more than any machine has, and would hide the values of all others.
const (
	maxSummedThreads = 1 << 14
	maxSummedMemory  = 1 << 50 // bytes
	maxSummedRate    = 1 << 42 // bytes/s
)

// addHost adds a host's values by metric number.
func (s *sum) addHost(threads int64, values map[int]float64) {
	s.reporting++
	of := func(name string) (float64, bool) {
		v, known := values[hostNumbers[name]]
		return v, known && !math.IsNaN(v)
	}
	user, ok := of("cpu.user")
	if ok && threads > 0 && threads <= maxSummedThreads {
		system, _ := of("cpu.system")
		guest, _ := of("cpu.guest")
		s.cpu = true
		s.cpuUsed += min(user+system+guest, 100) / 100 * float64(threads)
		s.cpuCapacity += float64(threads)
	}
	used, ok := of("memory.used")
	if total, known := of("memory.total"); ok && known && total <= maxSummedMemory {
		s.memory = true
		s.memoryUsed += min(used, total)
		s.memoryCapacity += total
	}
	for name, to := range map[string]*float64{"disk.read": &s.diskRead, "disk.write": &s.diskWrite} {
		if v, known := of(name); known && v <= maxSummedRate {
			s.disk = true
			*to += v
		}
	}
	for name, to := range map[string]*float64{"network.receive": &s.receive, "network.send": &s.send} {
		if v, known := of(name); known && v <= maxSummedRate {
			s.network = true
			*to += v
		}
	}
}

// values returns the values of fleet.ClusterMetrics by name.
func (s *sum) values() map[string]float64 {
	out := map[string]float64{"hosts.reporting": float64(s.reporting), "hosts.total": float64(s.hosts)}
	if s.cpu {
		out["cpu.used"], out["cpu.capacity"], out["cpu.usage"] = s.cpuUsed, s.cpuCapacity, 100*s.cpuUsed/s.cpuCapacity
	}
	if s.memory && s.memoryCapacity > 0 {
		out["memory.used"], out["memory.capacity"], out["memory.usage"] = s.memoryUsed, s.memoryCapacity, 100*s.memoryUsed/s.memoryCapacity
	}
	if s.disk {
		out["disk.read"], out["disk.write"] = s.diskRead, s.diskWrite
	}
	if s.network {
		out["network.receive"], out["network.send"] = s.receive, s.send
	}
	return out
}

// addHosts returns the sums over the fleet and over each cluster.
func addHosts(rows []db.NewestHostSamplesRow, layouts map[int64]timeseries.Layout) metric.Table {
	all := &sum{}
	byCluster, ids := map[string]*sum{FleetSums.ID: all}, []string{FleetSums.ID}
	for _, r := range rows {
		id := string(r.ClusterID)
		of := byCluster[id]
		if of == nil {
			of = &sum{}
			byCluster[id], ids = of, append(ids, id)
		}
		all.hosts++
		of.hosts++
		// After the host's values, the row is cut off.
		_ = layouts[r.LayoutID].OfHost().Read(r.Start, func(timeseries.Object) bool { return true }, func(_ timeseries.Object, numbers []int, values []float64) {
			found := make(map[int]float64, len(numbers))
			for i, n := range numbers {
				found[n] = values[i]
			}
			all.addHost(r.Threads, found)
			of.addHost(r.Threads, found)
		})
	}
	out := metric.Table{IDs: ids, Values: map[string][]fleet.MetricValue{}}
	for _, id := range ids {
		values := byCluster[id].values()
		for _, m := range fleet.ClusterMetrics {
			v, known := values[m.Name]
			if !known {
				v = math.NaN()
			}
			out.Values[m.Name] = append(out.Values[m.Name], fleet.MetricValue(v))
		}
	}
	return out
}

// layoutID returns the ID of the sums' layout, which changes only with the clusters.
func (s *summer) layoutID(ctx context.Context, q *db.Queries, layout timeseries.Layout) (int64, error) {
	text, hash, err := layout.Text()
	if err != nil {
		return 0, err
	}
	if s.own.hash == hash && s.own.hash != [sha256.Size]byte{} && time.Since(s.own.at) < layoutUse {
		return s.own.id, nil
	}
	id, err := q.UseMetricLayout(ctx, db.UseMetricLayoutParams{HostID: SumSource, Hash: hash[:], Layout: string(text)})
	if err == nil {
		s.own = usedLayout{hash, id, time.Now()}
	}
	return id, err
}
