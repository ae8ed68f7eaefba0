package hardware

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// recordedServerTree is the sysfs tree of a server: two NUMA nodes, NVMe and spinning disks, an SR-IOV NIC with a
// virtual function, a bridge with a guest's tap, and an NVIDIA GPU for passthrough. "->" is a symbolic link.
const recordedServerTree = `
etc/os-release: NAME="Debian GNU/Linux"
VERSION_ID="12"
ID=debian
proc/sys/kernel/random/boot_id: 11111111-2222-3333-4444-555555555555
proc/sys/kernel/osrelease: 6.1.0-26-amd64
proc/stat: btime 1700000000
proc/uptime: 100.00 100.00
proc/meminfo: MemTotal:       33554432 kB
MemAvailable:   30000000 kB
proc/cpuinfo: processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz
physical id	: 0
core id	: 0
cpu cores	: 1
flags	: fpu vmx avx2
.
processor	: 1
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz
physical id	: 1
core id	: 0
cpu cores	: 1
flags	: fpu vmx avx2
.
sys/devices/system/cpu/cpu0/topology/core_id: 0
sys/devices/system/cpu/cpu0/topology/physical_package_id: 0
sys/devices/system/cpu/cpu1/topology/core_id: 0
sys/devices/system/cpu/cpu1/topology/physical_package_id: 1
sys/devices/system/node/node0/cpulist: 0
sys/devices/system/node/node0/meminfo: Node 0 MemTotal:       16777216 kB
sys/devices/system/node/node1/cpulist: 1
sys/devices/system/node/node1/meminfo: Node 1 MemTotal:       16777216 kB
sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages: 512
sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages: 500
sys/class/dmi/id/sys_vendor: Dell Inc.
sys/class/dmi/id/product_name: PowerEdge R650
sys/class/dmi/id/product_uuid: 4C4C4544-0044-4810-8031-B4C04F4D3732
sys/class/net/eno1/address: 3c:fd:fe:00:00:01
sys/class/net/eno1/type: 1
sys/class/net/eno1/operstate: up
sys/class/net/eno1/mtu: 9000
sys/class/net/eno1/speed: 25000
sys/class/net/eno1/device/sriov_numvfs: 1
sys/class/net/eno1/device/sriov_totalvfs: 64
sys/class/net/eno1/device/driver -> ../../bus/pci/drivers/ice
sys/class/net/eno1v0/address: 3c:fd:fe:00:00:02
sys/class/net/eno1v0/type: 1
sys/class/net/eno1v0/device/physfn/vendor: 0x8086
sys/class/net/br0/address: 3c:fd:fe:00:00:01
sys/class/net/br0/type: 1
sys/class/net/br0/operstate: up
sys/class/net/br0/bridge/bridge_id: 8000
sys/class/net/eno1/master -> ../br0
sys/class/net/storage/address: 3c:fd:fe:00:00:01
sys/class/net/storage/type: 1
sys/class/net/storage/operstate: up
sys/class/net/storage/uevent: DEVTYPE=vlan
sys/class/net/storage/lower_eno1 -> ../eno1
sys/class/net/vnet0/address: fe:54:00:00:00:01
sys/class/net/vnet0/type: 1
sys/class/net/vnet0/tun_flags: 0x1002
sys/class/net/lo/address: 00:00:00:00:00:00
sys/class/net/lo/type: 772
sys/block/nvme0n1/size: 7501476528
sys/block/nvme0n1/queue/rotational: 0
sys/block/nvme0n1/queue/physical_block_size: 512
sys/block/nvme0n1/removable: 0
sys/block/nvme0n1/device/model: SAMSUNG MZQL23T8
sys/block/sda/size: 3907029168
sys/block/sda/queue/rotational: 1
sys/block/sda/queue/physical_block_size: 512
sys/block/sda/removable: 0
sys/block/loop0/size: 1024
sys/block/loop0/queue/rotational: 0
sys/bus/pci/devices/0000:41:00.0/class: 0x030200
sys/bus/pci/devices/0000:41:00.0/vendor: 0x10de
sys/bus/pci/devices/0000:41:00.0/device: 0x26b9
sys/bus/pci/devices/0000:41:00.0/sriov_totalvfs: 32
sys/bus/pci/devices/0000:41:00.0/driver -> ../../drivers/vfio-pci
sys/bus/pci/devices/0000:41:00.0/mdev_supported_types/nvidia-1147/available_instances: 1
sys/bus/pci/devices/0000:41:00.0/iommu_group -> ../../../../kernel/iommu_groups/17
sys/bus/pci/devices/0000:00:1f.3/class: 0x040300
sys/bus/pci/devices/0000:00:1f.3/vendor: 0x8086
sys/bus/pci/devices/0000:00:1f.3/device: 0xa348
sys/bus/usb/devices/usb1/idVendor: 1d6b
sys/bus/usb/devices/usb1/idProduct: 0002
sys/bus/usb/devices/usb1/bDeviceClass: 09
sys/bus/usb/devices/1-1/idVendor: 046d
sys/bus/usb/devices/1-1/idProduct: c52b
sys/bus/usb/devices/1-1/bDeviceClass: 00
sys/bus/usb/devices/1-1/manufacturer: Logitech
sys/bus/usb/devices/1-1/product: Receiver
sys/bus/usb/devices/1-2/idVendor: 046d
sys/bus/usb/devices/1-2/idProduct: c52b
sys/bus/usb/devices/1-2/bDeviceClass: 00
sys/bus/usb/devices/1-2:1.0/bInterfaceClass: 03
sys/bus/usb/devices/1-0:1.0/usb1-port1/connect_type: hotplug
sys/bus/usb/devices/1-0:1.0/usb1-port2/connect_type: hotplug
sys/bus/usb/devices/1-0:1.0/usb1-port3/connect_type: not used
sys/bus/usb/devices/1-0:1.0/usb1-port10/connect_type: hotplug
sys/bus/usb/devices/1-0:1.0/bInterfaceClass: 09
sys/bus/usb/devices/1-4/idVendor: 0451
sys/bus/usb/devices/1-4/idProduct: 8142
sys/bus/usb/devices/1-4/bDeviceClass: 09
sys/bus/usb/devices/1-4:1.0/1-4-port2/connect_type: unknown
sys/bus/usb/devices/1-4.1/idVendor: 0529
sys/bus/usb/devices/1-4.1/idProduct: 0620
sys/bus/usb/devices/1-4.1/bDeviceClass: 00
sys/bus/usb/devices/1-4.1/busnum: 1
sys/bus/usb/devices/1-4.1/devnum: 12
sys/bus/mdev/devices/c2177883-f1bb-47f0-914d-32a22e3a8804/mdev_type -> ../mdev_supported_types/nvidia-1147
sys/class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-1147/available_instances: 1
sys/class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-1147/name: NVIDIA L40S-4Q
sys/class/mdev_bus/0000:41:00.0/mdev_supported_types/nvidia-1147/device_api: vfio-pci
sys/class/mdev_bus/0000:42:00.0/mdev_supported_types/nvidia-1147/available_instances: 2
sys/class/mdev_bus/0000:42:00.0/mdev_supported_types/nvidia-1147/name: NVIDIA L40S-4Q
sys/class/mdev_bus/0000:42:00.0/mdev_supported_types/nvidia-1148/available_instances: 0
sys/class/mdev_bus/0.0.0313/mdev_supported_types/vfio_ccw-io/available_instances: 1
sys/class/mdev_bus/0.0.0313/mdev_supported_types/vfio_ccw-io/device_api: vfio-ccw
sys/class/mdev_bus/0000:42:00.0/mdev_supported_types/it is none/available_instances: 1
sys/bus/pci/devices/0000:00:1f.0/class: 0x060100
sys/bus/pci/devices/0000:00:1f.0/vendor: 0x8086
`

