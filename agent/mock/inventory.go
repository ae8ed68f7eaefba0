package mock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// machineModel is a model of simulated hardware.
type machineModel struct {
	product, vendor, model            string
	sockets, coresPerSocket           int
	memoryGiB                         int64
	driver                            string
	nicSpeedMbps, maxVirtualFunctions int
	gpu                               *fleet.GPU
	os, kernel                        string
	features                          []string
	models                            []string // additional CPU models for its guests
	gaps                              []fleet.CPUModelGap
}

// intelServerGaps are Intel's server models on an AMD processor.
var intelServerGaps = []fleet.CPUModelGap{
	{Model: "Cascadelake-Server", Missing: []string{"hle", "pcid", "rtm"}},
	{Model: "Icelake-Server", Missing: []string{"hle", "pcid", "rtm"}},
	{Model: "Skylake-Server", Missing: []string{"hle", "pcid", "rtm"}},
}

var machines = []machineModel{
	{
		product: "Dell Inc. PowerEdge R6625", vendor: "AuthenticAMD", model: "AMD EPYC 9354 32-Core Processor", sockets: 1, coresPerSocket: 32,
		memoryGiB: 384, driver: "mlx5_core", nicSpeedMbps: 25000, maxVirtualFunctions: 64, os: "Debian GNU/Linux 12", kernel: "6.1.0-26-amd64",
		features: []string{"svm", "npt", "avx2", "avx512f", "aes", "sha_ni", "x2apic"},
		models:   []string{"EPYC", "EPYC-Milan", "EPYC-Rome"},
		gaps:     intelServerGaps,
	},
	{
		product: "HPE ProLiant DL380 Gen10", vendor: "GenuineIntel", model: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets: 2, coresPerSocket: 32,
		memoryGiB: 512, driver: "i40e", nicSpeedMbps: 10000, maxVirtualFunctions: 32, os: "Ubuntu 24.04 LTS", kernel: "6.8.0-45-generic",
		features: []string{"vmx", "ept", "avx2", "avx512f", "aes", "sha_ni", "x2apic"},
		models:   []string{"Cascadelake-Server", "Icelake-Server", "Skylake-Server"},
		gaps:     []fleet.CPUModelGap{{Model: "EPYC", Missing: []string{"sse4a", "svm"}}, {Model: "EPYC-Rome", Missing: []string{"sse4a", "svm", "wbnoinvd"}}},
	},
	{
		product: "Supermicro AS-4125GS-TNRT", vendor: "AuthenticAMD", model: "AMD EPYC 9554 64-Core Processor", sockets: 2, coresPerSocket: 64,
		memoryGiB: 1024, driver: "mlx5_core", nicSpeedMbps: 100000, maxVirtualFunctions: 128, os: "Rocky Linux 9.4", kernel: "5.14.0-427.el9.x86_64",
		features: []string{"svm", "npt", "avx2", "avx512f", "aes", "sha_ni", "x2apic"},
		models:   []string{"EPYC", "EPYC-Milan", "EPYC-Rome"},
		gaps:     intelServerGaps,
		gpu:      &fleet.GPU{Address: "0000:41:00.0", Vendor: "NVIDIA", Product: "L40S", Driver: "nvidia", VFsTotal: 32, MdevTypes: []string{"nvidia-1147", "nvidia-1148"}},
	},
}

// Inventory returns the host's simulated hardware. It fits agent.Options.Inventory.
func (h *Host) Inventory(ctx context.Context) (fleet.Inventory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inventory, ctx.Err()
}

