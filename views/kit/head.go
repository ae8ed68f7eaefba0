package kit

import (
	"maps"

	"github.com/a-h/templ"
)

// Crumb is one breadcrumb.
type Crumb struct{ Text, Href string }

// Inventory is the breadcrumb of the lists.
var Inventory = []Crumb{{"Inventory", "/"}}

// Head is the top of a page: breadcrumbs, title, actions and tabs.
type Head struct {
	Crumbs []Crumb
	Icon   templ.Component // nil: none
	Title  string
	Acts   templ.Component // nil: none
	Tabs   []Tab
	Of     string // accessible label of the tabs; empty: "Views"
}

// Following configures how the head of an object's page follows the object's changes.
type Following struct {
	ID, Keys, Href, Every string
	Gap                   string           // seconds: minimum time between two updates; empty: no minimum
	Gone, GoneHref        string           // message and link for a deleted object; empty: the object cannot be deleted
	More                  templ.Attributes // further HTML attributes of the head
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

// Named is an object's name and the address of its page.
type Named struct{ Name, Href string }
