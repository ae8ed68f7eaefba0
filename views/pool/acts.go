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

func assigned(a fleet.Actor, v fleet.PoolView) kit.AssignedObject {
	return kit.AssignedObject{Actor: a, Type: fleet.TypePool, ID: string(v.ID), Name: v.Name, States: v.Actions()}
}

func statusOf(status fleet.PoolHost) kit.AssignedHostStatus {
	stopped := stoppedByOthers(status)
	return kit.AssignedHostStatus{
		HostID: status.HostID, Host: status.HostName, States: status.Actions(), Stopped: stopped,
		Failing: status.Assigned && (status.State == fleet.PoolFailed || status.State == fleet.PoolStalled || stopped),
	}
}

// Acts returns the actions on the pool, for the menus and the head of its page.
func Acts(a fleet.Actor, v fleet.PoolView) []kit.Act {
	path, e := views.PoolPath(v.ID), assigned(a, v)
	acts := []kit.Act{
		{Icon: "database", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs with disks in the pool", Href: views.TabPath(path, "vms")},
		{Icon: "hard-drive", Word: "Volumes", Href: views.TabPath(path, "volumes")},
		e.Assign(),
	}
	if v.Spec.Kind.Info().Secret != nil {
		acts = append(acts, changeCredentials(a, v))
	}
	return append(acts, e.Delete())
}

func changeCredentials(a fleet.Actor, v fleet.PoolView) kit.Act {
	act := kit.Act{Icon: "lock", Word: "Change credentials", Href: views.PoolPath(v.ID, "credentials"), Dialog: true}
	return act.Needs(a, policy.InfraChange).As(v.Actions(), fleet.ActCredentials)
}

// hostVMsPath is the address of the list of the host's VMs with disks in the pool.
func hostVMsPath(status fleet.PoolHost) string {
	return kit.Link{Path: views.PoolPath(status.PoolID)}.With("tab", "vms").With("filter", "host:"+strconv.Quote(status.HostName)).String()
}

// statusActs are the actions on a pool on one host.
func statusActs(a fleet.Actor, v fleet.PoolView, status fleet.PoolHost) []kit.Act {
	return assigned(a, v).StatusActs(statusOf(status), kit.Act{Icon: "monitor", Word: "VMs of this host with disks in the pool", Href: hostVMsPath(status)})
}

// retry are the actions in the page's head that retry the pool on failed hosts.
func retry(p Page) []kit.Act {
	statuses := make([]kit.AssignedHostStatus, len(p.Pool.Hosts))
	for i, h := range p.Pool.Hosts {
		statuses[i] = statusOf(h)
	}
	return assigned(p.Actor, p.Pool).Retry(statuses, p.Pool.Health.Hosts, p.Pool.Health.Failed)
}

// failing returns the first hosts where the pool is unusable, at most the number most.
func failing(statuses []fleet.PoolHost, most int) []fleet.PoolHost {
	var out []fleet.PoolHost
	for _, c := range statuses {
		if len(out) < most && statusOf(c).Failing {
			out = append(out, c)
		}
	}
	return out
}
