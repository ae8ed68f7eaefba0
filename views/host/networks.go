package host

import (
	"slices"

	"github.com/a-h/templ"

	"quantix/internal/adoption"
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
	m := hostMatrix(p, "Networks", "Network", networkColumns, slices.DeleteFunc(slices.Clone(p.Networks), func(n fleet.NetworkView) bool {
		_, found := adoption.DiscoveredOn(n, p.Host.ID)
		return found
	}))
	m.Row = func(n fleet.NetworkView) kit.Row {
		return kit.Row{ID: "net-" + string(n.ID), Name: n.Name, Href: views.NetworkPath(n.ID)}
	}
	m.RowCells = func(head kit.Columns, n fleet.NetworkView) templ.Component {
		return network.RowCells(head, n, network.StatusOnHost(n, p.Host.ID), p.Now)
	}
	m.EmptyContent = kit.EmptyListNote("network", "No networks", "No network is assigned to this host, and the host reports no bridge. Assign a network to the host, or create one.")
	return m
}

// discoveredNetworks lists the host's own networks that are not assigned to it.
func (p Page) discoveredNetworks() (out []adoption.DiscoveredNetwork) {
	for _, n := range p.Networks {
		if d, ok := adoption.DiscoveredOn(n, p.Host.ID); ok {
			out = append(out, d)
		}
	}
	return out
}
