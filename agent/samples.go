package agent

import (
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/wire"
)

// rateMeter computes the VMs' rates from their counters. It is not safe for concurrent use.
type rateMeter struct {
	at         time.Time // of previous
	previous   map[fleet.VMID]hypervisor.VMLoad
	lastSample time.Time
}

// sinceLastSample returns the seconds that the samples of now count for: the time since the last ones, or the interval of
// reports if there were none for longer than that, for which there are no values.
func (m *rateMeter) sinceLastSample(now time.Time, interval time.Duration) float64 {
	since := now.Sub(m.lastSample)
	if m.lastSample.IsZero() || since > 5*interval/2 {
		since = interval
	}
	m.lastSample = now
	return since.Seconds()
}

// table returns the VMs' values. A VM that was started since the last call has no rates yet, so that the reset of its
// counters is no peak.
func (m *rateMeter) table(now time.Time, vms []hypervisor.VMLoad) metric.Table {
	seconds := now.Sub(m.at).Seconds()
	t := metric.Table{Values: map[string][]fleet.MetricValue{}}
	seen := make(map[fleet.VMID]hypervisor.VMLoad, len(vms))
	for i, v := range vms {
		before, known := m.previous[v.ID]
		known = known && before.Run == v.Run && seconds > 0
		seen[v.ID], t.IDs = v, append(t.IDs, string(v.ID))
		set := func(name string, value fleet.MetricValue) {
			if t.Values[name] == nil {
				t.Values[name] = make([]fleet.MetricValue, len(vms))
			}
			t.Values[name][i] = value
		}
		quotient := func(name string, growth, by float64) {
			if !known || growth < 0 || by <= 0 {
				set(name, fleet.NoMetricValue())
				return
			}
			set(name, fleet.MetricValue(growth/by))
		}
		quotient("cpu.usage", float64(v.CPUNanos-before.CPUNanos)/1e7, seconds*float64(v.VCPUs))
		quotient("cpu.steal", float64(v.StealNanos-before.StealNanos)/1e7, seconds*float64(v.VCPUs))
		set("memory.assigned", fleet.MetricValue(v.AssignedBytes))
		set("memory.resident", fleet.MetricValue(v.MemoryBytes))
		if set("memory.guestUsed", fleet.MetricValue(v.GuestUsedBytes)); v.GuestUsedBytes < 0 {
			set("memory.guestUsed", fleet.NoMetricValue())
		}
		quotient("disk.read", float64(v.ReadBytes-before.ReadBytes), seconds)
		quotient("disk.write", float64(v.WriteBytes-before.WriteBytes), seconds)
		quotient("disk.readOperations", float64(v.Reads-before.Reads), seconds)
		quotient("disk.writeOperations", float64(v.Writes-before.Writes), seconds)
		quotient("disk.readLatency", float64(v.ReadNanos-before.ReadNanos)/1e9, float64(v.Reads-before.Reads))
		quotient("disk.writeLatency", float64(v.WriteNanos-before.WriteNanos)/1e9, float64(v.Writes-before.Writes))
		quotient("network.receive", float64(v.ReceiveBytes-before.ReceiveBytes), seconds)
		quotient("network.send", float64(v.SendBytes-before.SendBytes), seconds)
		quotient("network.drops", float64(v.Drops-before.Drops), seconds)
	}
	m.at, m.previous = now, seen
	return t
}

// hostTable returns the host's values.
func hostTable(values map[string]fleet.MetricValue) metric.Table {
	t := metric.Table{IDs: []string{""}, Values: make(map[string][]fleet.MetricValue, len(values))}
	for name, v := range values {
		t.Values[name] = []fleet.MetricValue{v}
	}
	return t
}

// poolTable returns the values of the host's pools as of the newest state.
func poolTable(pools []wire.PoolReport) metric.Table {
	var t metric.Table
	var used, capacity, allocated, read, write []fleet.MetricValue
	latency := func(micros int64) fleet.MetricValue {
		if micros == 0 {
			return fleet.NoMetricValue()
		}
		return fleet.MetricValue(micros) / 1e6
	}
	for _, p := range pools {
		if p.ID == "" || p.Status.State != fleet.PoolActive {
			continue
		}
		t.IDs = append(t.IDs, string(p.ID))
		used = append(used, fleet.MetricValue(p.Status.CapacityBytes-p.Status.AvailableBytes))
		capacity = append(capacity, fleet.MetricValue(p.Status.CapacityBytes))
		sum := int64(0)
		for _, v := range p.Status.Volumes {
			sum += v.CapacityBytes
		}
		allocated = append(allocated, fleet.MetricValue(sum))
		read, write = append(read, latency(p.Status.ReadMicros)), append(write, latency(p.Status.WriteMicros))
	}
	t.Values = map[string][]fleet.MetricValue{"space.used": used, "space.capacity": capacity, "space.allocated": allocated, "latency.read": read, "latency.write": write}
	return t
}
