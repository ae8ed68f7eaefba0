package diagram

import (
	"slices"

	"quantix/internal/fleet"
)

// TreeView describes one of the trees that show the inventory.
type TreeView struct {
	Name       string
	Word, Icon string
	Right      fleet.Permission // permission to see the tree
	Live       string           // wake-up keys that the root of the tree follows
	Empty      string           // text of an empty tree
}

// TreeViews lists the trees in the order of their buttons.
var TreeViews = []TreeView{
	{fleet.TreeHosts, "Hosts", "server", fleet.MaySeeInfra, "hosts clusters vms", "No hosts yet."}, // the host tree also counts VMs, so it follows their key
	{fleet.TreeVMs, "VMs", "monitor", fleet.MaySeeVMs, "vms projects", "No VMs yet."},
	{fleet.TreeStorage, "Storage", "database", fleet.MaySeeStorage, "pools", "No pools yet."},
	{fleet.TreeNetworks, "Networks", "network", fleet.MaySeeStorage, "networks", "No networks yet."},
}

// TreeByName returns the tree with the name, or the zero value.
func TreeByName(name string) TreeView {
	if i := slices.IndexFunc(TreeViews, func(v TreeView) bool { return v.Name == name }); i >= 0 {
		return TreeViews[i]
	}
	return TreeView{}
}
