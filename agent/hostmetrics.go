package agent

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quantix/agent/hypervisor"
	"quantix/internal/exposition"
	"quantix/internal/fleet"
)

// Limits of the lines of a host's VMs.
const (
	maxExposedVMs   = 4096
	maxExposedParts = 64 // disks, and NICs, of one VM
)

// measureTimeout limits the reading of the host for one scrape.
const measureTimeout = 8 * time.Second

// measurementAge is the age up to which a second scrape gets the values of the first one.
const measurementAge = time.Second

// HostMeasurements read the counters of a host and its VMs at each scrape.
type HostMeasurements struct {
	Host  string // the host's name
	Load  func(context.Context) (fleet.HostLoad, error)
	Meter func(context.Context) ([]hypervisor.VMLoad, error)
}

// ExposeHost adds the lines of the host and its VMs to the metrics.
func (m *Metrics) ExposeHost(from HostMeasurements) {
	m.registry.MustRegister(&hostCollector{from: from, names: &m.vmNames})
}

// setVMNames records the names of the host's VMs, which are labels.
func (m *Metrics) setVMNames(names map[fleet.VMID]string) { m.vmNames.Store(&names) }

// hostCollector is a Prometheus collector that measures the host and its VMs. Values that cannot be read are missing.
type hostCollector struct {
	from  HostMeasurements
	names *atomic.Pointer[map[fleet.VMID]string]

	mu       sync.Mutex
	at       time.Time // of load and vms
	load     *fleet.HostLoad
	vms      []hypervisor.VMLoad
	measured bool // vms is valid
}

// desc returns a description. All lines have the label host.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(labels, "host"), nil)
}

func vmDesc(name, help string, labels ...string) *prometheus.Desc {
	return desc("quantix_vm_"+name, help, append([]string{"vm", "name"}, labels...)...)
}

func hostDesc(name, help string, labels ...string) *prometheus.Desc {
	return desc("quantix_host_"+name, help, labels...)
}

var measurementSuccess = desc("quantix_agent_measurement_success", "1 if the values were read: of the host, or of its VMs.", "of")

// hostSeries is a line of the host from a counter of fleet.HostLoad, or from a metric for gauges.
type hostSeries struct {
	desc   *prometheus.Desc
	of     string
	labels []string
	scale  float64
}

var hostCPUSeconds = hostDesc("cpu_seconds_total", "CPU time by mode. Modes do not overlap.", "mode")

var hostCounters = func() []hostSeries {
	pressure := hostDesc("pressure_waiting_seconds_total", "Time in which some task waited for the resource (PSI).", "resource")
	return []hostSeries{
		{hostCPUSeconds, "cpu.user", []string{"user"}, 1},
		{hostCPUSeconds, "cpu.system", []string{"system"}, 1},
		{hostCPUSeconds, "cpu.guest", []string{"guest"}, 1},
		{hostCPUSeconds, "cpu.iowait", []string{"iowait"}, 1},
		{hostCPUSeconds, "cpu.steal", []string{"steal"}, 1},
		{pressure, "pressure.cpu", []string{"cpu"}, 1},
		{pressure, "pressure.memory", []string{"memory"}, 1},
		{pressure, "pressure.io", []string{"io"}, 1},
		{hostDesc("disk_read_bytes_total", "Bytes read from all disks."), "disk.read", nil, 1},
		{hostDesc("disk_written_bytes_total", "Bytes written to all disks."), "disk.write", nil, 1},
		{hostDesc("disk_reads_total", "Read operations of all disks."), "disk.readOperations", nil, 1},
		{hostDesc("disk_writes_total", "Write operations of all disks."), "disk.writeOperations", nil, 1},
		{hostDesc("disk_read_time_seconds_total", "Time of all read operations."), "disk.readTime", nil, 1},
		{hostDesc("disk_write_time_seconds_total", "Time of all write operations."), "disk.writeTime", nil, 1},
		{hostDesc("network_receive_bytes_total", "Bytes that all physical NICs received."), "network.receive", nil, 1},
		{hostDesc("network_transmit_bytes_total", "Bytes that all physical NICs sent."), "network.send", nil, 1},
		{hostDesc("network_drops_total", "Packets that all physical NICs dropped."), "network.drops", nil, 1},
		{hostDesc("energy_joules_total", "Energy that the component used.", "component"), "power.cpu", []string{"cpu"}, 1},
	}
}()

