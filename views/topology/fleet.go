package topology

import (
	"strconv"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Limits of one page of the fleet's picture.
const (
	MaxFleetHosts    = 25
	MaxFleetNetworks = 24
)

// Measures of the fleet's picture: a row for each host, a rail for each network.
const (
	railGap   = 40
	rowHeight = 52
	railTop   = 132 // for the slanted network names
	railLeft  = boxWidth + 36
	railRight = 110 // right of the last rail, for its name
)

// NetworkRail is a network, drawn as a vertical line.
type NetworkRail struct {
	Network     fleet.NetworkView
	Name, Title string
	X, Y1, Y2   int
	Severity    fleet.Severity
}

// RailCrossing is the status of a network on a host. It is drawn where the host's line crosses the network's rail.
type RailCrossing struct {
	X, Y     int
	Severity fleet.Severity
	Title    string
	Href     string
}

// HostRow is a host with a horizontal line. The line leads to the rail of the last network that the host has.
type HostRow struct {
	Box
	Y  int
	X2 int // 0: the host has no network
}

// FleetPictureLayout is the picture of hosts and networks.
type FleetPictureLayout struct {
	W, H      int
	Rails     []NetworkRail
	Rows      []HostRow
	Crossings []RailCrossing
}

// LayOutFleet lays out hosts as rows and networks as rails, in the given order.
func LayOutFleet(in diagram.NetworkGrid) FleetPictureLayout {
	out := FleetPictureLayout{W: railLeft + len(in.Networks.Items)*railGap + railRight, H: railTop + len(in.Hosts.Items)*rowHeight + pictureMargin}
	for i, n := range in.Networks.Items {
		r := NetworkRail{Network: n, Name: cutToWidth(n.Name, 12, railTop), X: railLeft + i*railGap + railGap/2, Severity: fleet.SeverityOK}
		switch t := n.Health.SeverityCounts; {
		case t.Bad > 0:
			r.Severity = fleet.SeverityBad
		case t.Unknown > 0:
			r.Severity = fleet.SeverityUnknown
		case t.Warn > 0:
			r.Severity = fleet.SeverityWarn
		}
		r.Title = n.Name + ": healthy on " + strconv.Itoa(n.Health.SeverityCounts.OK) + " of " + kit.CountText(n.Health.Hosts, "host")
		if b := n.Health.SeverityCounts.Bad; b > 0 {
			r.Title += ", failed on " + strconv.Itoa(b)
		}
		out.Rails = append(out.Rails, r)
	}
	for i, h := range in.Hosts.Items {
		row := HostRow{Box: Box{hostNode(h), pictureMargin, railTop + i*rowHeight, boxWidth, boxHeight}}
		row.Y = row.Box.Y + boxHeight/2
		for k := range out.Rails {
			r := &out.Rails[k]
			status, ok := in.Statuses[diagram.NetworkOnHost{Network: r.Network.ID, Host: h.ID}]
			if !ok {
				continue
			}
			if r.Y1 == 0 {
				r.Y1 = railTop - 8
			}
			r.Y2, row.X2 = row.Y, r.X
			tap := RailCrossing{X: r.X, Y: row.Y, Severity: status.State.Severity(), Href: views.TabPath(views.HostPath(h.ID), "topology")}
			word := stateWords[status.State]
			if status.Leaving {
				tap.Severity, word = fleet.SeverityWarn, "being released"
			}
			tap.Title = r.Network.Name + " on " + h.Name + ": " + word
			out.Crossings = append(out.Crossings, tap)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

var stateWords = map[fleet.NetworkState]string{
	fleet.NetworkPending: "pending", fleet.NetworkActive: "active", fleet.NetworkInactive: "inactive", fleet.NetworkFailed: "failed", fleet.NetworkUnknown: "unknown",
}

func hostNode(h fleet.HostView) Node {
	out := Node{
		ID: "host:" + string(h.ID), Icon: "server", Kind: "Host", Name: h.Name, Severity: h.Phase.Severity(), Word: h.Phase.DisplayName(), Detail: kit.CountText(h.VMs, "VM"),
		Href: views.TabPath(views.HostPath(h.ID), "topology"),
	}
	if h.Phase != fleet.HostOnline || h.Status == nil {
		return out
	}
	w := reportedDevices{host: h.ID, nics: h.Status.Inventory.NICs, online: true}
	lost := 0
	for _, n := range w.nics {
		if tone, _, _ := w.deviceState(n); tone == fleet.SeverityBad {
			lost++
		}
	}
	if lost > 0 {
		out.Severity, out.Word = fleet.SeverityBad, kit.CountText(lost, "device")+" without link"
	}
	return out
}

// lineSeverity is the severity of the host's line. Faults are shown by the host's box, not by its line.
func (r HostRow) lineSeverity() fleet.Severity {
	if r.Severity == fleet.SeverityUnknown {
		return r.Severity
	}
	return fleet.SeverityOK
}

// networksOnHost lists the host's networks for whose status matches returns true.
func networksOnHost(in diagram.NetworkGrid, h fleet.HostView, matches func(diagram.NetworkHostStatus) bool) (out []Node) {
	for _, n := range in.Networks.Items {
		if c, ok := in.Statuses[diagram.NetworkOnHost{Network: n.ID, Host: h.ID}]; ok && matches(c) {
			out = append(out, Node{Name: n.Name + stateSuffix(c)})
		}
	}
	return out
}

func stateSuffix(c diagram.NetworkHostStatus) string {
	switch {
	case c.Leaving:
		return " (being released)"
	case c.State == fleet.NetworkActive:
		return ""
	}
	return " (" + stateWords[c.State] + ")"
}

func isHealthy(c diagram.NetworkHostStatus) bool   { return c.State == fleet.NetworkActive && !c.Leaving }
func isUnhealthy(c diagram.NetworkHostStatus) bool { return !isHealthy(c) }
