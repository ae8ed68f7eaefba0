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
	want = plan.Wanted(want)
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
	setAll(&spec, plan, func(fleet.When) bool { return true })
	return spec
}

// setAll changes the fields of disks and cards that are in the spec, as far as so says.
func setAll(spec *fleet.VMSpec, plan agent.Edit, so func(fleet.When) bool) {
	spec.Disks, spec.NICs = slices.Clone(spec.Disks), slices.Clone(spec.NICs)
	for _, set := range plan.SetDisks {
		if i := slices.IndexFunc(spec.Disks, func(d fleet.Disk) bool { return d.Ref() == set.Device.Ref() }); i >= 0 {
			for _, f := range set.Fields {
				if so(f.On) {
					f.Copy(&spec.Disks[i], set.Device)
				}
			}
		}
	}
	for _, set := range plan.SetNICs {
		if i := cardOf(spec.NICs, set.Device); i >= 0 {
			for _, f := range set.Fields {
				if so(f.On) {
					f.Copy(&spec.NICs[i], set.Device)
				}
			}
		}
	}
}

// retuned is what runs after an edit: more vCPUs and memory where there is room, disks that come and go, a medium, limits.
func retuned(spec fleet.VMSpec, plan agent.Edit, want fleet.VMSpec, deaf bool) fleet.VMSpec {
	want = plan.Wanted(want)
	setAll(&spec, plan, func(on fleet.When) bool { return on == fleet.Now })
	for _, f := range plan.Fields {
		if f.On == fleet.Now && f.Input.Section != "" {
			f.Copy(&spec, want)
		}
	}
	if plan.Has("drives") { // what is in those that the guest has
		spec.Drives = slices.Clone(spec.Drives)
		for i, d := range spec.Drives {
			if k := slices.IndexFunc(want.Drives, func(w fleet.VMDrive) bool { return w.Slot == d.Slot }); k >= 0 {
				spec.Drives[i].Medium = want.Drives[k].Medium
			}
		}
	}
	if plan.Has("iso") {
		spec.ISO = want.ISO
	}
	if plan.Has("cpus") && want.CPUs > spec.CPUs && want.CPUs <= spec.CPU.Max {
		spec.CPUs = want.CPUs
	}
	if more := want.MemoryMiB - spec.MemoryMiB; plan.Has("memoryMiB") && more > 0 && more%fleet.MemoryStep == 0 && want.MemoryMiB <= spec.Memory.MaxMiB {
		if _, ok := fleet.GrownCells(spec.NUMA, want.NUMA); ok {
			spec.MemoryMiB, spec.NUMA = want.MemoryMiB, want.NUMA
		}
	}
	spec.Disks = slices.DeleteFunc(spec.Disks, func(d fleet.Disk) bool { return !deaf && d.Plugs() && hasDisk(plan.DropDisks, d) })
	for _, d := range plan.Disks {
		if d.Plugs() && !hasDisk(spec.Disks, d) {
			spec.Disks = append(spec.Disks, d)
		}
	}
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
