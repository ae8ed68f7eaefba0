package exposition

import (
	"strconv"

	"quantix/internal/fleet"
)

// family is a metric of Prometheus. Its lines are values of Quantix's own metrics.
type family struct {
	name, help string
	of         []source
}

// source is one Quantix metric in a family. label is different for each line of a family.
type source struct {
	metric string // fleet.MetricInfo.Name
	label  string
}

// one is the lines of a family with one line per object.
func one(metric string) []source { return []source{{metric: metric}} }

// gpus is the lines of a family with one line for each GPU of a host.
func gpus(value string) []source {
	out := make([]source, fleet.MaxGPUs)
	for i := range out {
		n := strconv.Itoa(i)
		out[i] = source{"gpu." + n + "." + value, `gpu="` + n + `"`}
	}
	return out
}

// families are the families of each resource type. Every fleet.MetricInfo is in one of them: a test compares them.
var families = map[fleet.ResourceType][]family{
	fleet.TypeVM: {
		{"quantix_vm_cpu_usage_ratio", "Use of the VM's vCPUs; 1: all of them.", one("cpu.usage")},
		{"quantix_vm_cpu_steal_ratio", "Time that vCPUs waited for a CPU of the host; 1: all vCPUs all the time.", one("cpu.steal")},
		{"quantix_vm_memory_assigned_bytes", "Memory that the balloon leaves to the guest.", one("memory.assigned")},
		{"quantix_vm_memory_resident_bytes", "Memory of the VM that is resident on the host.", one("memory.resident")},
		{"quantix_vm_memory_guest_used_bytes", "Memory used as the guest reports it.", one("memory.guestUsed")},
		{"quantix_vm_disk_read_bytes_per_second", "Bytes read from all disks.", one("disk.read")},
		{"quantix_vm_disk_written_bytes_per_second", "Bytes written to all disks.", one("disk.write")},
		{"quantix_vm_disk_reads_per_second", "Read operations of all disks.", one("disk.readOperations")},
		{"quantix_vm_disk_writes_per_second", "Write operations of all disks.", one("disk.writeOperations")},
		{"quantix_vm_disk_read_latency_seconds", "Mean time of a read operation.", one("disk.readLatency")},
		{"quantix_vm_disk_write_latency_seconds", "Mean time of a write operation.", one("disk.writeLatency")},
		{"quantix_vm_network_receive_bytes_per_second", "Bytes that all NICs received.", one("network.receive")},
		{"quantix_vm_network_transmit_bytes_per_second", "Bytes that all NICs sent.", one("network.send")},
		{"quantix_vm_network_drops_per_second", "Packets that all NICs dropped.", one("network.drops")},
	},
	fleet.TypeHost: {
		{"quantix_host_cpu_usage_ratio", "Use of the host's CPUs by mode; 1: all of them. Modes do not overlap.", []source{
			{"cpu.user", `mode="user"`},
			{"cpu.system", `mode="system"`},
			{"cpu.guest", `mode="guest"`},
			{"cpu.iowait", `mode="iowait"`},
			{"cpu.steal", `mode="steal"`},
		}},
		{"quantix_host_load1", "Load average of 1 minute.", one("load.1m")},
		{"quantix_host_memory_used_bytes", "Memory in use.", one("memory.used")},
		{"quantix_host_memory_bytes", "Memory of the host.", one("memory.total")},
		{"quantix_host_swap_used_bytes", "Swap space in use.", one("memory.swapUsed")},
		{"quantix_host_pressure_ratio", "Share of the time in which some task waited for the resource (PSI).", []source{
			{"pressure.cpu", `resource="cpu"`},
			{"pressure.memory", `resource="memory"`},
			{"pressure.io", `resource="io"`},
		}},
		{"quantix_host_disk_read_bytes_per_second", "Bytes read from all disks.", one("disk.read")},
		{"quantix_host_disk_written_bytes_per_second", "Bytes written to all disks.", one("disk.write")},
		{"quantix_host_disk_reads_per_second", "Read operations of all disks.", one("disk.readOperations")},
		{"quantix_host_disk_writes_per_second", "Write operations of all disks.", one("disk.writeOperations")},
		{"quantix_host_disk_read_latency_seconds", "Mean time of a read operation.", one("disk.readLatency")},
		{"quantix_host_disk_write_latency_seconds", "Mean time of a write operation.", one("disk.writeLatency")},
		{"quantix_host_network_receive_bytes_per_second", "Bytes that all physical NICs received.", one("network.receive")},
		{"quantix_host_network_transmit_bytes_per_second", "Bytes that all physical NICs sent.", one("network.send")},
		{"quantix_host_network_drops_per_second", "Packets that all physical NICs dropped.", one("network.drops")},
		{"quantix_host_temperature_celsius", "Highest temperature of the component.", []source{
			{"temperature.cpu", `component="cpu"`},
			{"temperature.gpu", `component="gpu"`},
			{"temperature.disk", `component="disk"`},
		}},
		{"quantix_host_power_watts", "Power of all components of the kind, or of the whole machine.", []source{
			{"power.cpu", `component="cpu"`},
			{"power.gpu", `component="gpu"`},
			{"power.machine", `component="machine"`},
		}},
		{"quantix_host_gpu_usage_ratio", "Mean use of the GPUs.", one("gpu.usage")},
		{"quantix_host_gpu_memory_used_bytes", "Memory in use of all GPUs.", one("gpu.memoryUsed")},
		{"quantix_host_gpu_device_usage_ratio", "Use of one GPU, on hosts with several.", gpus("usage")},
		{"quantix_host_gpu_device_memory_used_bytes", "Memory in use of one GPU, on hosts with several.", gpus("memoryUsed")},
		{"quantix_host_gpu_device_temperature_celsius", "Temperature of one GPU, on hosts with several.", gpus("temperature")},
		{"quantix_host_gpu_device_power_watts", "Power of one GPU, on hosts with several.", gpus("power")},
		{"quantix_host_clock_offset_seconds", "Difference between the host's and the portal's clock.", one("clock.offset")},
	},
	fleet.TypePool: {
		{"quantix_pool_used_bytes", "Used space of the storage pool, as the host reports it.", one("space.used")},
		{"quantix_pool_capacity_bytes", "Capacity of the storage pool, as the host reports it.", one("space.capacity")},
		{"quantix_pool_allocated_bytes", "Sum of the sizes of the pool's volumes, as the host reports it.", one("space.allocated")},
		{"quantix_pool_read_latency_seconds", "Time of a small read from the storage pool, as the host measures it.", one("latency.read")},
		{"quantix_pool_write_latency_seconds", "Time of a small write to the storage pool, as the host measures it.", one("latency.write")},
	},
}

// scaleOf returns the factor from a value of the unit to a value in Prometheus' base unit.
func scaleOf(u fleet.MetricUnit) float64 {
	if u == fleet.UnitPercent {
		return 0.01
	}
	return 1
}