// checkPhysicals refuses physical disks that do not exist, that the host uses, or that another guest has. It accepts
// the disks in earlier, which the guest already has. The caller holds h.mu.
func (h *Host) checkPhysicals(id fleet.VMID, devices, earlier []fleet.VMHostDevice) error {
	for _, w := range devices {
		is := func(o fleet.VMHostDevice) bool { return o.Device == w.Device }
		if w.PhysicalDiskName() == "" || slices.ContainsFunc(earlier, is) {
			continue
		}
		i := slices.IndexFunc(h.inventory.Devices, func(d fleet.HostDevice) bool { return d.Device == w.Device })
		switch {
		case i < 0:
			return hypervisor.NoPhysicalDiskError(w.Device)
		case h.inventory.Devices[i].HostUse != "":
			return hypervisor.RefuseBusyPhysicalDisk(w.Device, h.inventory.Devices[i].HostUse)
		}
		for _, g := range h.guests {
			if g.id != id && (slices.ContainsFunc(g.persistent.spec.HostDevices, is) || g.isRunning() && slices.ContainsFunc(g.live.spec.HostDevices, is)) {
				return hypervisor.RefuseTakenPhysicalDisk(w.Device)
			}
		}
	}
	return nil
}

// simulatedInventory returns a plausible machine. Equal names have equal machines.
func simulatedInventory(name string) fleet.Inventory {
	seed := hashText(name)
	m := machines[seed%uint64(len(machines))]
	booted := time.Date(2026, 9, 1, 4, 0, 0, 0, time.UTC).Add(time.Duration(seed%4e6) * time.Second)
	out := fleet.Inventory{
		Hostname: name, HostUUID: string(stableID("machine/" + name)), BootID: string(stableID("boot/" + name)), BootedAt: &booted,
		OS: m.os, Kernel: m.kernel, Arch: "x86_64", Machine: m.product,
		CPU: fleet.CPU{
			Model: m.model, Vendor: m.vendor, Sockets: m.sockets, Cores: m.sockets * m.coresPerSocket,
			Threads: 2 * m.sockets * m.coresPerSocket, Features: m.features,
		},
		MemoryBytes: m.memoryGiB << 30, Accelerators: []string{"kvm", "qemu"}, Firmwares: []fleet.Firmware{fleet.BIOS, fleet.UEFI},
		HugePages: []fleet.HugePages{{SizeKiB: 2048, Total: 4096, Free: 4096}, {SizeKiB: 1 << 20}},
		VMGaps: []fleet.VMGap{
			{Field: "devices.vsock", Why: "The kernel's vhost_vsock is not loaded. Run: modprobe vhost_vsock."},
			{Field: "disks.bus", Value: "nvme", Why: "This needs libvirt 11.5. Choose another bus."},
		},
		NetworkGaps: []fleet.NetworkGap{{Mode: fleet.NetworkOVS, Why: "Open vSwitch is not installed. Install openvswitch-switch."}},
	}
	out.VMGaps = append(out.VMGaps, m.missingEncryptionKinds()...)
	out.CPUModelGaps = append([]fleet.CPUModelGap{{Model: "SapphireRapids", Missing: []string{"amx-bf16", "amx-int8", "amx-tile"}}}, m.gaps...)
	out.CPUModels = append([]string{"Nehalem", "Penryn", "SandyBridge", "Westmere", "kvm64", "qemu64"}, m.models...)
	for n := range m.sockets {
		node := fleet.NUMANode{ID: n, MemoryBytes: m.memoryGiB << 30 / int64(m.sockets)}
		for half := range 2 {
			for c := range m.coresPerSocket {
				node.Threads = append(node.Threads, (half*m.sockets+n)*m.coresPerSocket+c)
			}
		}
		out.NUMA = append(out.NUMA, node)
	}
	for i := range 4 {
		out.Disks = append(out.Disks, fleet.HostDisk{
			Name: fmt.Sprintf("nvme%dn1", i), Kind: "nvme", Model: "SAMSUNG MZQL23T8HCLS-00A07",
			Serial: fmt.Sprintf("S64HNE0T%06d", (seed+uint64(i))%1e6), SizeBytes: 3840755982336,
		})
	}
	for i := range 2 {
		out.NICs = append(out.NICs, fleet.HostNIC{
			Name: fmt.Sprintf("ens%df0np0", 1+i), MAC: stableMAC(fmt.Sprint(name, i)), Driver: m.driver, Kind: "physical",
			SpeedMbps: m.nicSpeedMbps, Up: true, MTU: 9000, VFs: i * 8, VFsTotal: m.maxVirtualFunctions, Master: []string{"br0", ""}[i],
		})
	}
	out.NICs = append(out.NICs, fleet.HostNIC{
		Name: "br0", MAC: stableMAC(name + "br0"), Kind: "bridge", Up: true, MTU: 1500,
		Agent:     true,
		Addresses: []string{fmt.Sprintf("10.20.%d.%d/16", byte(seed>>8)%250, 1+byte(seed)%250)},
	})
	out.Devices = []fleet.HostDevice{
		{Device: "pci/0000:00:1f.3", Name: "Intel Cannon Lake PCH cAVS", Class: "0x040300", Driver: "snd_hda_intel"},
		{Device: "pci/0000:3b:00.1", Name: "Intel Ethernet Controller X710", Class: "0x020000", Driver: "i40e", IOMMU: "31"},
		{Device: "usb/0529:0620", Name: "Aladdin Knowledge Systems Token JC"},
	}
	for i, d := range out.Disks {
		one := fleet.HostDevice{Device: fleet.PhysicalDevice + "nvme-" + strings.ReplaceAll(d.Model, " ", "_") + "_" + d.Serial, Name: d.Name + " · " + d.Model, SizeBytes: d.SizeBytes}
		if i == 0 {
			one.HostUse = "mounted at /"
		}
		out.Devices = append(out.Devices, one)
	}
	ports := []fleet.HostDevice{{Device: "usb-port/1-1", Name: "Aladdin Knowledge Systems Token JC"}, {Device: "usb-port/1-2", Empty: true}}
	if m.gpu != nil {
		out.Devices = append(out.Devices, fleet.HostDevice{Device: "pci/" + m.gpu.Address, Name: m.gpu.Vendor + " " + m.gpu.Product, Class: "0x030200", Driver: m.gpu.Driver, IOMMU: "42"})
		out.GPUs = []fleet.GPU{*m.gpu}
		for i, kind := range m.gpu.MdevTypes {
			out.Devices = append(out.Devices, fleet.HostDevice{
				Device: "mdev/" + kind, Name: fmt.Sprintf("NVIDIA L40S-%dQ", 4*(i+1)), Parents: []string{m.gpu.Address}, Max: 12 / (i + 1), Free: 12 / (i + 1),
			})
		}
	}
	out.Devices = append(out.Devices, ports...)
	return out
}

