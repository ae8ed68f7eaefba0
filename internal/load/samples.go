package load

import (
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
)

// Sampler makes the metric values that a host's agent measures. A third of the VMs idle, half have a light load, and the
// others are busy. Their loads follow the time of day, drift over minutes, by 10, 20 and 40 %, and vary from sample to
// sample by 15 to 50 %. It is not safe for concurrent use.
type Sampler struct {
	vms   map[string]*workload
	pools map[string]*workload
	host  *workload
}

// NewSampler returns a Sampler of a host. Hosts with different names have different values.
func NewSampler(name string) *Sampler {
	return &Sampler{vms: map[string]*workload{}, pools: map[string]*workload{}, host: newWorkload(name)}
}

// SampledVM is a running VM of a sample.
type SampledVM struct {
	ID          string
	MemoryBytes int64
}

// Samples returns the values of the seconds until a time.
func (s *Sampler) Samples(until time.Time, seconds float64, vms []SampledVM, pools []string) metric.Samples {
	out := metric.Samples{Seconds: seconds, Host: newTable([]string{""}, fleet.HostMetrics)}
	ids, cpu := make([]string, len(vms)), 0.0
	for i, v := range vms {
		ids[i] = v.ID
	}
	out.VMs, out.Pools = newTable(ids, fleet.VMMetrics), newTable(pools, fleet.PoolMetrics)
	for i, v := range vms {
		w := s.vms[v.ID]
		if w == nil {
			w = newWorkload(v.ID)
			s.vms[v.ID] = w
		}
		w.advance(until, seconds)
		cpu += w.setVM(out.VMs.Values, i, float64(v.MemoryBytes))
	}
	for i, id := range pools {
		w := s.pools[id]
		if w == nil {
			w = newWorkload(id)
			s.pools[id] = w
		}
		w.advance(until, seconds)
		w.setPool(out.Pools.Values, i)
	}
	s.host.advance(until, seconds)
	s.host.setHost(out.Host.Values, cpu/float64(len(vms)+1))
	maps.DeleteFunc(out.Host.Values, func(_ string, v []fleet.MetricValue) bool { return v[0].IsMissing() })
	return out
}

func newTable(ids []string, metrics []fleet.MetricInfo) metric.Table {
	t := metric.Table{IDs: ids, Values: make(map[string][]fleet.MetricValue, len(metrics))}
	for _, m := range metrics {
		all := make([]fleet.MetricValue, len(ids))
		for i := range all {
			all[i] = fleet.NoMetricValue()
		}
		t.Values[m.Name] = all
	}
	return t
}

// workload is the load of a VM, pool or host.
type workload struct {
	random   *rand.Rand
	cpu      float64 // mean CPU use in percent
	disk     float64 // mean operations per second
	resident float64 // share of the memory that is resident
	phase    float64 // of the daily pattern
	swing    float64 // standard deviation of level
	level    float64 // drift of the load, as a logarithm
	memory   float64 // drift of the memory's use
}

func newWorkload(name string) *workload {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name))
	w := &workload{random: rand.New(rand.NewPCG(sum.Sum64(), 1))}
	switch kind := w.random.Float64(); {
	case kind < 0.33:
		w.cpu, w.disk, w.swing = 0.5+w.random.Float64(), 0.02, 0.1
	case kind < 0.83:
		w.cpu, w.disk, w.swing = 3+7*w.random.Float64(), 5, 0.2
	default:
		w.cpu, w.disk, w.swing = 20+40*w.random.Float64(), 150, 0.4
	}
	w.resident, w.phase = 0.5+0.45*w.random.Float64(), w.random.Float64()
	return w
}

// advance moves the load by some seconds.
func (w *workload) advance(until time.Time, seconds float64) {
	const drift = 600 // seconds, after which the level is another one
	keep := math.Exp(-seconds / drift)
	w.level = w.level*keep + w.swing*math.Sqrt(1-keep*keep)*w.random.NormFloat64()
	w.memory = w.memory*math.Exp(-seconds/(6*drift)) + 0.001*w.random.NormFloat64()
	day := float64(until.Unix()%86400)/86400 + w.phase/4
	w.level += 0.002 * seconds / 10 * math.Sin(2*math.Pi*day)
}

// vary returns a value that varies by a share around the load's present level.
func (w *workload) vary(mean, share float64) fleet.MetricValue {
	return fleet.MetricValue(mean * math.Exp(w.level+share*w.random.NormFloat64()))
}

