package topology_test

import (
	"fmt"
	"time"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
)

var (
	now          = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	recentReport = fleet.ReportTime{Time: now.Add(-5 * time.Second)}
	staleReport  = fleet.ReportTime{Time: now.Add(-5 * time.Minute)}
)

// bondedServer is a host with two NICs in a bond, a VLAN on the bond under a bridge, a NIC with its own bridge, and an
// unused NIC.
func bondedServer() diagram.HostTopology {
	h := fleet.HostView{Host: fleet.Host{ID: "h1", Name: "host-1", SeenAt: &recentReport, InventoryAt: &recentReport, Status: &fleet.HostStatus{Connected: true}}, Phase: fleet.HostOnline, VMs: 3}
	h.Status.Inventory = fleet.Inventory{NICsCurrent: true, NICs: []fleet.HostNIC{
		{Name: "bond0", Kind: "bond", Up: true},
		{Name: "bond0.20", Kind: "vlan", Up: true, Over: "bond0", Master: "br20"},
		{Name: "br0", Kind: "bridge", Up: true},
		{Name: "br20", Kind: "bridge", Up: true},
		{Name: "eno1", Kind: "physical", Up: true, SpeedMbps: 25000, Master: "bond0"},
		{Name: "eno2", Kind: "physical", Up: true, SpeedMbps: 25000, Master: "bond0"},
		{Name: "eno3", Kind: "physical", Up: true, SpeedMbps: 1000, Master: "br0", Agent: true},
		{Name: "eno4", Kind: "physical"},
		{Name: "virbr0", Kind: "bridge"},
	}}
	return diagram.HostTopology{
		Host: h,
		Networks: []fleet.NetworkView{
			newNetworkView("br0", fleet.NetworkBridge, fleet.NetworkStatus{Active: true}),
			newNetworkView("br20", fleet.NetworkBridge, fleet.NetworkStatus{Active: true}),
			newNetworkView("default", fleet.NetworkLibvirt, fleet.NetworkStatus{Active: true, Bridge: "virbr0", Forward: "nat", Subnets: []string{"192.168.122.0/24"}}),
		},
		VMs: []fleet.VMView{
			newVMView("db-1", "network default", "bridge br20"), newVMView("web-1", "bridge br0"), newVMView("web-2", "bridge br0"),
		},
	}
}

func newNetworkView(name string, kind fleet.NetworkKind, st fleet.NetworkStatus) fleet.NetworkView {
	n := fleet.NetworkView{Network: fleet.Network{ID: fleet.NetworkID("n-" + name), Name: name, Kind: kind}}
	status := fleet.NetworkHost{NetworkID: n.ID, HostID: "h1", HostName: "host-1", Status: &st, SeenAt: &recentReport}
	status.State = status.StateAt(now)
	n.Hosts = []fleet.NetworkHost{status}
	return n
}

func newVMView(name string, sources ...string) fleet.VMView {
	v := fleet.VMView{VM: fleet.VM{Meta: fleet.Meta{ID: fleet.VMID("v-" + name), Name: name, HostID: "h1"}, Status: &fleet.VMStatus{Power: fleet.Running}}, Phase: fleet.PhaseRunning, HostName: "host-1"}
	for i, s := range sources {
		v.Status.NICs = append(v.Status.NICs, fleet.NICState{MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Source: s})
	}
	return v
}

// changedServer returns bondedServer after change has modified it.
func changedServer(change func(*diagram.HostTopology)) diagram.HostTopology {
	t := bondedServer()
	change(&t)
	return t
}

func vmNIC(t *diagram.HostTopology, name string) *fleet.HostNIC {
	for i := range t.Host.Status.Inventory.NICs {
		if n := &t.Host.Status.Inventory.NICs[i]; n.Name == name {
			return n
		}
	}
	panic("there is no device " + name)
}

func removeNIC(t *diagram.HostTopology, name string) {
	all := t.Host.Status.Inventory.NICs
	t.Host.Status.Inventory.NICs = nil
	for _, n := range all {
		if n.Name != name {
			t.Host.Status.Inventory.NICs = append(t.Host.Status.Inventory.NICs, n)
		}
	}
}
