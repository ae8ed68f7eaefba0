package network

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

func newNetworkAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New network", Href: "/networks/new"}.RequirePermission(a, policy.InfraChange)
}

func assignedObject(a fleet.Actor, n fleet.NetworkView) kit.AssignedObject {
	return kit.AssignedObject{Actor: a, Type: fleet.TypeNetwork, ID: string(n.ID), Name: n.Name, States: n.Actions()}
}

func assignedHostStatus(n fleet.NetworkView, h fleet.NetworkHost) kit.AssignedHostStatus {
	stopped := stoppedOutsideQuantix(h)
	return kit.AssignedHostStatus{
		HostID: h.HostID, Host: h.HostName, States: h.Actions(), Stopped: stopped,
		Stays:   n.IsAdopted(),
		Failing: h.HostName != "" && h.Assigned && (h.State == fleet.NetworkFailed || stopped),
	}
}

// Actions returns the actions on the network, for the menus and the head of its page.
func Actions(a fleet.Actor, n fleet.NetworkView) []kit.ActionButton {
	path, e := views.NetworkPath(n.ID), assignedObject(a, n)
	return []kit.ActionButton{
		{Icon: "network", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs on this network", Href: views.TabPath(path, "vms")},
		e.AssignAction(), e.DeleteAction(),
	}
}

// hostVMsPath is the address of the list of the host's VMs with a NIC on the network.
func hostVMsPath(n fleet.NetworkView, h fleet.NetworkHost) string {
	return kit.Link{Path: "/vms"}.With("filter", "network:"+strconv.Quote(n.Name)+" host:"+strconv.Quote(h.HostName)).String()
}

// hostActions are the actions on a network on one host.
func hostActions(a fleet.Actor, n fleet.NetworkView, status fleet.NetworkHost) []kit.ActionButton {
	return assignedObject(a, n).HostActions(assignedHostStatus(n, status), kit.ActionButton{Icon: "monitor", Word: "Connected VMs of this host", Href: hostVMsPath(n, status)})
}

// retryActions are the actions in the page's head that retry the network on failed hosts.
func retryActions(p Page) []kit.ActionButton {
	statuses := make([]kit.AssignedHostStatus, len(p.Network.Hosts))
	for i, h := range p.Network.Hosts {
		statuses[i] = assignedHostStatus(p.Network, h)
	}
	return assignedObject(p.Actor, p.Network).RetryActions(statuses, p.Network.Health.Hosts, p.Network.Health.SeverityCounts.Bad)
}