// unpackTree writes a recorded tree to a temporary directory and returns its path.
func unpackTree(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	var file string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		name, content, isFile := strings.Cut(line, ": ")
		link, to, isLink := strings.Cut(strings.TrimSpace(line), " -> ")
		switch {
		case isLink:
			writeFile(t, filepath.Join(root, filepath.Dir(link), "x"), "")
			if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
				t.Fatal(err)
			}
		case isFile && (strings.HasPrefix(name, "sys/") || strings.HasPrefix(name, "proc/") || strings.HasPrefix(name, "etc/")):
			file = filepath.Join(root, name)
			writeFile(t, file, content)
		default:
			if strings.TrimSpace(line) == "." {
				line = "\n"
			}
			writeFile(t, file, line)
		}
	}
	return root
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

func TestInventoryReadFromRecordedServerFiles(t *testing.T) {
	t.Parallel()
	inv, err := readInventoryBelow(t.Context(), unpackTree(t, recordedServerTree))
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, got, want any) {
		t.Helper()
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s:\n got %s\nwant %s", what, a, b)
		}
	}
	want("OS", inv.OS, "Debian GNU/Linux 12")
	want("boot id", inv.BootID, "11111111-2222-3333-4444-555555555555")
	want("UUID", inv.HostUUID, "4c4c4544-0044-4810-8031-b4c04f4d3732")
	want("machine", inv.Machine, "Dell Inc. PowerEdge R650")
	want("memory", inv.MemoryBytes, int64(32<<30))
	want("CPU", inv.CPU, fleet.CPU{
		Model: "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", Vendor: "GenuineIntel", Sockets: 2, Cores: 2, Threads: 2, Features: []string{"fpu", "vmx", "avx2"},
	})
	want("huge pages", inv.HugePages, []fleet.HugePages{{SizeKiB: 2048, Total: 512, Free: 500}})
	want("NUMA", inv.NUMA, []fleet.NUMANode{{ID: 0, MemoryBytes: 16 << 30, Threads: []int{0}}, {ID: 1, MemoryBytes: 16 << 30, Threads: []int{1}}})
	want("NICs", inv.NICs, []fleet.HostNIC{
		{Name: "br0", MAC: "3c:fd:fe:00:00:01", Kind: "bridge", Up: true},
		{Name: "eno1", MAC: "3c:fd:fe:00:00:01", Driver: "ice", Kind: "physical", SpeedMbps: 25000, Up: true, MTU: 9000, VFs: 1, VFsTotal: 64, Master: "br0"},
		{Name: "storage", MAC: "3c:fd:fe:00:00:01", Kind: "vlan", Up: true, Over: "eno1"},
	})
	want("disks", inv.Disks, []fleet.HostDisk{
		{Name: "nvme0n1", Kind: "nvme", Model: "SAMSUNG MZQL23T8", SizeBytes: 7501476528 * 512},
		{Name: "sda", Kind: "hdd", SizeBytes: 3907029168 * 512},
	})
	want("devices", inv.Devices, []fleet.HostDevice{
		{Device: "pci/0000:00:1f.3", Name: "PCI 8086 a348", Class: "0x040300"},
		{Device: "pci/0000:41:00.0", Name: "PCI 10de 26b9", Class: "0x030200", Driver: "vfio-pci", IOMMU: "17"},
		{Device: "usb/046d:c52b", Name: "Logitech Receiver"},
		{Device: "usb/0529:0620", Name: "USB 0529:0620"},
		{Device: "mdev/nvidia-1147", Name: "NVIDIA L40S-4Q", Parents: []string{"0000:41:00.0", "0000:42:00.0"}, Max: 4, Free: 3},
		{Device: "mdev/nvidia-1148", Name: "nvidia-1148", Parents: []string{"0000:42:00.0"}},
		{Device: "usb-port/1-1", Name: "Logitech Receiver"},
		{Device: "usb-port/1-2", Name: "USB 046d:c52b"},
		{Device: "usb-port/1-4.1", Name: "USB 0529:0620"},
		{Device: "usb-port/1-4.2", Empty: true},
		{Device: "usb-port/1-10", Empty: true},
	})
	want("GPUs", inv.GPUs, []fleet.GPU{{
		Address: "0000:41:00.0", Vendor: "NVIDIA", Product: "PCI device 26b9", Driver: "vfio-pci", VFsTotal: 32, MdevTypes: []string{"nvidia-1147"},
	}})
}

func TestInventoryOfTestMachineIsComplete(t *testing.T) {
	t.Parallel()
	inv, err := Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if inv.Hostname == "" || inv.Kernel == "" || inv.CPU.Threads < 1 || inv.CPU.Sockets < 1 || inv.MemoryBytes < 1<<20 || inv.BootID == "" {
		t.Errorf("the inventory is %+v", inv)
	}
	if again, _ := Read(t.Context()); again.BootID != inv.BootID || again.HostUUID != inv.HostUUID {
		t.Error("a second reading is of another machine")
	}
	if load, err := NewSampler().Sample(t.Context()); err != nil || load.MemoryTotal == 0 {
		t.Errorf("the load is %+v, %v", load, err)
	}
}

func TestCPURangesAreParsed(t *testing.T) {
	t.Parallel()
	if got := parseCPURanges("0-2,8,10-11"); !slices.Equal(got, []int{0, 1, 2, 8, 10, 11}) {
		t.Errorf("got %v", got)
	}
	if got := parseCPURanges(""); len(got) != 0 {
		t.Errorf("an empty list is %v", got)
	}
}
