package network

import (
	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of networks.
type ListPage struct {
	kit.List
	Actor    fleet.Actor
	Networks []fleet.NetworkView
}

func (p *ListPage) table() kit.Table[fleet.NetworkView] {
	return kit.Table[fleet.NetworkView]{
		List: &p.List, ID: "network-rows", Live: "networks hosts", Every: "10s", Label: "Networks", Type: "network", Head: kit.NameColumn,
		Items: p.Networks, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: func(n *fleet.NetworkView) kit.Row {
			return kit.Row{ID: "net-" + string(n.ID), Name: n.Name, Href: views.NetworkPath(n.ID), Menu: views.ContextMenuPath(fleet.TypeNetwork, n.ID)}
		},
		RowCells: func(shown kit.Columns, n *fleet.NetworkView) templ.Component { return row(p.Actor, shown, n) },
	}
}
