package host

import (
	"cmp"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/pool"
)

// hostMatrix is the matrix of one host's objects of one resource type.
func hostMatrix[T any](p Page, title, first string, head kit.Columns, objects []T) kit.StatusMatrix[T] {
	return kit.StatusMatrix[T]{Title: title, TitleAside: kit.LastSeenAge(p.Host.SeenAt, p.Now), Label: title, First: first, Head: head, Items: objects}
}

var poolColumns = kit.Columns{
	{Key: "state", Label: "State here"},
	{Key: "kind", Label: "Kind"},
	{Key: "path", Label: "Mounted at"},
	{Key: "used", Label: "Used", Class: "w-bar"},
	{Key: "free", Label: "Free", Class: "num"},
	{Key: "says", Label: "Host report"},
}

func (p Page) poolMatrix() kit.StatusMatrix[fleet.PoolView] {
	m := hostMatrix(p, "Managed pools", "Pool", poolColumns, p.Pools)
	m.Row = func(v fleet.PoolView) kit.Row {
		id := string(v.ID)
		return kit.Row{ID: "pool-" + id, Name: v.Name, Href: views.PoolPath(v.ID), Menu: views.ContextMenuPath(fleet.TypePool, v.ID)}
	}
	m.RowCells = func(head kit.Columns, v fleet.PoolView) templ.Component {
		return pool.RowCells(head, v, pool.StatusOnHost(v, p.Host.ID), p.Now)
	}
	m.EmptyContent = noPoolsOnHostNote()
	return m
}

// discoveredPoolState is the state of a discovered pool in words; empty: unknown, since older agents do not report
// this state.
func discoveredPoolState(f fleet.DiscoveredPool) string {
	switch {
	case f.Error != "":
		return "Cannot be read: " + f.Error
	case f.Kind == "":
		return ""
	case f.Active && f.Autostart:
		return fleet.PoolActive.DisplayName()
	case f.Active:
		return fleet.PoolActive.DisplayName() + ", without autostart"
	}
	return fleet.PoolInactive.DisplayName()
}

// discoveredPoolKinds are the labels of libvirt's pool types.
var discoveredPoolKinds = map[string]string{
	"dir": "Directory", "fs": "File system", "netfs": "Network file system", "logical": "LVM", "disk": "Disk", "iscsi": "iSCSI", "iscsi-direct": "iSCSI direct",
	"scsi": "SCSI", "mpath": "Multipath", "rbd": "Ceph RBD", "gluster": "GlusterFS", "zfs": "ZFS", "vstorage": "Virtuozzo Storage", "sheepdog": "Sheepdog",
}

func discoveredPoolKind(f fleet.DiscoveredPool) string {
	return cmp.Or(discoveredPoolKinds[f.Kind], f.Kind)
}
