package store

import (
	"regexp"
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Who does not see hosts is shown things without them: neither names nor ids of hosts, nor paths on them. Every use case that
// answers people passes what it found through here, last; within control things stay whole.

// SeesHosts reports whether the actor does.
func SeesHosts(a fleet.Actor) bool { return policy.May(a, policy.InfraSee, "") }

// VMFor is the VM in an answer to the actor.
func VMFor(a fleet.Actor, v fleet.VMView) fleet.VMView {
	v = ShownTo(a, v)
	if SeesHosts(a) {
		return v
	}
	if v.Status != nil {
		status := *v.Status
		status.Error, status.Reason = Redacted(status.Error, v.HostName), Redacted(status.Reason, v.HostName)
		status.Disks = slices.Clone(status.Disks)
		for i := range status.Disks {
			status.Disks[i].Path = ""
		}
		v.Status = &status
	}
	v.Spec.Rules, _ = fleet.WithoutHosts(v.Spec.Rules)
	v.HostID, v.HostName, v.Misplaced = "", "", nil
	return v
}

// TaskFor is the task in an answer to the actor.
func TaskFor(a fleet.Actor, t fleet.Task) fleet.Task {
	if !SeesHosts(a) {
		t.Error, t.Note = Redacted(t.Error, t.HostName), Redacted(t.Note, t.HostName)
		t.HostID, t.HostName = "", ""
	}
	return t
}

// onHosts finds paths, in a hypervisor's own words.
var onHosts = regexp.MustCompile(`(^|[^\w/.-])(?:\w+:)?/{1,3}[\w.+@%~-][^\s'"` + "`" + `<>(),;]*`)

// Redacted takes paths and the host's name out of what a hypervisor or an agent said.
func Redacted(text, host string) string {
	text = onHosts.ReplaceAllString(text, "${1}…")
	if host != "" {
		text = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(host)+`($|[^\w-])`).ReplaceAllString(text, "${1}the host${2}")
	}
	return text
}

// mayUnlock reports whether the lock is the actor's own, or the actor an administrator, or the portal itself.
func mayUnlock(a fleet.Actor, l fleet.VMLock) bool {
	return policy.May(a, policy.Manage, "") || a.UserID != "" && a.UserID == l.UserID
}

// ShownTo is the VM as the actor may read it: also whether somebody's lock keeps the actor from changing it; who sees no hosts reads neither their names nor their own words.
func ShownTo(a fleet.Actor, v fleet.VMView) fleet.VMView {
	if l := v.Protection.Lock; l != nil && !mayUnlock(a, *l) {
		v.Barred = l.Bars()
	}
	if !SeesHosts(a) {
		v.Status, v.Elsewhere = v.Plain(), slices.Clone(v.Elsewhere)
		for i := range v.Elsewhere {
			v.Elsewhere[i].HostID, v.Elsewhere[i].HostName = "", ""
		}
	}
	return v
}
