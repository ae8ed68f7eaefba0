package mock

import (
	"slices"
	"strings"

	"quantix/agent"
	"quantix/internal/fleet"
)

// edited is a definition after an edit.
func edited(spec fleet.VMSpec, plan agent.Edit, want fleet.VMSpec) fleet.VMSpec {
	disks, cards := spec.Disks, spec.NICs
	for _, f := range plan.Fields {
		f.Copy(&spec, want)
	}
	spec.Disks = slices.DeleteFunc(slices.Clone(disks), func(d fleet.Disk) bool { return hasDisk(plan.DropDisks, d) })
	for _, d := range plan.Disks {
		if !hasDisk(spec.Disks, d) {
			spec.Disks = append(spec.Disks, d)
		}
	}
	cards = slices.DeleteFunc(slices.Clone(cards), func(n fleet.NIC) bool { return cardOf(plan.DropNICs, n) >= 0 })
	for _, n := range plan.NICs {
		if i := cardOf(cards, n); i >= 0 {
			cards[i] = n
		} else {
			cards = append(cards, n)
		}
	}
	spec.NICs = cards
	return spec
}

// plugged are the cards of a running guest after an edit: new ones are there, and those taken out are gone, unless the guest does not listen.
func plugged(cards []fleet.NIC, plan agent.Edit, deaf bool) []fleet.NIC {
	out := slices.DeleteFunc(slices.Clone(cards), func(n fleet.NIC) bool { return !deaf && cardOf(plan.DropNICs, n) >= 0 })
	for _, n := range plan.NICs {
		if i := cardOf(out, n); i < 0 {
			out = append(out, n)
		} else { // what passes it takes effect at once
			out[i].SecurityGroups, out[i].AntiSpoofing = n.SecurityGroups, n.AntiSpoofing
		}
	}
	return out
}

func hasDisk(all []fleet.Disk, d fleet.Disk) bool {
	return slices.ContainsFunc(all, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
}

func cardOf(all []fleet.NIC, n fleet.NIC) int {
	return slices.IndexFunc(all, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, n.MAC) })
}
