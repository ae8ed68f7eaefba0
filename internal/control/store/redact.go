package store

import (
	"regexp"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Actors who cannot see hosts get no host names, host IDs or paths. Each use case for users redacts its result as its
// last step, with the functions below. Within package control all values are complete.

// SeesHosts reports whether the actor may see hosts.
func SeesHosts(a fleet.Actor) bool { return policy.May(a, policy.InfraSee, "") }

// RedactVM redacts a VM for the actor.
func RedactVM(a fleet.Actor, v fleet.VMView) fleet.VMView {
	v = RedactVMForActions(a, v)
	if SeesHosts(a) {
		return v
	}
	if v.Status != nil {
		status := *v.Status
		status.Error, status.Reason, status.Unmigratable = RedactText(status.Error, v.HostName), RedactText(status.Reason, v.HostName), ""
		status.PendingUnplug = slices.Clone(status.PendingUnplug)
		for i, p := range status.PendingUnplug {
			status.PendingUnplug[i].What = redactDevices(p.What)
		}
		status.Disks = slices.Clone(status.Disks)
		for i := range status.Disks {
			status.Disks[i].Path = ""
		}
		v.Status = &status
	}
	if v.Adoption != nil { // the parts are lines of the host's definition
		v.Adoption = &fleet.Adoption{At: v.Adoption.At, By: v.Adoption.By, Verbatim: []string{}}
	}
	v.Spec.Rules, _ = fleet.SplitRules(v.Spec.Rules)
	v.Spec.HostDevices = slices.Clone(v.Spec.HostDevices)
	for i := range v.Spec.HostDevices {
		v.Spec.HostDevices[i].HostID = "" // an edit fills in the VM's host again
	}
	v.HostID, v.HostName, v.Misplaced = "", "", nil
	return v
}

// RedactTask redacts a task for the actor.
func RedactTask(a fleet.Actor, t fleet.Task) fleet.Task {
	if !SeesHosts(a) {
		t.Error, t.Note = RedactText(t.Error, t.HostName), RedactText(t.Note, t.HostName)
		t.HostID, t.HostName, t.TargetHostName = "", "", ""
	}
	return t
}

// pathPattern matches paths in messages of the hypervisor.
var pathPattern = regexp.MustCompile(`(^|[^\w/.-])(?:\w+:)?/{1,3}[\w.+@%~-][^\s'"` + "`" + `<>(),;]*`)

// devicePattern matches PCI addresses and names of host devices in messages.
var devicePattern = regexp.MustCompile(`\b(pci|usb|usb-port|mdev|blk)/[\w.:+@=-]+|\b[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b`)

// redactDevices replaces PCI addresses and names of host devices.
func redactDevices(text string) string { return devicePattern.ReplaceAllString(text, "…") }

// RedactText replaces paths, host devices and the host's name in a message of a hypervisor or agent.
func RedactText(text, host string) string {
	text = redactDevices(text)
	if strings.Contains(text, "/") {
		text = pathPattern.ReplaceAllString(text, "${1}…")
	}
	if host != "" && strings.Contains(text, host) {
		text = regexp.MustCompile(`(^|[^\w.-])`+regexp.QuoteMeta(host)+`($|[^\w-])`).ReplaceAllString(text, "${1}the host${2}")
	}
	return text
}

// mayUnlock reports whether the actor owns the lock, is an administrator, or is the portal itself.
func mayUnlock(a fleet.Actor, l fleet.VMLock) bool {
	return policy.May(a, policy.Manage, "") || a.UserID != "" && a.UserID == l.UserID
}

// RedactVMForActions prepares a VM for checks of allowed actions. It sets ChangeRefusal if another user has locked the
// VM. For actors who cannot see hosts, it removes host names and host messages, because reasons may contain them.
func RedactVMForActions(a fleet.Actor, v fleet.VMView) fleet.VMView {
	if l := v.Protection.Lock; l != nil && !mayUnlock(a, *l) {
		v.ChangeRefusal = l.Refusal()
	}
	if !SeesHosts(a) {
		v.StartRefusal = v.HostMaintenance.StartRefusal("")
		v.Status, v.Sightings = v.StatusWithoutHosts(), slices.Clone(v.Sightings)
		for i := range v.Sightings {
			v.Sightings[i].HostID, v.Sightings[i].HostName = "", ""
		}
	}
	return v
}
