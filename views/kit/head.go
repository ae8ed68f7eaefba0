package kit

import (
	"maps"

	"github.com/a-h/templ"
)

// Breadcrumb is one breadcrumb.
type Breadcrumb struct{ Text, Href string }

// InventoryBreadcrumb is the first breadcrumb of pages below the inventory's start page.
var InventoryBreadcrumb = []Breadcrumb{{"Inventory", "/"}}

// PageHeader is the top of a page: breadcrumbs, title, actions and tabs.
type PageHeader struct {
	Crumbs    []Breadcrumb
	Icon      templ.Component // nil: none
	Title     string
	Actions   templ.Component // nil: none
	Tabs      []Tab
	TabsLabel string // accessible label of the tabs; empty: "Views"
}

// LiveUpdates configures the live updates of the head of an object's page.
type LiveUpdates struct {
	ID, Keys, Href, Every    string
	MinInterval              string           // seconds: minimum time between two updates; empty: no minimum
	DeletedText, DeletedHref string           // message and link for a deleted object; empty: the object cannot be deleted
	More                     templ.Attributes // further HTML attributes of the head
}

func (f LiveUpdates) attrs() templ.Attributes {
	out := LiveAttrs(f.Keys, f.Href, "poke, every "+f.Every, "morph:outerHTML")
	if f.MinInterval != "" {
		out["data-gap"] = f.MinInterval
	}
	if f.DeletedText != "" {
		out["data-gone"], out["data-gone-href"] = f.DeletedText, f.DeletedHref
	}
	maps.Copy(out, f.More)
	return out
}

// NamedLink is an object's name and the address of its page.
type NamedLink struct{ Name, Href string }
