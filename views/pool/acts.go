package pool

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

func newPoolAction(a fleet.Actor) kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New pool", Href: "/pools/new"}.RequirePermission(a, policy.InfraChange)
}

func assignedObject(a fleet.Actor, v fleet.PoolView) kit.AssignedObject {
	return kit.AssignedObject{Actor: a, Type: fleet.TypePool, ID: string(v.ID), Name: v.Name, States: v.Actions()}
}

func assignedHostStatus(status fleet.PoolHost) kit.AssignedHostStatus {
	stopped := stoppedOutsideQuantix(status)
	return kit.AssignedHostStatus{
		HostID: status.HostID, Host: status.HostName, States: status.Actions(), Stopped: stopped,
		Stays:   status.Status != nil && status.Status.Preexisting,
		Failing: status.Assigned && (status.State == fleet.PoolFailed || status.State == fleet.PoolStalled || stopped),
	}
}

// Actions returns the actions on the pool, for the menus and the head of its page.
func Actions(a fleet.Actor, v fleet.PoolView) []kit.ActionButton {
	path, e := views.PoolPath(v.ID), assignedObject(a, v)
	acts := []kit.ActionButton{
		{Icon: "database", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs with disks in the pool", Href: views.TabPath(path, "vms")},
		kit.ActionButton{Icon: "hard-drive", Word: "Volumes", Href: views.TabPath(path, "volumes")}.RequirePermission(a, policy.InfraSee),
		e.AssignAction(),
	}
	if v.Spec.Kind.Info().Secret != nil {
		acts = append(acts, changeCredentialsAction(a, v))
	}
	return append(acts, e.DeleteAction())
}

func changeCredentialsAction(a fleet.Actor, v fleet.PoolView) kit.ActionButton {
	act := kit.ActionButton{Icon: "lock", Word: "Change credentials", Href: views.PoolPath(v.ID, "credentials"), Dialog: true}
	return act.RequirePermission(a, policy.InfraChange).WithReasonFrom(v.Actions(), fleet.ActCredentials)
}

// hostVMsPath is the address of the list of the host's VMs with disks in the pool.
func hostVMsPath(status fleet.PoolHost) string {
	return kit.Link{Path: views.PoolPath(status.PoolID)}.With("tab", "vms").With("filter", "host:"+strconv.Quote(status.HostName)).String()
}

// hostActions are the actions on a pool on one host.
func hostActions(a fleet.Actor, v fleet.PoolView, status fleet.PoolHost) []kit.ActionButton {
	return assignedObject(a, v).HostActions(assignedHostStatus(status), kit.ActionButton{Icon: "monitor", Word: "VMs of this host with disks in the pool", Href: hostVMsPath(status)})
}

// retryActions are the actions in the page's head that retry the pool on failed hosts.
func retryActions(p Page) []kit.ActionButton {
	statuses := make([]kit.AssignedHostStatus, len(p.Pool.Hosts))
	for i, h := range p.Pool.Hosts {
		statuses[i] = assignedHostStatus(h)
	}
	return assignedObject(p.Actor, p.Pool).RetryActions(statuses, p.Pool.Health.Hosts, p.Pool.Health.Failed)
}

// firstFailingHosts returns the first hosts where the pool is unusable, up to the number most.
func firstFailingHosts(statuses []fleet.PoolHost, most int) []fleet.PoolHost {
	var out []fleet.PoolHost
	for _, c := range statuses {
		if len(out) < most && assignedHostStatus(c).Failing {
			out = append(out, c)
		}
	}
	return out
}
