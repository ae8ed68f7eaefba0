package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views/topology"
)

// officeNetwork is a bridged network on five hosts with a VM each: host-1 is healthy, host-2 has no cable, host-3
// failed, host-4 is offline, and host-5 has lost its bridge.
func officeNetwork() diagram.NetworkTopology {
	in := diagram.NetworkTopology{Devices: map[fleet.HostID]diagram.HostNetworkDevices{}}
	in.Network.Network = fleet.Network{ID: "n-office", Name: "office", Kind: fleet.NetworkLibvirt, Spec: &fleet.NetworkSpec{
		Mode: fleet.NetworkUplink, Device: "eth1", PortGroups: []fleet.PortGroup{{Name: "printers"}},
	}}
	for i := 1; i <= 5; i++ {
		id, name := fleet.HostID(fmt.Sprint("h", i)), fmt.Sprint("host-", i)
		c := fleet.NetworkHost{NetworkID: "n-office", HostID: id, HostName: name, SeenAt: &recentReport, Assigned: true, Status: &fleet.NetworkStatus{Active: true, Bridge: "qxb", Uplink: "eth1"}}
		nics := []fleet.HostNIC{{Name: "eth1", Kind: "physical", Up: i != 2, SpeedMbps: 10000, Master: "qxb"}, {Name: "qxb", Kind: "bridge", Up: true}}
		switch i {
		case 3:
			c.Status.Error = "Cannot get interface MTU on 'qxb': No such device"
		case 4:
			c.SeenAt = &staleReport
		case 5:
			nics = nics[:1]
		}
		c.State = c.StateAt(now)
		in.Hosts = append(in.Hosts, c)
		in.Devices[id] = diagram.HostNetworkDevices{NICs: nics, Current: true}
		v := newVMView(fmt.Sprint("web-", i))
		v.HostID, v.HostName = id, name
		v.Spec.NICs = []fleet.NIC{{NetworkID: "n-office", MAC: "52:54:00:00:00:01", PortGroup: []string{"printers", ""}[i%2]}, {NetworkID: "n-other", MAC: "52:54:00:00:00:02"}}
		in.VMs = append(in.VMs, v)
	}
	return in
}

func TestNetworkGraphConnectsHostsToVMs(t *testing.T) {
	t.Parallel()
	g := topology.NetworkGraph(officeNetwork(), now)
	checkPicture(t, topology.LayOut(g))
	for id, want := range map[string]string{
		"h1:dev:eth1": "ok Up", "h2:dev:eth1": "bad No link", "h4:dev:eth1": "unknown Unknown", "host:h1": "ok Active", "host:h3": "bad Failed", "host:h4": "unknown Unknown", "host:h5": "bad No bridge",
	} {
		if n := nodeOf(t, g, id); string(n.Severity)+" "+n.Word != want {
			t.Errorf("%s is drawn %s %q, want %s", id, n.Severity, n.Word, want)
		}
	}
	for line, want := range map[string]fleet.Severity{
		"h1:dev:eth1 > host:h1": fleet.SeverityOK, "h2:dev:eth1 > host:h2": fleet.SeverityBad, "host:h1 > net:n-office": fleet.SeverityOK, "host:h3 > net:n-office": fleet.SeverityBad, "host:h4 > net:n-office": fleet.SeverityUnknown,
		"net:n-office > vm:v-web-1": fleet.SeverityOK, "group:n-office:printers > vm:v-web-2": fleet.SeverityOK, "net:n-office > vm:v-web-3": fleet.SeverityBad, "group:n-office:printers > vm:v-web-4": fleet.SeverityUnknown, "net:n-office > vm:v-web-5": fleet.SeverityBad,
	} {
		from, to, _ := strings.Cut(line, " > ")
		if l := edgeOf(t, g, from, to); l.Severity != want {
			t.Errorf("the line %s is drawn %s, want %s", line, l.Severity, want)
		}
	}
	var faults []string
	for _, n := range g.Faults() {
		faults = append(faults, n.ID)
	}
	slices.Sort(faults)
	if want := []string{"h2:dev:eth1", "host:h3", "host:h5"}; !slices.Equal(faults, want) {
		t.Errorf("the faults are %v, want %v", faults, want)
	}
	if n := nodeOf(t, g, "net:n-office"); !n.IsSubject || g.Columns[n.Column] != "Network" {
		t.Errorf("the node of the network is %+v", n)
	}
}

// TestDeviceReportChangesOnlyReportingHost checks that one host's report never affects another host's devices.
func TestDeviceReportChangesOnlyReportingHost(t *testing.T) {
	t.Parallel()
	in := officeNetwork()
	before := topology.NetworkGraph(in, now)
	in.Devices["h2"] = diagram.HostNetworkDevices{Current: true} // a complete report without devices
	after := topology.NetworkGraph(in, now)
	for _, n := range before.Nodes {
		if strings.Contains(n.ID, "h2") {
			continue
		}
		if again := nodeOf(t, after, n.ID); again != n {
			t.Errorf("%s was %+v and is %+v", n.ID, n, again)
		}
	}
}

