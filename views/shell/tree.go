package shell

import (
	"net/url"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// TreeLevel is one level of the inventory tree, or one page of it.
type TreeLevel struct {
	View  string // name of a fleet.TreeView
	Group string // view "vms": the label key that groups a project's VMs; empty: none
	Node  string // whose children these are; empty: the root
	Items []TreeItem
	Next  string // cursor of the level's next page
	Here  []string
}

// TreeItem is one row of the tree.
type TreeItem struct {
	Key, Kind, ID, HostID, Name, Icon string
	Severity                          fleet.Severity
	Word                              string // of the phase
	Count                             int
	HasChildren                       bool
	Open                              *TreeLevel // its children, where they are known already
}

func (l *TreeLevel) child(item *TreeItem) *TreeLevel { return &TreeLevel{View: l.View, Node: item.Key} }

func (l *TreeLevel) address(after string) string {
	path := "/tree/" + l.View
	if l.Node != "" {
		path += "/" + url.PathEscape(l.Node)
	}
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	return path
}

// id of a row is unique on the page: the same VM may stand below several pools.
func (l *TreeLevel) id(key string) string { return "t-" + kit.Slug(l.Node+"-"+key) }

// lazyKeys are what most levels follow.
const lazyKeys = "vms"

// liveKeys of an opened row: its object's own key; a host's or project's VMs change by their own keys.
func (i *TreeItem) liveKeys() string {
	switch t, _ := fleet.Worded(i.Kind); {
	case t.Key == fleet.TypeHost:
		return i.Key + " vms"
	case t.Each && t.Key != fleet.TypeVM:
		return i.Key
	}
	return lazyKeys
}

// menu is where the row's actions are. A hundred rows are on every page: what the row's key says already stands there as "*".
func (i *TreeItem) menu() string {
	if t, _ := fleet.Worded(i.Kind); t.Each && i.ID != "" {
		menu := views.MenuPath(t.Key, i.ID)
		if before, own := strings.CutSuffix(menu, "/"+strings.Replace(i.Key, ":", "/", 1)); own {
			return before + "/*"
		}
		return menu
	}
	return ""
}

func (i *TreeItem) href() string {
	switch t, _ := fleet.Worded(i.Kind); {
	case i.HostID != "" && i.ID != "": // discovered
		return views.FoundPath(fleet.HostID(i.HostID), fleet.VMID(i.ID))
	case t.Key == fleet.TypeDiscovered:
		return views.TabPath(fleet.TypeVM.Is().Path, "found")
	case t.Key == fleet.TypeProject:
		return views.CutPath(fleet.TypeVM, fleet.ProjectID(i.ID))
	case t.Path != "":
		return t.At(i.ID)
	case i.Kind == "storage":
		return fleet.TypePool.Is().Path
	}
	return fleet.TypeVM.Is().Path
}

func hereIn(here []string, key string) bool { return len(here) > 0 && here[len(here)-1] == key }

// TreeViewsOf are the names of the views that the actor may see.
func TreeViewsOf(a fleet.Actor) []string {
	var out []string
	for _, v := range fleet.TreeViews {
		if policy.May(a, v.Right, "") {
			out = append(out, v.Name)
		}
	}
	return out
}
