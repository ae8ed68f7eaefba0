package control

import (
	"regexp"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Who does not see hosts is shown things without them: neither names nor ids of hosts, nor paths on them. Every use case that
// answers people passes what it found through here, last; within control things stay whole.

func seesHosts(a fleet.Actor) bool { return policy.May(a, policy.InfraSee, "") }

// noHosts are the filter keys without those that ask for hosts, where the actor sees none: what cannot be read must not be
// found out by asking either.
func noHosts(a fleet.Actor, keys fleet.FilterKeys) fleet.FilterKeys {
	if seesHosts(a) {
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k fleet.FilterKey) bool { return k.Key == "host" })
}

func vmFor(a fleet.Actor, v fleet.VMView) fleet.VMView {
	if seesHosts(a) {
		return v
	}
	if v = shownTo(a, v); v.Status != nil {
		status := *v.Status
		status.Error, status.Reason = concealed(status.Error, v.HostName), concealed(status.Reason, v.HostName)
		status.Disks = slices.Clone(status.Disks)
		for i := range status.Disks {
			status.Disks[i].Path = ""
		}
		v.Status = &status
	}
	v.HostID, v.HostName = "", ""
	return v
}

func taskFor(a fleet.Actor, t fleet.Task) fleet.Task {
	if !seesHosts(a) {
		t.Error, t.Note = concealed(t.Error, t.HostName), concealed(t.Note, t.HostName)
		t.HostID, t.HostName = "", ""
	}
	return t
}

func networkHostFor(a fleet.Actor, h fleet.NetworkHost) fleet.NetworkHost {
	if !seesHosts(a) {
		h.HostID, h.HostName = "", ""
		if h.Status != nil {
			h.Status = &fleet.NetworkStatus{Active: h.Status.Active}
		}
	}
	return h
}

func volumeFor(a fleet.Actor, v VolumeOn) VolumeOn {
	if seesHosts(a) {
		return v
	}
	v.Path, v.Hosts, v.Unfit, v.UsedBy, v.Backing = "", []HostRef{}, "", nil, ""
	if v.Published != nil {
		v.Published = &Published{At: v.Published.At}
		if !v.offered() {
			v.Published = nil
		}
	}
	return v
}

func auditFor(a fleet.Actor, e fleet.AuditEntry) fleet.AuditEntry {
	if !policy.AllProjects(a) {
		e.Address = ""
	}
	if !seesHosts(a) {
		switch e.Action {
		case "vm.create":
			e.Detail, _, _ = strings.Cut(e.Detail, " on ")
		case "vm.follow", "vm.alarm", "vm.place":
			e.Detail = ""
		}
	}
	return e
}

// each is an answer's items, each as the actor may see it.
func each[T any](a fleet.Actor, items []T, shown func(fleet.Actor, T) T) []T {
	for i := range items {
		items[i] = shown(a, items[i])
	}
	return items
}

// onHosts finds paths, in a hypervisor's own words.
var onHosts = regexp.MustCompile(`(^|[^\w/.-])(?:\w+:)?/{1,3}[\w.+@%~-][^\s'"` + "`" + `<>(),;]*`)

// concealed takes paths and the host's name out of what a hypervisor or an agent said.
func concealed(text, host string) string {
	text = onHosts.ReplaceAllString(text, "${1}…")
	if host != "" {
		text = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(host)+`($|[^\w-])`).ReplaceAllString(text, "${1}the host${2}")
	}
	return text
}
