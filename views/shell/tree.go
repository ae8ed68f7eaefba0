package shell

import (
	"net/url"
	"strings"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// TreeLevel is one level of the inventory tree, or one page of a level.
type TreeLevel struct {
	View       string // name of a diagram.TreeView
	Group      string // view "vms": label key that groups a project's VMs; empty: none
	Node       string // parent node; empty: the root
	Items      []TreeItem
	Next       string // cursor of the level's next page
	ObjectKeys []string
}

// TreeItem is one row of the tree.
type TreeItem struct {
	Key, Kind, ID, HostID, Name, Icon string
	Severity                          fleet.Severity
	Word                              string // label of the phase
	Count                             int
	HasChildren                       bool
	Children                          *TreeLevel // children, if already loaded
}

func (l *TreeLevel) childLevel(item *TreeItem) *TreeLevel {
	return &TreeLevel{View: l.View, Node: item.Key}
}

func (l *TreeLevel) levelPath(after string) string {
	path := "/tree/" + l.View
	if l.Node != "" {
		path += "/" + url.PathEscape(l.Node)
	}
	if after != "" {
		path += "?after=" + url.QueryEscape(after)
	}
	return path
}

// id is the row's element id, unique on the page: the same VM may appear below several pools.
func (l *TreeLevel) id(key string) string { return "t-" + kit.ElementIDSlug(l.Node+"-"+key) }

// defaultLevelKeys are the wake-up keys of rows without a key of their own.
const defaultLevelKeys = "vms"

// liveKeys are the wake-up keys of an expanded row: the key of its object, and the keys of the objects that its level
// shows or counts.
func (i *TreeItem) liveKeys() string {
	switch t, _ := fleet.ResourceTypeByLabel(i.Kind); {
	case t.Key == fleet.TypeHost:
		return i.Key + " vms"
	case t.Key == fleet.TypeCluster:
		return i.Key + " hosts vms"
	case t.FollowsOwnKey && t.Key != fleet.TypeVM:
		return i.Key
	}
	return defaultLevelKeys
}

// menuPath is the address of the row's context menu. A page has a hundred rows, so the part of the address that equals
// the row's key is shortened to "*".
func (i *TreeItem) menuPath() string {
	if t, _ := fleet.ResourceTypeByLabel(i.Kind); t.FollowsOwnKey && i.ID != "" {
		menu := views.ContextMenuPath(t.Key, i.ID)
		if before, own := strings.CutSuffix(menu, "/"+strings.Replace(i.Key, ":", "/", 1)); own {
			return before + "/*"
		}
		return menu
	}
	return ""
}

func (i *TreeItem) pagePath() string {
	switch t, _ := fleet.ResourceTypeByLabel(i.Kind); {
	case i.HostID != "" && i.ID != "": // discovered
		return views.DiscoveredVMPath(fleet.HostID(i.HostID), fleet.VMID(i.ID))
	case t.Key == fleet.TypeDiscovered:
		return views.TabPath(fleet.TypeVM.Info().Path, "found")
	case t.Key == fleet.TypeProject:
		return views.ProjectListPath(fleet.TypeVM, fleet.ProjectID(i.ID))
	case t.Path != "":
		return t.PagePath(i.ID)
	case i.Kind == "storage":
		return fleet.TypePool.Info().Path
	}
	return fleet.TypeVM.Info().Path
}

func isCurrentObject(here []string, key string) bool {
	return len(here) > 0 && here[len(here)-1] == key
}

// VisibleTreeViews are the names of the tree views that the actor may see.
func VisibleTreeViews(a fleet.Actor) []string {
	var out []string
	for _, v := range diagram.TreeViews {
		if policy.May(a, v.Right, "") {
			out = append(out, v.Name)
		}
	}
	return out
}
