package cli

import (
	"fmt"

	"quantix/agent/mock"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// The demo's resources together show every state, including failures.
var (
	demoHosts = []mock.Options{
		{Name: "host-1", UnmanagedVMs: []string{"legacy-erp", "old-mail"}, UnmanagedPools: demoHostPools, UnmanagedNetworks: demoHostNetworks},
		{Name: "host-2", UnmanagedVMs: []string{"vendor-appliance"}, UnmanagedPools: demoHostPools, UnmanagedNetworks: demoHostNetworks},
		{Name: "host-3"},
	}

	demoHostPools    = map[string]fleet.PoolSpec{"default": {Kind: fleet.PoolDir, Path: "/srv/images"}, "tank": {Kind: "zfs", Path: "/tank"}}
	demoHostNetworks = map[string]fleet.NetworkSpec{
		"factory": {Mode: fleet.NetworkNAT, DNS: true, Bridge: "virbr3", IPv4: &fleet.Subnet{
			Gateway: "192.168.130.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "192.168.130.50", End: "192.168.130.199"}}},
		}},
	}

	demoImages = []fleet.Volume{
		{Name: "debian-12.qcow2", Format: "qcow2", CapacityBytes: 4 << 30, AllocBytes: 640 << 20},
		{Name: "ubuntu-24.04.qcow2", Format: "qcow2", CapacityBytes: 4 << 30, AllocBytes: 720 << 20},
		{Name: "alma-9.qcow2", Format: "qcow2", CapacityBytes: 10 << 30, AllocBytes: 980 << 20},
		{Name: "debian-12-netinst.iso", Format: "iso", CapacityBytes: 660 << 20, AllocBytes: 660 << 20},
	}

	demoPools = []struct {
		name    string
		spec    fleet.PoolSpec
		hosts   []int
		healthy int // expected number of healthy hosts
	}{
		{"shared", fleet.PoolSpec{Kind: fleet.PoolNFS, Server: "nas-1.example", Export: "/exports/vm", Path: "/mnt/shared", Shared: true, Description: "The filer in rack 4."}, []int{0, 1, 2}, 3},
		{"local-nvme", fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/nvme"}, []int{0, 1}, 2},
		{"archive", fleet.PoolSpec{Kind: fleet.PoolNFS, Server: "refused.example", Export: "/exports/archive", Path: "/mnt/archive", Shared: true}, []int{2}, 0},
	}
)

// demoNetworks are the networks of the demo. The network no-dnsmasq-lab fails to start on its host.
var demoNetworks = []struct {
	name  string
	spec  fleet.NetworkSpec
	hosts []int
}{
	{"office", fleet.NetworkSpec{
		Mode: fleet.NetworkNAT, DNS: true, Domain: "office.example.org", Description: "Desks and printers.",
		IPv4: &fleet.Subnet{Gateway: "10.40.0.1/22", DHCP: &fleet.DHCP{
			Ranges: []fleet.AddressRange{{Start: "10.40.0.100", End: "10.40.3.200"}}, Leases: []fleet.StaticLease{{MAC: "52:54:00:40:00:10", IP: "10.40.0.10", Name: "printer"}},
		}},
		IPv6: &fleet.Subnet{Gateway: "fd00:40::1/64"},
	}, []int{0, 1, 2}},
	{"backup", fleet.NetworkSpec{Mode: fleet.NetworkIsolated, Bridge: "qx-backup", MTU: 9000, IPv4: &fleet.Subnet{Gateway: "10.41.0.1/24"}}, []int{0, 1}},
	{"no-dnsmasq-lab", fleet.NetworkSpec{Mode: fleet.NetworkRouted, DNS: true, IPv4: &fleet.Subnet{Gateway: "10.42.0.1/24"}}, []int{2}},
	{"tenants", fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 4711, Underlay: "10.99.0.0/16", Description: "One wire across all hosts."}, []int{0, 1, 2}},
}

type demoVM struct {
	name, project string
	labels        map[string]string
	cpus, mib     int
	gib           int64
	image         string
	start         bool
}

var demoVMs = func() []demoVM {
	var out []demoVM
	add := func(n int, name, project, image string, cpus, mib int, gib int64, start bool, labels map[string]string) {
		for i := range n {
			out = append(out, demoVM{fmt.Sprintf("%s-%02d", name, i+1), project, labels, cpus, mib, gib, image, start})
		}
	}
	add(8, "web", "shop", "debian-12.qcow2", 2, 4096, 20, true, map[string]string{"env": "prod", "tier": "web"})
	add(3, "db", "shop", "debian-12.qcow2", 8, 32768, 200, true, map[string]string{"env": "prod", "tier": "db"})
	add(4, "web-test", "shop", "debian-12.qcow2", 1, 2048, 20, false, map[string]string{"env": "test", "tier": "web"})
	add(6, "pay", "finance", "alma-9.qcow2", 2, 8192, 40, true, map[string]string{"env": "prod"})
	add(2, "ledger", "finance", "alma-9.qcow2", 4, 16384, 100, true, map[string]string{"env": "prod", "tier": "db"})
	add(8, "build", "ci", "ubuntu-24.04.qcow2", 8, 16384, 80, true, map[string]string{"env": "ci"})
	add(3, "runner", "ci", "ubuntu-24.04.qcow2", 4, 8192, 40, false, map[string]string{"env": "ci"})
	add(3, "desk", "office", "ubuntu-24.04.qcow2", 2, 4096, 40, true, map[string]string{"os": "linux"})
	for _, name := range []string{"fail-start-kiosk", "no-shutdown-plc", "files"} {
		out = append(out, demoVM{name, "office", map[string]string{"env": "prod"}, 2, 2048, 20, "debian-12.qcow2", true})
	}
	return out
}()

func (v demoVM) createRequest(project fleet.ProjectID, host fleet.HostID, pool fleet.PoolID) control.CreateVM {
	return control.CreateVM{
		ProjectID: project, Name: v.name, HostID: host, Labels: v.labels, Start: v.start,
		Spec: fleet.VMSpec{
			CPUs: v.cpus, MemoryMiB: v.mib, Firmware: fleet.UEFI,
			Disks: []fleet.Disk{{PoolID: pool, SizeBytes: v.gib << 30, Image: &fleet.Volref{PoolID: pool, Volume: v.image}}},
			NICs:  []fleet.NIC{{Network: "default"}},
		},
	}
}
