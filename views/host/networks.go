package host

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/network"
)

var networkColumns = kit.Columns{
	{Key: "state", Label: "State here"},
	{Key: "kind", Label: "Kind"},
	{Key: "forward", Label: "Forward mode"},
	{Key: "bridge", Label: "Bridge"},
	{Key: "subnets", Label: "Subnets"},
	{Key: "starts", Label: "Starts with the host"},
	{Key: "says", Label: "Host report"},
}

func (p Page) networkMatrix() kit.StatusMatrix[fleet.NetworkView] {
	m := hostMatrix(p, "Networks", "Network", networkColumns, p.Networks)
	m.Row = func(n fleet.NetworkView) kit.Row {
		return kit.Row{ID: "net-" + string(n.ID), Name: n.Name, Href: views.NetworkPath(n.ID)}
	}
	m.RowCells = func(head kit.Columns, n fleet.NetworkView) templ.Component {
		return network.RowCells(head, n, network.StatusOnHost(n, p.Host.ID), p.Now)
	}
	m.EmptyContent = kit.EmptyListNote("network", "No networks", "The host reports no libvirt network and no bridge. Create one there with virsh net-define, or as a bridge device.")
	return m
}