// TestNetworkGraphHidesHostsWithoutPermission checks that an actor who may not see hosts gets the network and the VMs
// of the actor's projects, with a link to the VMs that the picture omits.
func TestNetworkGraphHidesHostsWithoutPermission(t *testing.T) {
	t.Parallel()
	in := officeNetwork()
	in.Hosts, in.Devices = nil, nil
	for i := range in.VMs {
		in.VMs[i].HostID, in.VMs[i].HostName = "", ""
	}
	in.More, in.Further = 160, true
	g := topology.NetworkGraph(in, now)
	checkPicture(t, topology.LayOut(g))
	for _, n := range g.Nodes {
		if strings.Contains(n.ID+n.Detail+n.Explanation, "host-") || n.Column < 2 {
			t.Errorf("a user without access to hosts sees %+v", n)
		}
	}
	if n := nodeOf(t, g, "more"); n.Name != "and over 160 more" || n.Href != "/networks/n-office?tab=vms" {
		t.Errorf("the node of further VMs is %+v", n)
	}
}

func TestNetworkGraphLinksToOmittedHosts(t *testing.T) {
	t.Parallel()
	in := officeNetwork()
	in.MoreHosts = 9995
	for i := range 9 {
		d := in.Devices["h1"]
		d.NICs = append(d.NICs, fleet.HostNIC{Name: fmt.Sprint("p", i), Kind: "physical", Up: true, Master: "qxb"})
		in.Devices["h1"] = d
	}
	g := topology.NetworkGraph(in, now)
	checkPicture(t, topology.LayOut(g))
	if n := nodeOf(t, g, "more-hosts"); n.Name != "and 9995 more" || n.Href != "/networks/n-office?tab=hosts" {
		t.Errorf("the node of further hosts is %+v", n)
	}
	if n := nodeOf(t, g, "h1:dev:"); n.Name != "and 7 more" {
		t.Errorf("the node of further devices is %+v", n)
	}
}

func TestFleetPictureConnectsHostsToNetworks(t *testing.T) {
	t.Parallel()
	in := diagram.NetworkGrid{Statuses: map[diagram.NetworkOnHost]diagram.NetworkHostStatus{}}
	for i := range 3 {
		h := bondedServer().Host
		h.ID, h.Name = fleet.HostID(fmt.Sprint("h", i)), fmt.Sprint("host-", i)
		in.Hosts.Items = append(in.Hosts.Items, h)
		in.Networks.Items = append(in.Networks.Items, fleet.NetworkView{Network: fleet.Network{ID: fleet.NetworkID(fmt.Sprint("n", i)), Name: fmt.Sprint("net-", i)}})
	}
	in.Networks.Items[0].Health = fleet.NetworkHealth{Hosts: 10_000, Active: 9_998, SeverityCounts: fleet.SeverityCounts{OK: 9_998, Bad: 2}}
	in.Statuses[diagram.NetworkOnHost{Network: "n0", Host: "h0"}] = diagram.NetworkHostStatus{State: fleet.NetworkActive}
	in.Statuses[diagram.NetworkOnHost{Network: "n0", Host: "h2"}] = diagram.NetworkHostStatus{State: fleet.NetworkFailed}
	in.Statuses[diagram.NetworkOnHost{Network: "n2", Host: "h0"}] = diagram.NetworkHostStatus{State: fleet.NetworkActive, Leaving: true}
	r := topology.LayOutFleet(in)
	if len(r.Rows) != 3 || len(r.Rails) != 3 || len(r.Crossings) != 3 {
		t.Fatalf("%d rows, %d rails, %d signs", len(r.Rows), len(r.Rails), len(r.Crossings))
	}
	for i, want := range []struct {
		tone       fleet.Severity
		title      string
		rail, host int
	}{
		{fleet.SeverityOK, "net-0 on host-0: active", 0, 0}, {fleet.SeverityWarn, "net-2 on host-0: being released", 2, 0}, {fleet.SeverityBad, "net-0 on host-2: failed", 0, 2},
	} {
		if tap := r.Crossings[i]; tap.Severity != want.tone || tap.Title != want.title || tap.X != r.Rails[want.rail].X || tap.Y != r.Rows[want.host].Y {
			t.Errorf("sign %d is %+v, want %+v", i, tap, want)
		}
	}
	if r.Rails[0].Y2 != r.Rows[2].Y || r.Rails[1].Y2 != 0 || r.Rows[0].X2 != r.Rails[2].X || r.Rows[1].X2 != 0 {
		t.Errorf("a line ends at a wrong position: %+v", r)
	}
	if rail := r.Rails[0]; rail.Severity != fleet.SeverityBad || rail.Title != "net-0: healthy on 9998 of 10000 hosts, failed on 2" {
		t.Errorf("the rail of net-0 is %s, %q", rail.Severity, rail.Title)
	}
	for _, x := range r.Rows {
		if x.Box.Y+x.H > r.H || x.X+x.W > r.Rails[0].X {
			t.Errorf("%s is at %d,%d", x.Name, x.X, x.Box.Y)
		}
	}
}
