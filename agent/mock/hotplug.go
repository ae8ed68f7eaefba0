package mock

import (
	"fmt"
	"slices"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// hotPlug applies an edit to the running guest: vCPUs and memory up to the maximum, disks, media and limits.
func (s *guestDefinition) hotPlug(plan hypervisor.DefinitionEdit, want fleet.VMSpec) {
	spec := &s.spec
	want = plan.WithMergedLists(want)
	setDeviceFields(spec, plan, func(on fleet.EffectTime) bool { return on == fleet.WhenNow })
	for _, f := range plan.Fields {
		if isInvisibleToGuest(f) && f.Input.Section != "" {
			f.Copy(spec, want)
		}
	}
	if plan.SetsField("drives") { // media in the guest's present drives
		spec.Drives = slices.Clone(spec.Drives)
		for i, d := range spec.Drives {
			if k := slices.IndexFunc(want.Drives, func(w fleet.VMDrive) bool { return w.Slot == d.Slot }); k >= 0 {
				spec.Drives[i].Medium = want.Drives[k].Medium
			}
		}
	}
	if plan.SetsField("iso") {
		spec.ISO = want.ISO
	}
	if plan.SetsField("cpus") && want.CPUs > spec.CPUs && want.CPUs <= spec.CPU.Max {
		spec.CPUs = want.CPUs
	}
	if more := want.MemoryMiB - spec.MemoryMiB; plan.SetsField("memoryMiB") && more > 0 && more%fleet.MemoryStep == 0 && want.MemoryMiB <= spec.Memory.MaxMiB {
		if cells, ok := fleet.MemoryGainPerNode(spec.NUMA, want.NUMA); ok {
			if len(cells) == 0 {
				cells = []int{more}
			}
			spec.MemoryMiB, spec.NUMA = want.MemoryMiB, want.NUMA
			for cell, mib := range cells {
				if mib > 0 {
					s.modules = append(slices.Clip(s.modules), fleet.Module{MiB: mib, NUMANode: cell})
				}
			}
		}
	}
	for _, d := range plan.Disks {
		if d.SupportsHotPlug() && !hasDiskOfVolume(spec.Disks, d) {
			spec.Disks = append(slices.Clip(spec.Disks), d)
		}
	}
}

// nicsAfterEdit returns the NICs of a running guest after an edit.
func nicsAfterEdit(cards []fleet.NIC, plan hypervisor.DefinitionEdit) []fleet.NIC {
	out := slices.Clone(cards)
	for _, n := range plan.NICs {
		if i := indexOfNIC(out, n); i < 0 {
			out = append(out, n)
		} else { // filters take effect immediately
			out[i].SecurityGroups, out[i].AntiSpoofing = n.SecurityGroups, n.AntiSpoofing
		}
	}
	return out
}

// hotPlugHostDevices adds new host devices of the definition to the running guest. The caller holds h.mu.
func (h *Host) hotPlugHostDevices(g *guest, had []fleet.VMHostDevice) error {
	for _, d := range g.persistent.spec.HostDevices {
		if hasHostDevice(had, d) || hasHostDevice(g.live.spec.HostDevices, d) {
			continue
		}
		if err := h.checkPhysicals(g.id, []fleet.VMHostDevice{d}, nil); err != nil {
			return err
		}
		if err := h.checkHostDevice(d); err != nil {
			return err
		}
		g.live.spec.HostDevices = append(slices.Clip(g.live.spec.HostDevices), d)
	}
	return nil
}

func hasHostDevice(all []fleet.VMHostDevice, d fleet.VMHostDevice) bool {
	return slices.ContainsFunc(all, func(o fleet.VMHostDevice) bool { return o.Device == d.Device })
}

// pendingUnplug is a device of the running guest that its next start lacks.
type pendingUnplug struct {
	fleet.PendingUnplug
	unplug func(*guestDefinition)
}

// devicesPendingUnplug returns the guest's pending unplugs. The caller holds h.mu.
func (h *Host) devicesPendingUnplug(g *guest) (out []pendingUnplug) {
	if !g.isRunning() || !g.managed {
		return nil
	}
	live, def, want := g.live.spec, g.persistent.spec, g.applied.Spec
	add := func(field, what string, drop func(*guestDefinition)) {
		out = append(out, pendingUnplug{fleet.PendingUnplug{Field: field, What: what}, drop})
	}
	for _, n := range live.NICs {
		if indexOfNIC(def.NICs, n) < 0 && indexOfNIC(want.NICs, n) < 0 {
			add("nics", "NIC "+n.MAC, func(s *guestDefinition) {
				s.spec.NICs = slices.DeleteFunc(slices.Clone(s.spec.NICs), func(o fleet.NIC) bool { return o.MAC == n.MAC })
			})
		}
	}
	for i, d := range live.Disks {
		if d.SupportsHotPlug() && !hasDiskOfVolume(def.Disks, d) && !hasDiskOfVolume(want.Disks, d) {
			add("disks", fmt.Sprintf("disk %s (%s)", diskTarget(i), d.Volume), func(s *guestDefinition) {
				s.spec.Disks = slices.DeleteFunc(slices.Clone(s.spec.Disks), func(o fleet.Disk) bool { return o.Ref() == d.Ref() })
			})
		}
	}
	for _, d := range live.HostDevices {
		if !hasHostDevice(def.HostDevices, d) && !hasHostDevice(want.HostDevices, d) {
			add("hostDevices", d.Device, func(s *guestDefinition) {
				s.spec.HostDevices = slices.DeleteFunc(slices.Clone(s.spec.HostDevices), func(o fleet.VMHostDevice) bool { return o.Device == d.Device })
			})
		}
	}
	if less := live.MemoryMiB - def.MemoryMiB; less > 0 && def.MemoryMiB == want.MemoryMiB {
		cells := []int{less}
		ok := true
		if len(live.NUMA)+len(def.NUMA) > 0 {
			cells, ok = fleet.MemoryGainPerNode(def.NUMA, live.NUMA)
		}
		if which, picked := fleet.ModulesToUnplug(g.live.modules, cells); ok && picked {
			for _, i := range which {
				add("memoryMiB", fmt.Sprintf("%d MiB of memory", g.live.modules[i].MiB), func(s *guestDefinition) {
					s.spec.MemoryMiB, s.spec.NUMA = def.MemoryMiB, def.NUMA
					s.modules = nil
					for k, m := range g.live.modules {
						if !slices.Contains(which, k) {
							s.modules = append(s.modules, m)
						}
					}
				})
			}
		}
	}
	if less := live.CPUs - def.CPUs; less > 0 && def.CPUs == want.CPUs && def.CPUs >= g.live.startVCPUs && g.live.startVCPUs > 0 && h.inventory.Accelerators[0] == "kvm" {
		words := fmt.Sprintf("%d vCPUs", less)
		if less == 1 {
			words = "1 vCPU"
		}
		add("cpus", words, func(s *guestDefinition) { s.spec.CPUs = def.CPUs })
	}
	return out
}

// pendingUnplugs returns the pending unplugs for the status. The caller holds h.mu.
func (h *Host) pendingUnplugs(g *guest) (out []fleet.PendingUnplug) {
	for _, c := range h.devicesPendingUnplug(g) {
		out = append(out, c.PendingUnplug)
	}
	return out
}

// releaseUnpluggedDevices makes the guest release unplugged devices, unless the guest does not react. The caller holds h.mu.
func (h *Host) releaseUnpluggedDevices(g *guest) {
	if !g.isRunning() || g.power == fleet.Paused || nameContains(g.name, NoShutdown) {
		return
	}
	run := *g.live
	for _, c := range h.devicesPendingUnplug(g) {
		c.unplug(&run)
	}
	g.live = &run
}
