package network

import (
	"slices"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var libvirtNetworkColumns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "forward", Label: "Forward mode"},
	{Key: "bridge", Label: "Bridge"},
	{Key: "subnets", Label: "Subnets"},
	{Key: "starts", Label: "Starts with the host"},
	{Key: "says", Label: "Host report"},
	{Key: "heard", Label: "Last seen"},
}

// bridgeColumns are the columns for networks for which hosts have no IP address.
var bridgeColumns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "bridge", Label: "Bridge"},
	{Key: "uplink", Label: "Uplink"},
	{Key: "mtu", Label: "MTU"},
	{Key: "starts", Label: "Starts with the host"},
	{Key: "says", Label: "Host report"},
	{Key: "heard", Label: "Last seen"},
}

// overlayColumns are the columns for overlays: bridgeColumns, and the host's tunnel endpoint and peers.
var overlayColumns = slices.Insert(slices.Clone(bridgeColumns), 3, kit.Column{Key: "vtep", Label: "Tunnel endpoint"}, kit.Column{Key: "peers", Label: "Peers"})

// deviceColumns are the columns for networks without a bridge. limitedNICColumns also has the number of NICs in use,
// for modes that limit this number.
var (
	deviceColumns     = slices.Delete(slices.Clone(bridgeColumns), 1, 2)
	limitedNICColumns = slices.Insert(slices.Clone(deviceColumns), 1, kit.Column{Key: "nics", Label: "NICs"})
)

func hostColumnsOf(n fleet.NetworkView) kit.Columns {
	switch {
	case n.Spec == nil || n.Spec.Mode.Info().HostAddresses:
		return libvirtNetworkColumns
	case n.Spec.Mode == fleet.NetworkVXLAN:
		return overlayColumns
	case n.Spec.HasExclusiveNICs():
		return limitedNICColumns
	case n.Spec.Mode == fleet.NetworkMacvtap:
		return deviceColumns
	}
	return bridgeColumns
}

func (p Page) hostMatrix() kit.StatusMatrix[fleet.NetworkHost] {
	m := kit.NewHostMatrix(p.Link, "The network on each host", hostColumnsOf(p.Network), p.Statuses)
	m.Row = func(h fleet.NetworkHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "networks")}
	}
	m.RowCells = func(head kit.Columns, h fleet.NetworkHost) templ.Component {
		return RowCells(head, p.Network, h, p.Now)
	}
	if p.Network.Spec != nil {
		m.RowActions = func(h fleet.NetworkHost) []kit.ActionButton { return hostActions(p.Actor, p.Network, h) }
	}
	if m.EmptyContent == nil {
		m.EmptyContent = noHostsNote(p)
	}
	return m
}
