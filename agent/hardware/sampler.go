package hardware

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
	"github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/sensors"

	"quantix/internal/fleet"
)

// Sampler measures the machine's load. Rates and shares are those of the time since its previous sample.
type Sampler struct {
	root hostTree
	gpus gpuReader

	mu       sync.Mutex
	previous counters
}

// counters are the machine's counters at one time. They only grow, except at a reset.
type counters struct {
	at     time.Time
	values map[string]float64
}

// NewSampler returns a Sampler of this machine.
func NewSampler() *Sampler { return &Sampler{root: "/", gpus: gpuReader{run: runNVIDIASMI}} }

// Sample returns the values of fleet.HostMetrics. A value that the machine does not report is missing.
func (s *Sampler) Sample(ctx context.Context) (fleet.HostLoad, error) {
	ctx = s.root.withPaths(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := counters{at: time.Now(), values: map[string]float64{}}
	out := map[string]fleet.MetricValue{}
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return fleet.HostLoad{}, err
	}
	out["memory.used"], out["memory.total"] = fleet.MetricValue(m.Total-m.Available), fleet.MetricValue(m.Total)
	if swap, err := mem.SwapMemoryWithContext(ctx); err == nil {
		out["memory.swapUsed"] = fleet.MetricValue(swap.Used)
	}
	if average, err := load.AvgWithContext(ctx); err == nil {
		out["load.1m"] = fleet.MetricValue(average.Load1)
	}
	if err := s.countCPU(ctx, now.values); err != nil {
		return fleet.HostLoad{}, err
	}
	s.countPressure(now.values)
	s.countDisks(ctx, now.values)
	s.countNICs(ctx, now.values)
	s.countEnergy(now.values)
	rates := now.since(s.previous)
	s.previous = now
	maps.Copy(out, rates)
	s.addTemperature(ctx, out)
	s.addPower(out)
	s.gpus.addTo(ctx, s.root, out)
	for _, info := range fleet.HostMetrics {
		if v, ok := out[info.Name]; !ok || v.IsMissing() {
			delete(out, info.Name)
		}
	}
	result := fleet.HostLoad{Metrics: out, Counters: maps.Clone(now.values)}
	result.HostMeter = fleet.HostMeter{MemoryUsed: int64(m.Total - m.Available), MemoryTotal: int64(m.Total)}
	for _, name := range []string{"cpu.user", "cpu.system", "cpu.guest", "cpu.steal"} {
		result.CPUPercent += float64(out[name])
	}
	return result, nil
}

// Names of counters that are no metrics.
const (
	cpuTotal       = "cpu.total"
	diskReadTime   = "disk.readTime"
	diskWriteTime  = "disk.writeTime"
	pressurePrefix = "pressure."
)

func (s *Sampler) countCPU(ctx context.Context, out map[string]float64) error {
	all, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("the platform does not report its CPU use")
	}
	t := all[0]
	guest := t.Guest + t.GuestNice // the kernel counts it as user time, too
	out["cpu.guest"], out["cpu.user"], out["cpu.iowait"], out["cpu.steal"] = guest, t.User+t.Nice-guest, t.Iowait, t.Steal
	out["cpu.system"] = t.System + t.Irq + t.Softirq
	out[cpuTotal] = t.User + t.Nice + t.System + t.Idle + t.Iowait + t.Irq + t.Softirq + t.Steal
	return nil
}

// countPressure reads how long some task waited (PSI), in seconds. Kernels without PSI have no such file.
func (s *Sampler) countPressure(out map[string]float64) {
	for _, of := range []string{"cpu", "memory", "io"} {
		first, _, _ := strings.Cut(s.root.readLine("proc/pressure", of), "\n")
		for field := range strings.FieldsSeq(first) {
			if text, ok := strings.CutPrefix(field, "total="); ok {
				if micros, err := strconv.ParseFloat(text, 64); err == nil {
					out[pressurePrefix+of] = micros / 1e6
				}
			}
		}
	}
}

