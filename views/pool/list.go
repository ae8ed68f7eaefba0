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

// Columns are the columns of pools.
var Columns = kit.Columns{
	{Key: "health", Word: "Health"},
	{Key: "kind", Word: "Kind"},
	{Key: "source", Word: "Source"},
	{Key: "used", Word: "Used", Class: "w-bar"},
	{Key: "free", Word: "Free", Class: "num"},
	{Key: "description", Word: "Description"},
	{Key: "created", Word: "Created", Sort: "created", Extra: true},
	{Key: "id", Word: "UUID", Extra: true},
}

func (p *ListPage) table() kit.Table[fleet.PoolView] {
	return kit.Table[fleet.PoolView]{
		List: &p.List, ID: "pool-rows", Live: "pools", Every: "30s", Label: "Pools", Noun: "pool", Head: kit.NameHead, Items: p.Pools, Acts: true, None: none(p),
		Row: func(v *fleet.PoolView) kit.Row {
			return kit.Row{ID: "pool-" + string(v.ID), Name: v.Name, Href: views.PoolPath(v.ID), Menu: views.MenuPath(fleet.NounPool, v.ID)}
		},
		Cells: row,
	}
}
