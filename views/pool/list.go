package pool

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of pools.
type ListPage struct {
	kit.List
	Actor fleet.Actor
	Pools []fleet.PoolView
}

func (p *ListPage) table() kit.Table[fleet.PoolView] {
	return kit.Table[fleet.PoolView]{
		List: &p.List, ID: "pool-rows", Live: "pools", Every: "30s", Label: "Pools", Type: "pool", Head: kit.NameColumn, Items: p.Pools, HasRowMenus: true, EmptyContent: emptyListNote(p),
		Row: func(v *fleet.PoolView) kit.Row {
			return kit.Row{ID: "pool-" + string(v.ID), Name: v.Name, Href: views.PoolPath(v.ID), Menu: views.ContextMenuPath(fleet.TypePool, v.ID)}
		},
		RowCells: row,
	}
}