// countDisks counts disks that are devices. Partitions and devices above others, such as LVM, would count twice.
func (s *Sampler) countDisks(ctx context.Context, out map[string]float64) {
	all, err := disk.IOCountersWithContext(ctx)
	if err != nil {
		return
	}
	for name, d := range all {
		if s.root.exists("sys/block", name, "device") {
			out["disk.read"] += float64(d.ReadBytes)
			out["disk.write"] += float64(d.WriteBytes)
			out["disk.readOperations"] += float64(d.ReadCount)
			out["disk.writeOperations"] += float64(d.WriteCount)
			out[diskReadTime] += float64(d.ReadTime) / 1e3
			out[diskWriteTime] += float64(d.WriteTime) / 1e3
		}
	}
}

// countNICs counts NICs that are devices. Bridges, VLANs and the NICs of VMs would count twice.
func (s *Sampler) countNICs(ctx context.Context, out map[string]float64) {
	all, err := net.IOCountersWithContext(ctx, true)
	if err != nil {
		return
	}
	for _, n := range all {
		if s.root.exists("sys/class/net", n.Name, "device") {
			out["network.receive"] += float64(n.BytesRecv)
			out["network.send"] += float64(n.BytesSent)
			out["network.drops"] += float64(n.Dropin + n.Dropout)
		}
	}
}

// countEnergy reads the energy of CPU packages in joules (RAPL). Some kernels let only root read it.
func (s *Sampler) countEnergy(out map[string]float64) {
	const zones = "sys/class/powercap"
	for _, zone := range s.root.listDir(zones) {
		if strings.Count(zone, ":") == 1 && strings.HasPrefix(s.root.readLine(zones, zone, "name"), "package") {
			if micros := s.root.readNumber(zones, zone, "energy_uj"); micros > 0 {
				out["power.cpu"] += float64(micros) / 1e6
			}
		}
	}
}

// since returns the metrics of the time since earlier counters. A counter that has become smaller was reset, so its metric
// is missing once.
func (c counters) since(earlier counters) map[string]fleet.MetricValue {
	seconds := c.at.Sub(earlier.at).Seconds()
	if earlier.values == nil || seconds <= 0 {
		return nil
	}
	grown := func(name string) (float64, bool) {
		before, known := earlier.values[name]
		now, still := c.values[name]
		return now - before, known && still && now >= before
	}
	out := map[string]fleet.MetricValue{}
	total, _ := grown(cpuTotal)
	for name := range c.values {
		v, ok := grown(name)
		switch {
		case !ok, name == cpuTotal, name == diskReadTime, name == diskWriteTime:
		case strings.HasPrefix(name, "cpu."):
			if total > 0 {
				out[name] = fleet.MetricValue(100 * v / total)
			}
		case strings.HasPrefix(name, pressurePrefix):
			out[name] = fleet.MetricValue(min(100, 100*v/seconds))
		default:
			out[name] = fleet.MetricValue(v / seconds)
		}
	}
	for metric, of := range map[string][2]string{"disk.readLatency": {diskReadTime, "disk.readOperations"}, "disk.writeLatency": {diskWriteTime, "disk.writeOperations"}} {
		took, ok := grown(of[0])
		if n, counted := grown(of[1]); ok && counted && n > 0 {
			out[metric] = fleet.MetricValue(took / n)
		}
	}
	return out
}

// cpuSensors are the beginnings of the hwmon names of CPU temperatures.
var cpuSensors = []string{"coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal"}

// diskSensors are the beginnings of the hwmon names of disk temperatures. The kernel reads those of SATA disks with the
// module drivetemp.
var diskSensors = []string{"nvme", "drivetemp"}

func (s *Sampler) addTemperature(ctx context.Context, out map[string]fleet.MetricValue) {
	all, _ := sensors.TemperaturesWithContext(ctx) // an error names only sensors that cannot be read
	for metric, names := range map[string][]string{"temperature.cpu": cpuSensors, "temperature.disk": diskSensors} {
		for _, t := range all {
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(t.SensorKey, name) }) {
				out[metric] = max(out[metric], fleet.MetricValue(t.Temperature))
			}
		}
	}
}

// addPower reads the power of the whole machine from its power meter (ACPI).
func (s *Sampler) addPower(out map[string]fleet.MetricValue) {
	const monitors = "sys/class/hwmon"
	for _, m := range s.root.listDir(monitors) {
		if s.root.readLine(monitors, m, "name") != "power_meter" {
			continue
		}
		if micros := s.root.readNumber(monitors, m, "power1_average"); micros > 0 {
			out["power.machine"] += fleet.MetricValue(micros) / 1e6
		}
	}
}
