package network

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

func newNetwork(a fleet.Actor) kit.Act {
	return kit.Act{Icon: "plus", Word: "New network", Href: "/networks/new"}.Needs(a, policy.InfraChange)
}

// Acts is everything that can be asked about a network.
func Acts(a fleet.Actor, n fleet.NetworkView) []kit.Act {
	path, can := views.NetworkPath(n.ID), policy.Offer(a, "network", "", n.Actions())
	return []kit.Act{
		{Icon: "network", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs on this network", Href: views.TabPath(path, "vms")},
		kit.Act{Icon: "plug", Word: "Assign to hosts", Href: views.NetworkPath(n.ID, "assign"), Dialog: true}.As(can, fleet.ActAssign),
		kit.Act{Icon: "trash-2", Word: "Delete network", Href: views.NetworkPath(n.ID, "delete"), Dialog: true, Danger: true}.As(can, fleet.ActDelete),
	}
}

// vmsHere is the list of the VMs with a card on the network on one host.
func vmsHere(n fleet.NetworkView, h fleet.NetworkHost) string {
	return kit.Link{Path: "/vms"}.With("filter", "network:"+strconv.Quote(n.Name)+" host:"+strconv.Quote(h.HostName)).String()
}

// cellActs is what can be asked about a network on one host.
func cellActs(a fleet.Actor, n fleet.NetworkView, cell fleet.NetworkHost) []kit.Act {
	at := func(act string) string { return views.NetworkPath(n.ID, "hosts", string(cell.HostID), act) }
	can := policy.Offer(a, "network", "", cell.Actions())
	retry := kit.Act{Icon: "refresh-cw", Word: "Try again", Post: at("retry"), Back: views.NetworkPath(n.ID)}.As(can, fleet.ActRetry)
	if stoppedByOthers(cell) {
		retry.Icon, retry.Word = "play", "Start"
	}
	return []kit.Act{
		retry,
		{Icon: "monitor", Word: "VMs with cards on it here", Href: vmsHere(n, cell)},
		{Icon: "server", Word: "Open " + cell.HostName, Href: views.HostPath(cell.HostID)},
		kit.Act{Icon: "unplug", Word: "Release from " + cell.HostName, Href: at("release"), Dialog: true, Danger: true}.As(can, fleet.ActRelease),
	}
}

// failing is the first cell, if any, in which the network cannot be used.
func failing(n fleet.NetworkView) []fleet.NetworkHost {
	for i, h := range n.Hosts {
		if h.HostName != "" && h.Assigned && (h.State == fleet.NetworkFailed || stoppedByOthers(h)) {
			return n.Hosts[i : i+1]
		}
	}
	return nil
}

func retryNamed(a fleet.Actor, n fleet.NetworkView, cell fleet.NetworkHost) kit.Act {
	retry := cellActs(a, n, cell)[0]
	retry.Word = "Retry " + cell.HostName
	if stoppedByOthers(cell) {
		retry.Word = "Start on " + cell.HostName
	}
	return retry
}

// labelForm is the form with what it is about.
func labelForm(n fleet.NetworkView, f kit.LabelForm) kit.LabelForm {
	path := views.NetworkPath(n.ID, "labels")
	f.Of = "net:" + string(n.ID)
	f.Dialog = kit.Dialog{Title: "Hosts that get " + n.Name + " by label", Action: path, Button: "Save", Why: kit.WhyNot(n.Allows(fleet.ActEdit)), Back: views.NetworkPath(n.ID)}
	return f
}

// editLabels leads to that form.
func editLabels(a fleet.Actor, n fleet.NetworkView) kit.Act {
	return kit.Act{Icon: "pencil", Word: "Edit", Label: "Edit labels", Href: views.NetworkPath(n.ID, "labels"), Dialog: true}.As(policy.Offer(a, "network", "", n.Actions()), fleet.ActEdit)
}

// retryable is on how many hosts the network can be tried again together: not where somebody stopped it. Where not all hosts are told, those
// count that say that it failed.
func retryable(p Page) (count int) {
	n := p.Network
	if !policy.May(p.Actor, policy.InfraSee, "") {
		return 0
	}
	for _, h := range n.Hosts {
		if ok, _ := h.Allows(fleet.ActRetry); ok && !stoppedByOthers(h) {
			count++
		}
	}
	if len(n.Hosts) < n.Health.Hosts {
		count = max(count, n.Health.Tones.Bad)
	}
	return count
}

func retryAll(a fleet.Actor, n fleet.NetworkView, count int) kit.Act {
	return kit.RetryAll(count, views.NetworkPath(n.ID, "retry"), views.NetworkPath(n.ID)).Needs(a, policy.InfraChange)
}
