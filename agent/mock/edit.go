package mock

import (
	"slices"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// editedSpec returns a definition after an edit.
func editedSpec(spec fleet.VMSpec, plan hypervisor.DefinitionEdit, want fleet.VMSpec) fleet.VMSpec {
	disks, cards := spec.Disks, spec.NICs
	want = plan.WithMergedLists(want)
	for _, f := range plan.Fields {
		f.Copy(&spec, want)
	}
	spec.Disks = slices.DeleteFunc(slices.Clone(disks), func(d fleet.Disk) bool { return hasDiskOfVolume(plan.RemoveDisks, d) })
	for _, d := range plan.Disks {
		if !hasDiskOfVolume(spec.Disks, d) {
			spec.Disks = append(spec.Disks, d)
		}
	}
	cards = slices.DeleteFunc(slices.Clone(cards), func(n fleet.NIC) bool { return indexOfNIC(plan.RemoveNICs, n) >= 0 })
	for _, n := range plan.NICs {
		if i := indexOfNIC(cards, n); i >= 0 {
			cards[i] = n
		} else {
			cards = append(cards, n)
		}
	}
	spec.NICs = cards
	setDeviceFields(&spec, plan, func(fleet.EffectTime) bool { return true })
	return spec
}

// setDeviceFields sets the edited fields of disks and NICs whose effect time (immediate or next start) isSelected
// accepts.
func setDeviceFields(spec *fleet.VMSpec, plan hypervisor.DefinitionEdit, isSelected func(fleet.EffectTime) bool) {
	spec.Disks, spec.NICs = slices.Clone(spec.Disks), slices.Clone(spec.NICs)
	for _, set := range plan.SetDisks {
		if i := slices.IndexFunc(spec.Disks, func(d fleet.Disk) bool { return d.Ref() == set.Device.Ref() }); i >= 0 {
			for _, f := range set.Fields {
				if isSelected(f.TakesEffect) {
					f.Copy(&spec.Disks[i], set.Device)
				}
			}
		}
	}
	for _, set := range plan.SetNICs {
		if i := indexOfNIC(spec.NICs, set.Device); i >= 0 {
			for _, f := range set.Fields {
				if isSelected(f.TakesEffect) {
					f.Copy(&spec.NICs[i], set.Device)
				}
			}
		}
	}
}

func hasDiskOfVolume(all []fleet.Disk, d fleet.Disk) bool {
	return slices.ContainsFunc(all, func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
}

func indexOfNIC(all []fleet.NIC, n fleet.NIC) int {
	return slices.IndexFunc(all, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, n.MAC) })
}
