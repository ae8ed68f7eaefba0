package fleet

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// MetricUnit is the unit of a metric's values.
type MetricUnit string

// Units of metrics.
const (
	UnitPercent        MetricUnit = "percent" // 100: all vCPUs, all CPUs or all of the time
	UnitBytes          MetricUnit = "bytes"
	UnitBytesPerSecond MetricUnit = "bytesPerSecond"
	UnitPerSecond      MetricUnit = "perSecond"
	UnitSeconds        MetricUnit = "seconds"
	UnitCelsius        MetricUnit = "celsius"
	UnitWatts          MetricUnit = "watts"
	UnitNumber         MetricUnit = "number"
	UnitQuantity       MetricUnit = "count" // exact up to 1,000
)

// MetricInfo describes one metric of VMs, hosts or pools.
type MetricInfo struct {
	// Number identifies the metric in the database. It never changes, and a number of a removed metric is never used
	// again.
	Number int
	Name   string // "cpu.usage"
	Title  string // of the line in a chart: "CPU usage"
	Unit   MetricUnit
	Chart  string // title of the chart that shows the metric
	// Sum says that the value of several hosts, or of several VMs, is the sum of their values. Otherwise it is the mean.
	Sum bool
}

// VMMetrics are the metrics of VMs. Rates are per second, over the time since the previous sample.
var VMMetrics = []MetricInfo{
	{Number: 1, Name: "cpu.usage", Title: "CPU usage", Unit: UnitPercent, Chart: "CPU"},
	{Number: 2, Name: "cpu.steal", Title: "Waiting for a CPU of the host", Unit: UnitPercent, Chart: "CPU"},
	{Number: 3, Name: "memory.assigned", Title: "Assigned", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 4, Name: "memory.resident", Title: "Resident on the host", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 5, Name: "memory.guestUsed", Title: "Used by the guest", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 6, Name: "disk.read", Title: "Read", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 7, Name: "disk.write", Title: "Write", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 8, Name: "disk.readOperations", Title: "Read", Unit: UnitPerSecond, Chart: "Disk operations", Sum: true},
	{Number: 9, Name: "disk.writeOperations", Title: "Write", Unit: UnitPerSecond, Chart: "Disk operations", Sum: true},
	{Number: 10, Name: "disk.readLatency", Title: "Read", Unit: UnitSeconds, Chart: "Disk latency"},
	{Number: 11, Name: "disk.writeLatency", Title: "Write", Unit: UnitSeconds, Chart: "Disk latency"},
	{Number: 12, Name: "network.receive", Title: "Receive", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
	{Number: 13, Name: "network.send", Title: "Send", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
	{Number: 14, Name: "network.drops", Title: "Dropped packets", Unit: UnitPerSecond, Chart: "Dropped packets", Sum: true},
}

// HostMetrics are the metrics of hosts. A host without a sensor or a kernel feature does not report its metric.
var HostMetrics = append([]MetricInfo{
	{Number: 1, Name: "cpu.user", Title: "User", Unit: UnitPercent, Chart: "CPU"},
	{Number: 2, Name: "cpu.system", Title: "System", Unit: UnitPercent, Chart: "CPU"},
	{Number: 3, Name: "cpu.guest", Title: "Guests", Unit: UnitPercent, Chart: "CPU"},
	{Number: 4, Name: "cpu.iowait", Title: "Waiting for I/O", Unit: UnitPercent, Chart: "CPU"},
	{Number: 5, Name: "cpu.steal", Title: "Steal", Unit: UnitPercent, Chart: "CPU"},
	{Number: 6, Name: "load.1m", Title: "Load average of 1 minute", Unit: UnitNumber, Chart: "Load"},
	{Number: 7, Name: "memory.used", Title: "Used", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 8, Name: "memory.total", Title: "Total", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 9, Name: "memory.swapUsed", Title: "Swap used", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 10, Name: "pressure.cpu", Title: "CPU", Unit: UnitPercent, Chart: "Pressure"},
	{Number: 11, Name: "pressure.memory", Title: "Memory", Unit: UnitPercent, Chart: "Pressure"},
	{Number: 12, Name: "pressure.io", Title: "I/O", Unit: UnitPercent, Chart: "Pressure"},
	{Number: 13, Name: "disk.read", Title: "Read", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 14, Name: "disk.write", Title: "Write", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 15, Name: "disk.readOperations", Title: "Read", Unit: UnitPerSecond, Chart: "Disk operations", Sum: true},
	{Number: 16, Name: "disk.writeOperations", Title: "Write", Unit: UnitPerSecond, Chart: "Disk operations", Sum: true},
	{Number: 17, Name: "disk.readLatency", Title: "Read", Unit: UnitSeconds, Chart: "Disk latency"},
	{Number: 18, Name: "disk.writeLatency", Title: "Write", Unit: UnitSeconds, Chart: "Disk latency"},
	{Number: 19, Name: "network.receive", Title: "Receive", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
	{Number: 20, Name: "network.send", Title: "Send", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
	{Number: 21, Name: "network.drops", Title: "Dropped packets", Unit: UnitPerSecond, Chart: "Dropped packets", Sum: true},
	{Number: 22, Name: "temperature.cpu", Title: "CPU", Unit: UnitCelsius, Chart: "Temperature"},
	{Number: 23, Name: "power.cpu", Title: "CPU package", Unit: UnitWatts, Chart: "Power", Sum: true},
	{Number: 24, Name: "gpu.usage", Title: "GPU usage", Unit: UnitPercent, Chart: "GPU"},
	{Number: 25, Name: "gpu.memoryUsed", Title: "GPU memory used", Unit: UnitBytes, Chart: "GPU memory", Sum: true},
	{Number: 26, Name: "temperature.gpu", Title: "GPU", Unit: UnitCelsius, Chart: "Temperature"},
	{Number: 27, Name: "power.gpu", Title: "GPUs", Unit: UnitWatts, Chart: "Power", Sum: true},
	{Number: 28, Name: "clock.offset", Title: "Difference to the portal's clock", Unit: UnitSeconds, Chart: "Clock"},
	{Number: 61, Name: "temperature.disk", Title: "Hottest disk", Unit: UnitCelsius, Chart: "Temperature"},
	{Number: 62, Name: "power.machine", Title: "Whole machine", Unit: UnitWatts, Chart: "Power", Sum: true},
}, gpuMetrics()...)

// MaxGPUs is the number of GPUs of a host that have metrics of their own.
const MaxGPUs = 8

// gpuMetrics returns the metrics of each GPU of a host with several ones.
func gpuMetrics() (out []MetricInfo) {
	for i := range MaxGPUs {
		n, key, title := 29+4*i, "gpu."+strconv.Itoa(i), "GPU "+strconv.Itoa(i)
		out = append(out, MetricInfo{Number: n, Name: key + ".usage", Title: title, Unit: UnitPercent, Chart: "GPU"},
			MetricInfo{Number: n + 1, Name: key + ".memoryUsed", Title: title, Unit: UnitBytes, Chart: "GPU memory", Sum: true},
			MetricInfo{Number: n + 2, Name: key + ".temperature", Title: title, Unit: UnitCelsius, Chart: "GPU temperature"},
			MetricInfo{Number: n + 3, Name: key + ".power", Title: title, Unit: UnitWatts, Chart: "GPU power", Sum: true})
	}
	return out
}

// PoolMetrics are the metrics of storage pools on a host.
var PoolMetrics = []MetricInfo{
	{Number: 1, Name: "space.used", Title: "Used", Unit: UnitBytes, Chart: "Space", Sum: true},
	{Number: 2, Name: "space.capacity", Title: "Capacity", Unit: UnitBytes, Chart: "Space", Sum: true},
	{Number: 3, Name: "space.allocated", Title: "Allocated to volumes", Unit: UnitBytes, Chart: "Space", Sum: true},
	{Number: 4, Name: "latency.read", Title: "Read", Unit: UnitSeconds, Chart: "Latency"},
	{Number: 5, Name: "latency.write", Title: "Write", Unit: UnitSeconds, Chart: "Latency"},
}

// ClusterMetrics are the sums over the hosts of a cluster or of the fleet that have reported.
var ClusterMetrics = []MetricInfo{
	{Number: 1, Name: "cpu.usage", Title: "CPU", Unit: UnitPercent, Chart: "CPU and memory use"},
	{Number: 2, Name: "memory.usage", Title: "Memory", Unit: UnitPercent, Chart: "CPU and memory use"},
	{Number: 11, Name: "hosts.reporting", Title: "Reporting", Unit: UnitQuantity, Chart: "Hosts", Sum: true},
	{Number: 12, Name: "hosts.total", Title: "All", Unit: UnitQuantity, Chart: "Hosts", Sum: true},
	{Number: 3, Name: "cpu.used", Title: "Used", Unit: UnitQuantity, Chart: "CPU threads", Sum: true},
	{Number: 4, Name: "cpu.capacity", Title: "Capacity", Unit: UnitQuantity, Chart: "CPU threads", Sum: true},
	{Number: 5, Name: "memory.used", Title: "Used", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 6, Name: "memory.capacity", Title: "Capacity", Unit: UnitBytes, Chart: "Memory", Sum: true},
	{Number: 7, Name: "disk.read", Title: "Read", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 8, Name: "disk.write", Title: "Write", Unit: UnitBytesPerSecond, Chart: "Disk throughput", Sum: true},
	{Number: 9, Name: "network.receive", Title: "Receive", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
	{Number: 10, Name: "network.send", Title: "Send", Unit: UnitBytesPerSecond, Chart: "Network throughput", Sum: true},
}

// MetricsOf returns the metrics of VMs, hosts, pools or clusters; nil for other resource types.
func MetricsOf(t ResourceType) []MetricInfo {
	switch t {
	case TypeVM:
		return VMMetrics
	case TypeHost:
		return HostMetrics
	case TypePool:
		return PoolMetrics
	case TypeCluster:
		return ClusterMetrics
	}
	return nil
}

// MetricValue is one measured value. NaN means that there is no value; its JSON is null.
type MetricValue float64

// NoMetricValue returns the missing value.
func NoMetricValue() MetricValue { return MetricValue(math.NaN()) }

// IsMissing reports whether there is no value.
func (v MetricValue) IsMissing() bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }

// AppendJSON appends the value with five significant digits, which is more precise than any measurement here.
func (v MetricValue) AppendJSON(to []byte) []byte {
	if v.IsMissing() {
		return append(to, "null"...)
	}
	return strconv.AppendFloat(to, float64(v), 'g', 5, 64)
}

// MarshalJSON returns the value's JSON.
func (v MetricValue) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// UnmarshalJSON reads a number. Anything else is no value.
func (v *MetricValue) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*v = NoMetricValue()
		return nil
	}
	if err := json.Unmarshal(text, (*float64)(v)); err != nil { // too large a number, or no number
		*v = NoMetricValue()
	}
	return nil
}

// MetricSeries holds the points of an object's metrics over a time, at equal distances.
type MetricSeries struct {
	From        time.Time    `json:"from"`
	To          time.Time    `json:"to"`
	StepSeconds int          `json:"stepSeconds"`
	Series      []MetricLine `json:"series"`
	// Problem is only in the metrics of a host.
	Problem string `json:"problem,omitempty" doc:"Why the portal refused values of the host within the last hour"`
	// Marks are what happened to the object in the time, oldest first: at most the newest MaxMetricMarks tasks.
	Marks []MetricMark `json:"marks,omitempty" doc:"Tasks and offline periods of the object in the time, oldest first; at most the newest 100 tasks"`
}

// MaxMetricMarks limits the tasks among MetricSeries.Marks.
const MaxMetricMarks = 100

// MetricMark is an event in a chart: a task that a host began, or that was refused, or a period.
type MetricMark struct {
	At    time.Time  `json:"at"`
	Until *time.Time `json:"until,omitempty"` // end of a period or of the task
	Title string     `json:"title"`
	// TaskID and State are those of a task. A period without a task has neither.
	TaskID TaskID   `json:"taskId,omitempty"`
	State  JobState `json:"state,omitempty"`
}

// MetricLine is one metric of an object.
type MetricLine struct {
	Name  string     `json:"name"`
	Title string     `json:"title"`
	Unit  MetricUnit `json:"unit"`
	Chart string     `json:"chart" doc:"Title of the chart that shows the metric"`
	// HostName is the host of a pool's metric, and empty for metrics of VMs and hosts.
	HostName string        `json:"hostName,omitempty"`
	Points   []MetricPoint `json:"points" doc:"Time in seconds since 1970, mean, minimum and maximum; null where nothing was measured"`
}

// MetricPoint is the mean, the minimum and the maximum over one step, which starts at At. Its JSON is the array [at, mean,
// minimum, maximum].
type MetricPoint struct {
	At             time.Time
	Mean, Min, Max MetricValue
}

// MarshalJSON implements json.Marshaler.
func (p MetricPoint) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{p.At.Unix(), p.Mean, p.Min, p.Max})
}
