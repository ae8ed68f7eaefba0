package views

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// Matrix is a card with what hosts say about objects that they execute, a row about each T: one object on all its hosts, or all
// objects on one host.
type Matrix[T any] struct {
	Title string
	Aside templ.Component // beside the title
	Label string          // of the table
	Class string
	First string  // the head of the first column
	Head  Columns // of the others
	Items []T
	Row   func(T) Row
	Cells func(Columns, T) templ.Component // after the first
	Acts  func(T) []Act                    // nil: rows have none of their own
	None  templ.Component                  // said where there are no rows
}

// hostsMatrix is the matrix of one object on its hosts.
func hostsMatrix[T any](label string, head Columns, cells []T) Matrix[T] {
	return Matrix[T]{Title: "Hosts", Aside: reportsHow(), Label: label, Class: "matrix", First: "Host", Head: head, Items: cells}
}

// hereMatrix is the matrix of one host's objects of a noun.
func hereMatrix[T any](p HostPage, title, first string, head Columns, objects []T) Matrix[T] {
	return Matrix[T]{Title: title, Aside: Seen(p.Host.SeenAt, p.Now), Label: title, First: first, Head: head, Items: objects}
}

var poolOnHosts = Columns{
	{Key: "state", Word: "State"},
	{Key: "used", Word: "Used", Class: "w-bar"},
	{Key: "free", Word: "Free", Class: "num"},
	{Key: "path", Word: "Mounted at"},
	{Key: "says", Word: "What the host says"},
	{Key: "host", Word: "Host is"},
	{Key: "heard", Word: "Heard"},
}

func (p PoolPage) matrix() Matrix[fleet.PoolHost] {
	m := hostsMatrix("Health on each host", poolOnHosts, p.Pool.Hosts)
	m.Row = func(h fleet.PoolHost) Row {
		return Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: HostPath(h.HostID)}
	}
	m.Cells = func(head Columns, h fleet.PoolHost) templ.Component { return poolCells(head, p.Pool, h, p.Now) }
	m.Acts = func(h fleet.PoolHost) []Act { return cellActs(p.Actor, h) }
	m.None = poolOnNoHost(p)
	return m
}

var poolsHere = Columns{
	{Key: "state", Word: "State here"},
	{Key: "kind", Word: "Kind"},
	{Key: "path", Word: "Mounted at"},
	{Key: "used", Word: "Used", Class: "w-bar"},
	{Key: "free", Word: "Free", Class: "num"},
	{Key: "says", Word: "What the host says"},
}

func (p HostPage) pools() Matrix[fleet.PoolView] {
	m := hereMatrix(p, "Pools of Quantix", "Pool", poolsHere, p.Pools)
	m.Row = func(v fleet.PoolView) Row {
		id := string(v.ID)
		return Row{ID: "pool-" + id, Name: v.Name, Href: PoolPath(v.ID), Menu: MenuPath(fleet.NounPool, v.ID)}
	}
	m.Cells = func(head Columns, v fleet.PoolView) templ.Component {
		return poolCells(head, v, cellOf(v, p.Host.ID), p.Now)
	}
	m.None = noPoolsHere()
	return m
}

// cellOf is the pool's part on one host.
func cellOf(v fleet.PoolView, host fleet.HostID) fleet.PoolHost {
	for _, h := range v.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.PoolHost{PoolID: v.ID, HostID: host, State: fleet.PoolPending, Assigned: true}
}

var networkOnHosts = Columns{
	{Key: "state", Word: "State"},
	{Key: "forward", Word: "Forward mode"},
	{Key: "bridge", Word: "Bridge"},
	{Key: "subnets", Word: "Subnets"},
	{Key: "starts", Word: "Starts with the host"},
	{Key: "says", Word: "What the host says"},
	{Key: "heard", Word: "Heard"},
}

func (p NetworkPage) matrix() Matrix[fleet.NetworkHost] {
	m := hostsMatrix("The network on each host", networkOnHosts, p.Network.Hosts)
	m.Row = func(h fleet.NetworkHost) Row {
		return Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: TabPath(HostPath(h.HostID), "networks")}
	}
	m.Cells = func(head Columns, h fleet.NetworkHost) templ.Component {
		return networkCells(head, p.Network.Kind, h, p.Now)
	}
	m.None = Empty("server", "On no host", "No host reports this network any more.")
	return m
}

var networksHere = Columns{
	{Key: "state", Word: "State here"},
	{Key: "kind", Word: "Kind"},
	{Key: "forward", Word: "Forward mode"},
	{Key: "bridge", Word: "Bridge"},
	{Key: "subnets", Word: "Subnets"},
	{Key: "starts", Word: "Starts with the host"},
}

func (p HostPage) networks() Matrix[fleet.NetworkView] {
	m := hereMatrix(p, "Networks", "Network", networksHere, p.Networks)
	m.Row = func(n fleet.NetworkView) Row {
		return Row{ID: "net-" + string(n.ID), Name: n.Name, Href: NetworkPath(n.ID)}
	}
	m.Cells = func(head Columns, n fleet.NetworkView) templ.Component {
		return networkCells(head, n.Kind, networkHere(n, p.Host.ID), p.Now)
	}
	m.None = Empty("network", "No networks", "The host reports neither a network of libvirt nor a bridge. Define one there, by virsh net-define or as a bridge device.")
	return m
}

func networkHere(n fleet.NetworkView, host fleet.HostID) fleet.NetworkHost {
	for _, h := range n.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.NetworkHost{NetworkID: n.ID, HostID: host}
}

// networkSays is one thing that a host says about a network.
func networkSays(key string, kind fleet.NetworkKind, s *fleet.NetworkStatus) string {
	switch key {
	case "forward":
		return forwardWord(fleet.NetworkView{Network: fleet.Network{Kind: kind}}, s)
	case "bridge":
		return s.Bridge
	case "subnets":
		return subnetWords(fleet.NetworkView{}, s)
	}
	return startsWithHost(kind, s)
}
