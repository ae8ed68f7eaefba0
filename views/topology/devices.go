package topology

import (
	"cmp"
	"slices"
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
)

// maxDrawnDevices is how many devices of a host one picture shows.
const maxDrawnDevices = 48

// reportedDevices holds a host's network devices as its agent reported them.
type reportedDevices struct {
	host     fleet.HostID
	prefix   string // prefix of node ids
	nics     []fleet.HostNIC
	online   bool // the host is online, so its report is current
	complete bool // the device list is complete, so a device that is not listed does not exist
}

func (w reportedDevices) id(name string) string { return w.prefix + "dev:" + name }

func (w reportedDevices) deviceByName(name string) (fleet.HostNIC, bool) {
	i := slices.IndexFunc(w.nics, func(n fleet.HostNIC) bool { return n.Name == name })
	if name == "" || i < 0 {
		return fleet.HostNIC{}, false
	}
	return w.nics[i], true
}

// devicesBelow returns the devices directly below n: the ports of a bridge or bond, and the parent device of a VLAN.
func (w reportedDevices) devicesBelow(n fleet.HostNIC) (out []fleet.HostNIC) {
	for _, d := range w.nics {
		if d.Name != n.Name && (d.Master == n.Name || d.Name == n.Over) {
			out = append(out, d)
		}
	}
	return out
}

// maxDeviceDepth is the maximum depth of stacked devices: physical NICs, bonds, VLANs, bridges, and VLANs on bridges.
const maxDeviceDepth = 5

// deviceDepths returns each device's distance from the physical NICs, by name. All bridges have the same depth, except
// bridges on a VLAN of another bridge.
func (w reportedDevices) deviceDepths() map[string]int {
	var of func(n fleet.HostNIC, bridges, left int) (depth int, bridged bool)
	of = func(n fleet.HostNIC, bridges, left int) (depth int, bridged bool) {
		switch n.Kind {
		case "physical":
			return 0, false
		case "bridge":
			depth, bridged = bridges, true
		default:
			depth = 1
		}
		if left == 0 {
			return depth, bridged // a host's report may contain cycles
		}
		for _, b := range w.devicesBelow(n) {
			d, over := of(b, bridges, left-1)
			depth, bridged = max(depth, d+1), bridged || over
		}
		return depth, bridged
	}
	bridges := 1
	for _, n := range w.nics {
		if d, bridged := of(n, 0, maxDeviceDepth); !bridged {
			bridges = max(bridges, d+1)
		}
	}
	out := map[string]int{}
	for _, n := range w.nics {
		d, _ := of(n, bridges, maxDeviceDepth)
		out[n.Name] = min(d, maxDeviceDepth)
	}
	return out
}

// isDeviceInUse reports whether the device has a master device, an IP address or a device on top, or carries the agent's
// connection.
func (w reportedDevices) isDeviceInUse(n fleet.HostNIC) bool {
	return n.Master != "" || n.Agent || len(n.Addresses) > 0 || slices.ContainsFunc(w.nics, func(d fleet.HostNIC) bool { return d.Over == n.Name || d.Master == n.Name })
}

var deviceKinds = map[string]struct{ icon, one, many string }{
	"physical": {"ethernet-port", "Physical NIC", "Physical NICs"},
	"bond":     {"link", "Bond", "Bonds"},
	"vlan":     {"tag", "VLAN", "VLANs"},
	"virtual":  {"layers", "Virtual device", "Virtual devices"},
	"bridge":   {"columns-3", "Bridge", "Bridges"},
}

// deviceNode is the node of a network device.
func (w reportedDevices) deviceNode(n fleet.HostNIC, column int) Node {
	kind := deviceKinds[n.Kind]
	out := Node{
		ID: w.id(n.Name), Column: column, Name: n.Name, Kind: kind.one, Icon: cmp.Or(kind.icon, "ethernet-port"), Detail: speedText(n.SpeedMbps),
		Href: views.TabPath(views.HostPath(w.host), "hardware"),
	}
	out.Severity, out.Word, out.Explanation = w.deviceState(n)
	if n.Agent {
		out.Detail = joinText(out.Detail, "agent connection")
	}
	if n.Kind == "bond" {
		up, all := 0, 0
		for _, p := range w.devicesBelow(n) {
			if all++; p.Up {
				up++
			}
		}
		if out.Detail = strconv.Itoa(up) + " of " + strconv.Itoa(all) + " ports up"; up < all && out.Severity == fleet.SeverityOK {
			out.Severity, out.Word, out.Explanation = fleet.SeverityWarn, "Degraded", "The bond "+n.Name+" has lost "+strconv.Itoa(all-up)+" of its "+strconv.Itoa(all)+" ports."
		}
	}
	return out
}

func (w reportedDevices) deviceState(n fleet.HostNIC) (tone fleet.Severity, word, says string) {
	switch {
	case !w.online:
		return fleet.SeverityUnknown, "Unknown", ""
	case n.Up:
		return fleet.SeverityOK, "Up", ""
	case n.Kind == "bridge":
		return fleet.SeverityIdle, "No port is up", "" // normal for a bridge without guests
	case n.Kind == "virtual":
		return fleet.SeverityIdle, "", "" // the kernel reports no link state for virtual devices
	case w.isDeviceInUse(n):
		return fleet.SeverityBad, "No link", n.Name + " has no link, so devices connected through it have no network."
	}
	return fleet.SeverityIdle, "Not connected", ""
}

// addDevices adds the devices and their connections to the graph, devices in use first, and returns the number of
// columns. needed holds the names of the devices that networks use.
func (w reportedDevices) addDevices(g *Graph, needed map[string]bool) (columns int) {
	depth := w.deviceDepths()
	var shown []fleet.HostNIC
	for _, n := range w.nics {
		if n.Kind != "virtual" || n.Master != "" || w.isDeviceInUse(n) || needed[n.Name] {
			shown = append(shown, n)
		}
	}
	more := 0
	if len(shown) > maxDrawnDevices {
		idle := func(n fleet.HostNIC) int {
			if w.isDeviceInUse(n) || needed[n.Name] {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(shown, func(a, b fleet.HostNIC) int { return cmp.Compare(idle(a), idle(b)) })
		more, shown = len(shown)-maxDrawnDevices, shown[:maxDrawnDevices]
	}
	kinds := make([][]string, maxDeviceDepth+1)
	for _, n := range shown {
		c := depth[n.Name]
		columns = max(columns, c+1)
		g.addNode(w.deviceNode(n, c))
		if word := cmp.Or(deviceKinds[n.Kind].many, "Devices"); !slices.Contains(kinds[c], word) {
			kinds[c] = append(kinds[c], word)
		}
	}
	if more > 0 {
		g.addNode(Node{
			ID: w.id(""), Icon: "ellipsis", Kind: "Devices", Name: "and " + strconv.Itoa(more) + " more devices", Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.HostPath(w.host), "hardware"),
		})
		columns = max(columns, 1)
	}
	for c := range columns {
		slices.Sort(kinds[c])
		g.Columns = append(g.Columns, joinWords(kinds[c]))
	}
	for _, n := range shown {
		for _, b := range w.devicesBelow(n) {
			g.addEdge(Edge{From: w.id(b.Name), To: w.id(n.Name), Severity: w.lineSeverity(b), Description: b.Name + " – " + n.Name})
		}
	}
	return columns
}

// lineSeverity is the severity of a line that begins at the device.
func (w reportedDevices) lineSeverity(n fleet.HostNIC) fleet.Severity {
	tone, _, _ := w.deviceState(n)
	return tone
}
