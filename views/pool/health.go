package pool

import (
	"strconv"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

var hostColumns = kit.Columns{
	{Key: "state", Label: "State"},
	{Key: "used", Label: "Used", Class: "w-bar"},
	{Key: "free", Label: "Free", Class: "num"},
	{Key: "path", Label: "Mounted at"},
	{Key: "says", Label: "Host report"},
	{Key: "host", Label: "Host state"},
	{Key: "heard", Label: "Last seen"},
}

func (p Page) hostMatrix() kit.StatusMatrix[fleet.PoolHost] {
	m := kit.NewHostMatrix(p.Link, "Health on each host", hostColumns, p.Statuses)
	m.Row = func(h fleet.PoolHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.HostPath(h.HostID)}
	}
	m.RowCells = func(head kit.Columns, h fleet.PoolHost) templ.Component { return RowCells(head, p.Pool, h, p.Now) }
	m.RowActions = func(h fleet.PoolHost) []kit.ActionButton { return hostActions(p.Actor, p.Pool, h) }
	if m.EmptyContent == nil {
		m.EmptyContent = noHostsNote(p)
	}
	return m
}

func (p Page) unknownCapacityText() string {
	if !p.seesHosts() {
		return "The capacity is not known."
	}
	return "No healthy host reports the capacity."
}

func (p Page) capacityScope() string {
	switch {
	case !p.seesHosts():
		return ""
	case p.Pool.Spec.Shared:
		return "shared: counted once"
	case p.Pool.Health.Healthy == 1:
		return "of one healthy host"
	}
	return "of " + strconv.Itoa(p.Pool.Health.Healthy) + " healthy hosts in total"
}
