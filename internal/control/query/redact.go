package query

import (
	"slices"
	"strings"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// withoutHostFilterKey removes the filter key "host" for actors who cannot see hosts, because a filter would reveal the
// hidden host names.
func withoutHostFilterKey(a fleet.Actor, keys fleet.FilterKeys) fleet.FilterKeys {
	if store.SeesHosts(a) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k fleet.FilterKey) bool { return k.Key == "host" })
}

// redactNetwork redacts host devices, and the MAC addresses of reservations.
func redactNetwork(a fleet.Actor, v fleet.NetworkView) fleet.NetworkView {
	if store.SeesHosts(a) || v.Spec == nil {
		return v
	}
	spec := *v.Spec
	// Port groups are removed too: the actor may see only some of them, which the use case PortGroups returns.
	spec.Bridge, spec.Device, spec.Underlay, spec.PortGroups, v.Peers = "", "", "", nil, nil
	if spec.IPv4 != nil && spec.IPv4.DHCP != nil {
		spec.IPv4 = &fleet.Subnet{Gateway: spec.IPv4.Gateway, DHCP: &fleet.DHCP{Ranges: spec.IPv4.DHCP.Ranges}}
	}
	v.Spec = &spec
	return v
}

func redactNetworkHost(a fleet.Actor, h fleet.NetworkHost) fleet.NetworkHost {
	if !store.SeesHosts(a) {
		h.HostID, h.HostName, h.VMs = "", "", 0
		if h.Status != nil {
			h.Status = &fleet.NetworkStatus{Active: h.Status.Active}
		}
	}
	return h
}

func redactVolume(a fleet.Actor, v VolumeOn) VolumeOn {
	if store.SeesHosts(a) {
		return v
	}
	v.Path, v.Hosts, v.Unfit, v.UsedBy, v.Backing = "", []HostRef{}, "", nil, ""
	v.InDrive, v.BaseOf, v.ModifiedAt, v.BackingUsers = nil, nil, nil, nil
	switch p := v.Published; {
	case p == nil:
	case !v.offeredToActor(a):
		v.Published = nil
	default:
		v.Published = &Published{At: p.At, ImageID: p.ImageID, Image: p.Image, VersionID: p.VersionID, Number: p.Number, toAllProjects: p.toAllProjects, projects: p.projects}
	}
	return v
}

func redactAuditEntry(a fleet.Actor, e fleet.AuditEntry) fleet.AuditEntry {
	if !policy.SeesAllProjects(a) {
		e.Address = ""
	}
	if !store.SeesHosts(a) {
		switch e.Action {
		case "vm.create":
			e.Detail, _, _ = strings.Cut(e.Detail, " on ")
		case "vm.disk.move", "vm.export": // the pool may not be published to the project
			e.Detail, _, _ = strings.Cut(e.Detail, " → pool ")
			e.Detail, _, _ = strings.Cut(e.Detail, " in pool ")
		case "vm.follow", "vm.alarm", "vm.place":
			e.Detail = ""
		}
	}
	return e
}

// redactAll replaces each item by the result of shown, which redacts it for the actor.
func redactAll[T any](a fleet.Actor, items []T, shown func(fleet.Actor, T) T) []T {
	for i := range items {
		items[i] = shown(a, items[i])
	}
	return items
}