// events returns the mean number of events a second over ten seconds.
func (w *workload) events(rate float64) float64 {
	n := rate * 10 * math.Exp(w.level+0.3*w.random.NormFloat64())
	if n < 20 { // single events: some samples have none
		n = math.Floor(n + w.random.Float64())
	}
	return n / 10
}

func (w *workload) setVM(to map[string][]fleet.MetricValue, i int, memory float64) (cpu float64) {
	set := func(name string, v fleet.MetricValue) { to[name][i] = v }
	use := min(100, w.vary(w.cpu, 0.15))
	set("cpu.usage", use)
	set("cpu.steal", w.vary(w.cpu/200, 0.5))
	set("memory.assigned", fleet.MetricValue(memory))
	set("memory.resident", fleet.MetricValue(math.Floor(memory*w.resident/4096)*4096))
	set("memory.guestUsed", fleet.MetricValue(memory*min(w.resident, 0.6*w.resident*math.Exp(w.memory))))
	reads, writes := w.events(w.disk/4), w.events(w.disk)
	set("disk.readOperations", fleet.MetricValue(reads))
	set("disk.writeOperations", fleet.MetricValue(writes))
	set("disk.read", fleet.MetricValue(reads)*w.vary(16<<10, 0.3))
	set("disk.write", fleet.MetricValue(writes)*w.vary(8<<10, 0.3))
	if reads > 0 {
		set("disk.readLatency", fleet.MetricValue(0.0004*math.Exp(0.4*w.random.NormFloat64())))
	}
	if writes > 0 {
		set("disk.writeLatency", fleet.MetricValue(0.0009*math.Exp(0.4*w.random.NormFloat64())))
	}
	set("network.receive", w.vary(200+3000*w.cpu, 0.3))
	set("network.send", w.vary(20+4000*w.cpu, 0.3))
	set("network.drops", 0)
	return float64(use)
}

func (w *workload) setPool(to map[string][]fleet.MetricValue, i int) {
	set := func(name string, v fleet.MetricValue) { to[name][i] = v }
	const capacity = 1 << 44
	set("space.capacity", capacity)
	set("space.used", fleet.MetricValue(capacity*w.resident*math.Exp(w.memory/10)))
	set("space.allocated", fleet.MetricValue(capacity*w.resident/2))
	set("latency.read", fleet.MetricValue(0.0004*math.Exp(0.3*w.random.NormFloat64())))
	set("latency.write", fleet.MetricValue(0.0009*math.Exp(0.3*w.random.NormFloat64())))
}

// setHost sets the values of a host without a GPU, whose VMs use cpu percent of their vCPUs.
func (w *workload) setHost(to map[string][]fleet.MetricValue, cpu float64) {
	set := func(name string, v fleet.MetricValue) { to[name][0] = v }
	set("cpu.user", w.vary(1, 0.3))
	set("cpu.system", w.vary(2, 0.3))
	set("cpu.guest", fleet.MetricValue(cpu))
	set("cpu.iowait", w.vary(0.3, 0.6))
	set("cpu.steal", 0)
	set("load.1m", w.vary(cpu/4, 0.1))
	set("memory.used", fleet.MetricValue(float64(200<<30)*math.Exp(w.memory)))
	set("memory.total", 384<<30)
	set("memory.swapUsed", 0)
	set("pressure.cpu", w.vary(0.5, 0.6))
	set("pressure.memory", 0)
	set("pressure.io", w.vary(0.8, 0.6))
	for name, mean := range map[string]float64{"disk.read": 4 << 20, "disk.write": 9 << 20, "network.receive": 5 << 20, "network.send": 7 << 20} {
		set(name, w.vary(mean, 0.3))
	}
	set("disk.readOperations", w.vary(300, 0.3))
	set("disk.writeOperations", w.vary(900, 0.3))
	set("disk.readLatency", fleet.MetricValue(0.0003*math.Exp(0.3*w.random.NormFloat64())))
	set("disk.writeLatency", fleet.MetricValue(0.0007*math.Exp(0.3*w.random.NormFloat64())))
	set("network.drops", 0)
	set("temperature.cpu", fleet.MetricValue(math.Round(50+5*w.level+w.random.NormFloat64())))
	set("power.cpu", w.vary(150, 0.03))
}
