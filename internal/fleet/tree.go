package fleet

import "slices"

// The trees: each is one way to arrange the inventory.
const (
	TreeHosts    = "hosts"
	TreeVMs      = "vms"
	TreeStorage  = "storage"
	TreeNetworks = "networks"
)

// TreeView is what is decided about a tree.
type TreeView struct {
	Name       string
	Word, Icon string
	Right      Permission // what one must have to see it
	Live       string     // the keys that its root follows
	Empty      string     // what stands in it while there is nothing
}

// TreeViews are the trees in the order of their buttons.
var TreeViews = []TreeView{
	{TreeHosts, "Hosts", "server", MaySeeInfra, "hosts vms", "No hosts yet."}, // hosts count their VMs
	{TreeVMs, "VMs", "monitor", MaySeeVMs, "vms projects", "No VMs yet."},
	{TreeStorage, "Storage", "database", MaySeeStorage, "pools", "No pools yet."},
	{TreeNetworks, "Networks", "network", MaySeeStorage, "networks", "No networks yet."},
}

// TreeNamed is the tree of that name; empty where there is none.
func TreeNamed(name string) TreeView {
	if i := slices.IndexFunc(TreeViews, func(v TreeView) bool { return v.Name == name }); i >= 0 {
		return TreeViews[i]
	}
	return TreeView{}
}
