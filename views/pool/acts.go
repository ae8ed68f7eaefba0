package pool

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

func newPool(a fleet.Actor) kit.Act {
	return kit.Act{Icon: "plus", Word: "New pool", Href: "/pools/new"}.Needs(a, policy.InfraChange)
}

// Acts is everything that can be asked about a pool.
func Acts(a fleet.Actor, v fleet.PoolView) []kit.Act {
	path, can := views.PoolPath(v.ID), policy.Offer(a, "pool", "", v.Actions())
	return []kit.Act{
		{Icon: "database", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs with disks in it", Href: views.TabPath(path, "vms")},
		{Icon: "hard-drive", Word: "Volumes", Href: views.TabPath(path, "volumes")},
		kit.Act{Icon: "plug", Word: "Assign to hosts", Href: views.PoolPath(v.ID, "assign"), Dialog: true}.As(can, fleet.ActAssign),
		kit.Act{Icon: "trash-2", Word: "Delete pool", Href: views.PoolPath(v.ID, "delete"), Dialog: true, Danger: true}.As(can, fleet.ActDelete),
	}
}

// vmsThere is the list of the host's VMs with disks in the pool.
func vmsThere(cell fleet.PoolHost) string {
	return kit.Link{Path: views.PoolPath(cell.PoolID)}.With("tab", "vms").With("filter", "host:"+strconv.Quote(cell.HostName)).String()
}

// cellActs is what can be asked about a pool on one host.
func cellActs(a fleet.Actor, cell fleet.PoolHost) []kit.Act {
	path := views.PoolPath(cell.PoolID)
	at := func(act string) string { return views.PoolPath(cell.PoolID, "hosts", string(cell.HostID), act) }
	can := policy.Offer(a, "pool", "", cell.Actions())
	retry := kit.Act{Icon: "refresh-cw", Word: "Try again", Post: at("retry"), Back: path}.As(can, fleet.ActRetry)
	if stoppedByOthers(cell) {
		retry.Icon, retry.Word = "play", "Start"
	}
	return []kit.Act{
		retry,
		{Icon: "monitor", Word: "VMs with disks here", Href: vmsThere(cell)},
		{Icon: "server", Word: "Open " + cell.HostName, Href: views.HostPath(cell.HostID)},
		kit.Act{Icon: "unplug", Word: "Release from " + cell.HostName, Href: at("release"), Dialog: true, Danger: true}.As(can, fleet.ActRelease),
	}
}

// labelForm is the form with what it is about.
func labelForm(v fleet.PoolView, f kit.LabelForm) kit.LabelForm {
	path := views.PoolPath(v.ID, "labels")
	f.Of = "pool:" + string(v.ID)
	f.Dialog = kit.Dialog{Title: "Hosts that get " + v.Name + " by label", Action: path, Button: "Save", Why: kit.WhyNot(v.Allows(fleet.ActEdit)), Back: views.PoolPath(v.ID)}
	return f
}

// editLabels leads to that form.
func editLabels(a fleet.Actor, v fleet.PoolView) kit.Act {
	return kit.Act{Icon: "pencil", Word: "Edit", Label: "Edit labels", Href: views.PoolPath(v.ID, "labels"), Dialog: true}.As(policy.Offer(a, "pool", "", v.Actions()), fleet.ActEdit)
}
