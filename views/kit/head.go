package kit

import (
	"maps"

	"github.com/a-h/templ"
)

// Crumb is one step of the way to a page.
type Crumb struct{ Text, Href string }

// Inventory is the way to the lists.
var Inventory = []Crumb{{"Inventory", "/"}}

// Head is the top of a page: the way to it, what it is about, what can be asked of that, and its tabs.
type Head struct {
	Crumbs []Crumb
	Icon   templ.Component // nil: none
	Title  string
	Acts   templ.Component // nil: none
	Tabs   []Tab
	Of     string // what the tabs are; empty: "Views"
}

// Following is how the head of one object's page follows it.
type Following struct {
	ID, Keys, Href, Every string
	Gap                   string           // seconds: it changes no more often than that; empty: it may at any time
	Gone, GoneHref        string           // what is said when the object is gone, and where to go on; empty: it does not go
	More                  templ.Attributes // of the head
}

func (f Following) attrs() templ.Attributes {
	out := Follow(f.Keys, f.Href, "poke, every "+f.Every, "morph:outerHTML")
	if f.Gap != "" {
		out["data-gap"] = f.Gap
	}
	if f.Gone != "" {
		out["data-gone"], out["data-gone-href"] = f.Gone, f.GoneHref
	}
	maps.Copy(out, f.More)
	return out
}

// Named is a thing's name and its page.
type Named struct{ Name, Href string }
