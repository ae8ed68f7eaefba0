package network

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var onHosts = kit.Columns{
	{Key: "state", Word: "State"},
	{Key: "forward", Word: "Forward mode"},
	{Key: "bridge", Word: "Bridge"},
	{Key: "subnets", Word: "Subnets"},
	{Key: "starts", Word: "Starts with the host"},
	{Key: "says", Word: "What the host says"},
	{Key: "heard", Word: "Heard"},
}

func (p Page) matrix() kit.Matrix[fleet.NetworkHost] {
	m := kit.HostsMatrix(p.Link, "The network on each host", onHosts, p.Cells)
	m.Row = func(h fleet.NetworkHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "networks")}
	}
	m.Cells = func(head kit.Columns, h fleet.NetworkHost) templ.Component {
		return Cells(head, p.Network, h, p.Now)
	}
	if p.Network.Spec != nil {
		m.Acts = func(h fleet.NetworkHost) []kit.Act { return cellActs(p.Actor, p.Network, h) }
	}
	if m.None == nil {
		m.None = onNoHost(p)
	}
	return m
}
