package pool

import (
	"strconv"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var onHosts = kit.Columns{
	{Key: "state", Word: "State"},
	{Key: "used", Word: "Used", Class: "w-bar"},
	{Key: "free", Word: "Free", Class: "num"},
	{Key: "path", Word: "Mounted at"},
	{Key: "says", Word: "What the host says"},
	{Key: "host", Word: "Host is"},
	{Key: "heard", Word: "Heard"},
}

func (p Page) matrix() kit.Matrix[fleet.PoolHost] {
	m := kit.HostsMatrix(p.Link, "Health on each host", onHosts, p.Cells)
	m.Row = func(h fleet.PoolHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.HostPath(h.HostID)}
	}
	m.Cells = func(head kit.Columns, h fleet.PoolHost) templ.Component { return Cells(head, p.Pool, h, p.Now) }
	m.Acts = func(h fleet.PoolHost) []kit.Act { return cellActs(p.Actor, p.Pool, h) }
	if m.None == nil {
		m.None = onNoHost(p)
	}
	return m
}

func (p Page) countedHow() string {
	switch {
	case p.Pool.Spec.Shared:
		return "shared: counted once"
	case p.Pool.Health.Healthy == 1:
		return "of one healthy host"
	}
	return "of " + strconv.Itoa(p.Pool.Health.Healthy) + " healthy hosts together"
}