// Memory returns the host's available and total simulated memory in bytes.
func (h *Host) Memory(ctx context.Context) (available, total int64, err error) {
	load, err := h.Load(ctx)
	return load.MemoryTotal - load.MemoryUsed, load.MemoryTotal, err
}

// Load returns the host's simulated load: the load of its guests plus a small load of its own.
func (h *Host) Load(ctx context.Context) (fleet.HostLoad, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	busy, used := 0.3, h.inventory.MemoryBytes/20
	for _, g := range h.guests {
		if g.isRunning() {
			busy += g.cpuLoad(now)
			used += g.meter(now).MemoryBytes
		}
	}
	percent := min(100, 100*busy/float64(h.inventory.CPU.Threads))
	used = min(used, h.inventory.MemoryBytes)
	return fleet.HostLoad{
		HostMeter: fleet.HostMeter{CPUPercent: percent, MemoryUsed: used, MemoryTotal: h.inventory.MemoryBytes},
		Metrics: map[string]fleet.MetricValue{
			"cpu.guest": fleet.MetricValue(percent * 0.9), "cpu.system": fleet.MetricValue(percent * 0.1), "cpu.user": 0, "load.1m": fleet.MetricValue(busy),
			"memory.used": fleet.MetricValue(used), "memory.total": fleet.MetricValue(h.inventory.MemoryBytes), "memory.swapUsed": 0,
		},
	}, ctx.Err()
}
