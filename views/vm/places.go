package vm

import (
	"cmp"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// reportedPowerText is the power state that a host reports for the VM, in one word.
func reportedPowerText(p fleet.VMLocation) string {
	word := string(p.Power)
	if p.Power == fleet.Stopped {
		word = "shut off"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// locationNotes are notes about a domain that a host reports as this VM.
func locationNotes(p fleet.VMLocation) []string {
	var out []string
	if p.Own {
		out = append(out, "· its host")
	}
	if p.Offline {
		out = append(out, "· last report: the host is offline now")
	}
	if !p.Own && !p.Proven {
		out = append(out, "· without this VM's metadata")
	}
	if p.Settled {
		out = append(out, "· not this VM, by a user's decision")
	}
	return out
}

func setHostActionLabel(vm fleet.VMView, p fleet.VMLocation) string {
	if p.Own || vm.RunsOnTwoHosts() {
		return "Keep on " + p.HostName
	}
	return "Use the domain on " + p.HostName
}

func setHostConfirmText(vm fleet.VMView, p fleet.VMLocation) string {
	return "Does " + vm.Name + " belong to " + p.HostName + "? Quantix then manages the domain on this host. Domains on other hosts keep running until they are stopped there."
}

// setHostAction is the action that makes a host with a domain of the VM the VM's host.
func (p Page) setHostAction(place fleet.VMLocation) kit.ActionButton {
	return kit.ActionButton{
		Word: setHostActionLabel(p.VM, place), Post: p.path("place", string(place.HostID)), Confirm: setHostConfirmText(p.VM, place), Why: cmp.Or(place.Why, p.PlaceWhy),
	}.RequirePermission(p.Actor, policy.InfraChange)
}
