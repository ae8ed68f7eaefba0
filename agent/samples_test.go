package agent

import (
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestRatesOfVMsFollowCounters(t *testing.T) {
	began := time.Now()
	vm := func(run int32, cpu time.Duration, read, reads int64) hypervisor.VMLoad {
		return hypervisor.VMLoad{
			Meter: wire.Meter{ID: "web", CPUNanos: int64(cpu), ReadBytes: read, MemoryBytes: 1 << 20}, Run: run, VCPUs: 2,
			Reads: reads, ReadNanos: reads * int64(2*time.Millisecond), GuestUsedBytes: -1,
		}
	}
	var m rateMeter
	for _, step := range []struct {
		name string
		at   time.Duration
		vm   hypervisor.VMLoad
		want map[string]float64 // negative: missing
	}{
		{"first", 0, vm(1, time.Second, 1000, 10), map[string]float64{"cpu.usage": -1, "disk.read": -1, "disk.readLatency": -1, "memory.resident": 1 << 20, "memory.guestUsed": -1}},
		{"later", 10 * time.Second, vm(1, 6*time.Second, 3000, 20), map[string]float64{"cpu.usage": 25, "disk.read": 200, "disk.readOperations": 1, "disk.readLatency": 0.002}},
		{"idle", 20 * time.Second, vm(1, 6*time.Second, 3000, 20), map[string]float64{"cpu.usage": 0, "disk.read": 0, "disk.readLatency": -1}},
		{"restarted", 30 * time.Second, vm(2, 60*time.Second, 9000, 90), map[string]float64{"cpu.usage": -1, "disk.read": -1, "memory.resident": 1 << 20}},
		{"counter reset", 40 * time.Second, vm(2, 61*time.Second, 100, 91), map[string]float64{"cpu.usage": 5, "disk.read": -1}},
	} {
		table := m.table(began.Add(step.at), []hypervisor.VMLoad{step.vm})
		for name, want := range step.want {
			got := table.Values[name][0]
			if missing := want < 0; missing != got.IsMissing() || !missing && (float64(got) < want*0.999 || float64(got) > want*1.001) {
				t.Errorf("%s: %s is %v, want %v", step.name, name, got, want)
			}
		}
	}
}

// A sample counts for the time since the last one. After a gap it counts for one interval, so that the gap stays visible.
func TestSampleCountsForItsInterval(t *testing.T) {
	began := time.Now()
	var m rateMeter
	for i, step := range []struct {
		at   time.Duration
		want float64
	}{{0, 10}, {10 * time.Second, 10}, {21 * time.Second, 11}, {10 * time.Minute, 10}} {
		if got := m.sinceLastSample(began.Add(step.at), 10*time.Second); got != step.want {
			t.Errorf("sample %d counts for %v s, want %v", i, got, step.want)
		}
	}
}

func TestPoolSamplesListActivePools(t *testing.T) {
	table := poolTable([]wire.PoolReport{
		{ID: "p1", Status: fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 100, AvailableBytes: 30, WriteMicros: 500, Volumes: []fleet.Volume{{CapacityBytes: 80}, {CapacityBytes: 90}}}},
		{ID: "p2", Status: fleet.PoolStatus{State: fleet.PoolStalled, CapacityBytes: 100}},
		{Name: "discovered", Status: fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 100}},
	})
	if len(table.IDs) != 1 || table.Values["space.used"][0] != 70 || table.Values["space.allocated"][0] != 170 || table.Values["latency.write"][0] != 0.0005 || !table.Values["latency.read"][0].IsMissing() {
		t.Errorf("%+v", table)
	}
}
