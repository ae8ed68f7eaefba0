package network

import (
	"slices"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var onHosts = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "forward", Label: "Forward mode"},
	{Key: "bridge", Label: "Bridge"},
	{Key: "subnets", Label: "Subnets"},
	{Key: "starts", Label: "Starts with the host"},
	{Key: "says", Label: "Host report"},
	{Key: "heard", Label: "Last seen"},
}

// onWires are the columns for networks without an address on the hosts.
var onWires = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "bridge", Label: "Bridge"},
	{Key: "uplink", Label: "Uplink"},
	{Key: "mtu", Label: "MTU"},
	{Key: "starts", Label: "Starts with the host"},
	{Key: "says", Label: "Host report"},
	{Key: "heard", Label: "Last seen"},
}

// onOverlays are the columns for overlays: onWires with the host's tunnel endpoint and peers.
var onOverlays = slices.Insert(slices.Clone(onWires), 3, kit.Column{Key: "vtep", Label: "Tunnel endpoint"}, kit.Column{Key: "peers", Label: "Peers"})

// onDevices are the columns for networks without a bridge. onCounted adds the number of used NIC slots, for modes that
// limit it.
var (
	onDevices = slices.Delete(slices.Clone(onWires), 1, 2)
	onCounted = slices.Insert(slices.Clone(onDevices), 1, kit.Column{Key: "nics", Label: "NICs"})
)

func columnsOf(n fleet.NetworkView) kit.Columns {
	switch {
	case n.Spec == nil || n.Spec.Mode.Is().Served:
		return onHosts
	case n.Spec.Mode == fleet.NetworkVXLAN:
		return onOverlays
	case n.Spec.Counted():
		return onCounted
	case n.Spec.Mode == fleet.NetworkMacvtap:
		return onDevices
	}
	return onWires
}

func (p Page) matrix() kit.Matrix[fleet.NetworkHost] {
	m := kit.HostsMatrix(p.Link, "The network on each host", columnsOf(p.Network), p.Statuses)
	m.Row = func(h fleet.NetworkHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "networks")}
	}
	m.RowCells = func(head kit.Columns, h fleet.NetworkHost) templ.Component {
		return RowCells(head, p.Network, h, p.Now)
	}
	if p.Network.Spec != nil {
		m.Acts = func(h fleet.NetworkHost) []kit.Act { return statusActs(p.Actor, p.Network, h) }
	}
	if m.None == nil {
		m.None = onNoHost(p)
	}
	return m
}
