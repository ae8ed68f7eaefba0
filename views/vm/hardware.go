package vm

import (
	"cmp"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// guestHasNIC reports whether the guest has the NIC with the MAC address.
func guestHasNIC(vm fleet.VMView, mac string) bool {
	return vm.Status != nil && slices.ContainsFunc(vm.Status.NICs, func(n fleet.NICState) bool { return strings.EqualFold(n.MAC, mac) })
}

// nicsOutsideSpec returns the guest's NICs that are not in the spec. It omits NICs with a pending unplug.
func nicsOutsideSpec(vm fleet.VMView) []fleet.NICState {
	if vm.Status == nil || fieldDrift(vm, "nics") != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(vm.Status.NICs), func(n fleet.NICState) bool {
		return slices.ContainsFunc(vm.Spec.NICs, func(w fleet.NIC) bool { return strings.EqualFold(w.MAC, n.MAC) }) ||
			slices.ContainsFunc(vm.Status.PendingUnplug, func(h fleet.PendingUnplug) bool { return strings.HasSuffix(h.What, n.MAC) })
	})
}

func isFieldPendingNextBoot(vm fleet.VMView, field string) bool {
	return vm.Status != nil && slices.Contains(vm.Status.NextBoot, field)
}

func reportedCPUCount(vm fleet.VMView) int {
	if vm.Status == nil {
		return 0
	}
	return vm.Status.CPUs
}

func reportedMemoryMiB(vm fleet.VMView) int {
	if vm.Status == nil {
		return 0
	}
	return vm.Status.MemoryMiB
}

// balloonText describes by how much the balloon has reduced the guest's memory. It is empty if the guest has all its
// memory.
func balloonText(vm fleet.VMView) string {
	if vm.Status == nil || vm.Status.BalloonMiB == 0 {
		return ""
	}
	return kit.MiB(vm.Status.BalloonMiB) + " of " + kit.MiB(cmp.Or(vm.Spec.Memory.BalloonMiB, vm.Status.MemoryMiB)) + " in use: the host is short of memory"
}

// diskSize is the size of a disk as its host reports it. Without a report, it is the size in the spec.
func diskSize(vm fleet.VMView, i int) string {
	if vm.Status != nil && i < len(vm.Status.Disks) && vm.Status.Disks[i].SizeBytes > 0 {
		return kit.Bytes(vm.Status.Disks[i].SizeBytes)
	}
	if n := vm.Spec.Disks[i].SizeBytes; n > 0 {
		return kit.Bytes(n)
	}
	if vm.Spec.Disks[i].Existing {
		return "current size"
	}
	return "size of the image"
}