var hostGauges = func() []hostSeries {
	temperature := hostDesc("temperature_celsius", "Highest temperature of the component.", "component")
	return []hostSeries{
		{hostDesc("load1", "Load average of 1 minute."), "load.1m", nil, 1},
		{hostDesc("memory_used_bytes", "Memory in use."), "memory.used", nil, 1},
		{hostDesc("memory_bytes", "Memory of the host."), "memory.total", nil, 1},
		{hostDesc("swap_used_bytes", "Swap space in use."), "memory.swapUsed", nil, 1},
		{temperature, "temperature.cpu", []string{"cpu"}, 1},
		{temperature, "temperature.gpu", []string{"gpu"}, 1},
		{temperature, "temperature.disk", []string{"disk"}, 1},
		{hostDesc("power_watts", "Power of all components of the kind.", "component"), "power.gpu", []string{"gpu"}, 1},
		{hostDesc("gpu_usage_ratio", "Mean use of the GPUs."), "gpu.usage", nil, 0.01},
		{hostDesc("gpu_memory_used_bytes", "Memory in use of all GPUs."), "gpu.memoryUsed", nil, 1},
	}
}()

// vmSeries is a line of a VM. value returns false if there is no value.
type vmSeries struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(hypervisor.VMLoad) (float64, bool)
}

func seconds(nanos int64) float64 { return float64(nanos) / 1e9 }

var vmSeriesOfLoad = []vmSeries{
	{vmDesc("cpu_seconds_total", "CPU time of the VM since its start."), prometheus.CounterValue, func(v hypervisor.VMLoad) (float64, bool) { return seconds(v.CPUNanos), true }},
	{vmDesc("cpu_steal_seconds_total", "Time that vCPUs waited for a CPU of the host."), prometheus.CounterValue, func(v hypervisor.VMLoad) (float64, bool) { return seconds(v.StealNanos), true }},
	{vmDesc("vcpus", "vCPUs of the running VM."), prometheus.GaugeValue, func(v hypervisor.VMLoad) (float64, bool) { return float64(v.VCPUs), v.VCPUs > 0 }},
	{vmDesc("memory_assigned_bytes", "Memory that the balloon leaves to the guest."), prometheus.GaugeValue, func(v hypervisor.VMLoad) (float64, bool) { return float64(v.AssignedBytes), true }},
	{vmDesc("memory_resident_bytes", "Memory of the VM that is resident on the host."), prometheus.GaugeValue, func(v hypervisor.VMLoad) (float64, bool) { return float64(v.MemoryBytes), true }},
	{vmDesc("memory_guest_used_bytes", "Memory used as the guest reports it."), prometheus.GaugeValue, func(v hypervisor.VMLoad) (float64, bool) { return float64(v.GuestUsedBytes), v.GuestUsedBytes >= 0 }},
}

// diskCounters and nicCounters are the counters of one disk, and of one NIC.
var diskCounters = []struct {
	desc  *prometheus.Desc
	value func(hypervisor.DiskLoad) float64
}{
	{vmDesc("disk_read_bytes_total", "Bytes read from the disk.", "disk"), func(d hypervisor.DiskLoad) float64 { return float64(d.ReadBytes) }},
	{vmDesc("disk_written_bytes_total", "Bytes written to the disk.", "disk"), func(d hypervisor.DiskLoad) float64 { return float64(d.WriteBytes) }},
	{vmDesc("disk_reads_total", "Read operations of the disk.", "disk"), func(d hypervisor.DiskLoad) float64 { return float64(d.Reads) }},
	{vmDesc("disk_writes_total", "Write operations of the disk.", "disk"), func(d hypervisor.DiskLoad) float64 { return float64(d.Writes) }},
	{vmDesc("disk_read_time_seconds_total", "Time of the disk's read operations.", "disk"), func(d hypervisor.DiskLoad) float64 { return seconds(d.ReadNanos) }},
	{vmDesc("disk_write_time_seconds_total", "Time of the disk's write operations.", "disk"), func(d hypervisor.DiskLoad) float64 { return seconds(d.WriteNanos) }},
}

var nicCounters = []struct {
	desc  *prometheus.Desc
	value func(hypervisor.NICLoad) float64
}{
	{vmDesc("network_receive_bytes_total", "Bytes that the NIC received.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.ReceiveBytes) }},
	{vmDesc("network_transmit_bytes_total", "Bytes that the NIC sent.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.SendBytes) }},
	{vmDesc("network_receive_packets_total", "Packets that the NIC received.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.ReceivePackets) }},
	{vmDesc("network_transmit_packets_total", "Packets that the NIC sent.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.SendPackets) }},
	{vmDesc("network_receive_drops_total", "Packets to the NIC that were dropped.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.ReceiveDrops) }},
	{vmDesc("network_transmit_drops_total", "Packets from the NIC that were dropped.", "nic"), func(n hypervisor.NICLoad) float64 { return float64(n.SendDrops) }},
}

// diskLabel returns the label of a disk, which is its position if it has no name.
func diskLabel(d hypervisor.DiskLoad, position int) string {
	if d.Name == "" {
		return strconv.Itoa(position)
	}
	return exposition.LabelValue(d.Name)
}

// nicLabel returns the label of a NIC. The name of its network device on the host changes with every start of the VM.
func nicLabel(n hypervisor.NICLoad) string { return strconv.Itoa(n.Index) }

// Describe implements prometheus.Collector. Without descriptions, the collector may have any lines.
func (*hostCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Concurrent scrapes share one measurement.
func (c *hostCollector) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > measurementAge {
		c.measure()
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		all := make([]string, 0, len(labels)+1)
		for _, l := range append(labels, c.from.Host) {
			all = append(all, exposition.LabelValue(l))
		}
		out <- prometheus.MustNewConstMetric(d, kind, value, all...)
	}
	success := map[string]bool{"host": c.load != nil, "vms": c.measured}
	for of, yes := range success {
		value := 0.0
		if yes {
			value = 1
		}
		send(measurementSuccess, prometheus.GaugeValue, value, of)
	}
	if c.load != nil {
		collectHost(*c.load, send)
	}
	c.collectVMs(send)
}

func (c *hostCollector) measure() {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()
	c.load, c.vms, c.measured = nil, nil, false
	if load, err := c.from.Load(ctx); err == nil {
		c.load = &load
	}
	if vms, err := c.from.Meter(ctx); err == nil {
		c.vms, c.measured = vms, true
	}
	c.at = time.Now()
}

// sendSeries sends one line. The label host is added.
type sendSeries func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

func collectHost(load fleet.HostLoad, send sendSeries) {
	for _, s := range hostCounters {
		if v, ok := load.Counters[s.of]; ok {
			send(s.desc, prometheus.CounterValue, v*s.scale, s.labels...)
		}
	}
	if idle, ok := load.Counters["cpu.total"]; ok {
		for _, mode := range []string{"cpu.user", "cpu.system", "cpu.guest", "cpu.iowait", "cpu.steal"} {
			idle -= load.Counters[mode]
		}
		send(hostCPUSeconds, prometheus.CounterValue, max(0, idle), "idle")
	}
	for _, s := range hostGauges {
		if v, ok := load.Metrics[s.of]; ok && !v.IsMissing() {
			send(s.desc, prometheus.GaugeValue, float64(v)*s.scale, s.labels...)
		}
	}
}

// collectVMs sends the lines of the VMs. A VM, disk or NIC that is listed twice counts once, because a second line with
// equal labels would make the whole response invalid.
func (c *hostCollector) collectVMs(send sendSeries) {
	names := map[fleet.VMID]string{}
	if known := c.names.Load(); known != nil {
		names = *known
	}
	seen := map[string]bool{}
	for _, v := range c.vms {
		id := exposition.LabelValue(string(v.ID))
		if seen[id] || len(seen) == maxExposedVMs {
			continue
		}
		seen[id] = true
		name := names[v.ID]
		for _, s := range vmSeriesOfLoad {
			if value, ok := s.value(v); ok {
				send(s.desc, s.kind, value, id, name)
			}
		}
		disks := map[string]bool{}
		for i, d := range v.Disks {
			label := diskLabel(d, i)
			if disks[label] || len(disks) == maxExposedParts {
				continue
			}
			disks[label] = true
			for _, s := range diskCounters {
				send(s.desc, prometheus.CounterValue, s.value(d), id, name, label)
			}
		}
		nics := map[int]bool{}
		for _, n := range v.NICs {
			if nics[n.Index] || len(nics) == maxExposedParts {
				continue
			}
			nics[n.Index] = true
			for _, s := range nicCounters {
				send(s.desc, prometheus.CounterValue, s.value(n), id, name, nicLabel(n))
			}
		}
	}
}
