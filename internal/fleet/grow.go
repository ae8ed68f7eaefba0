package fleet

import (
	"fmt"
	"reflect"
	"strings"
)

// diskGrowthText returns the text of a change that only grows a disk, which a running guest sees at once. It is empty
// for every other change.
func diskGrowthText(old, to Disk) string {
	if to.SizeBytes <= old.SizeBytes || !differOnlyInSize(old, to) {
		return ""
	}
	return diskChangeText(old, to)
}

// text returns the disk's text as pages show it.
func (d Disk) text() string {
	if d.Volume == "" {
		return "of " + FormatBytes(d.SizeBytes)
	}
	return d.Volume
}

// takesEffect returns when a running guest gets or loses the disk.
func (d Disk) takesEffect() EffectTime {
	if d.SupportsHotPlug() {
		return WhenNow
	}
	return WhenNextBoot
}

// SupportsHotPlug reports whether the disk supports hot-plug and hot-unplug; disks on other buses do not.
func (d Disk) SupportsHotPlug() bool { return d.Bus == "" || d.Bus == "scsi" || d.Bus == "usb" }

// differOnlyInSize reports whether two disks differ only in size.
func differOnlyInSize(a, b Disk) bool {
	a.SizeBytes = b.SizeBytes
	return reflect.DeepEqual(a, b)
}

// diskChangeText returns the text of a change to an existing disk.
func diskChangeText(old, to Disk) string {
	if !differOnlyInSize(old, to) {
		return old.Volume + " → " + to.Volume
	}
	was := "the size of its image"
	if old.SizeBytes > 0 {
		was = FormatBytes(old.SizeBytes)
	}
	now := FormatBytes(to.SizeBytes)
	if was == now {
		was, now = fmt.Sprintf("%d bytes", old.SizeBytes), fmt.Sprintf("%d bytes", to.SizeBytes)
	}
	return to.Volume + " " + was + " → " + now
}

// sizeOnHost returns the disk's size in bytes as the host last reported it; 0: unknown.
func (vm VM) sizeOnHost(disk Volref) int64 {
	if vm.Status == nil {
		return 0
	}
	for _, d := range vm.Status.Disks {
		if d.Volume != nil && *d.Volume == disk {
			return d.SizeBytes
		}
	}
	return 0
}

// DiskBytes returns the disk's virtual size in bytes: the reported one, else the requested one.
func (vm VM) DiskBytes(d Disk) int64 {
	if n := vm.sizeOnHost(d.Ref()); n > 0 {
		return n
	}
	return d.SizeBytes
}

// cancelsGrowth reports whether the change only lowers a disk's requested size, and not below its size on the host.
// Such a change cancels a growth that the host could not execute.
func (vm VM) cancelsGrowth(c Change, to VM) bool {
	var i int
	if n, err := fmt.Sscanf(strings.TrimPrefix(c.Field, "spec.disks"), "[%d]", &i); n != 1 || err != nil || i < 0 || i >= len(to.Spec.Disks) {
		return false
	}
	now := to.Spec.Disks[i]
	has := vm.sizeOnHost(now.Ref())
	for _, d := range vm.Spec.Disks {
		if d.Ref() == now.Ref() {
			return differOnlyInSize(d, now) && has > 0 && now.SizeBytes >= has
		}
	}
	return false
}

// GrowingDisks returns the disks that are larger in to than in vm, by index in to.Disks, with their current size in
// bytes. Disks that already have the requested size on the host are left out.
func (vm VM) GrowingDisks(to VMSpec) map[int]int64 {
	out := map[int]int64{}
	for i, d := range to.Disks {
		for _, old := range vm.Spec.Disks {
			if has := vm.DiskBytes(old); old.Ref() == d.Ref() && d.SizeBytes > old.SizeBytes && d.SizeBytes != has {
				out[i] = has
			}
		}
	}
	return out
}

// AllowsDiskGrowth reports whether the disk can be grown now; the string is the reason if not. moving lists the VM's
// disks under migration.
func (v VMView) AllowsDiskGrowth(disk Disk, moving []MovingDisk) (bool, string) {
	ok, why := v.Allows(ActEdit)
	switch {
	case !ok:
		return false, why
	case disk.Encryption != "" && !v.HasGuest():
		return false, "The disk is encrypted, so only QEMU can grow it, while the VM runs. Start the VM first."
	case disk.Shareable:
		return false, "The disk is shared with other VMs, whose guests would not see the new size. Remove the disk from all VMs, and grow the volume in its pool."
	case disk.Existing:
		return false, "The disk is a LUN. Grow the LUN on the storage target."
	case v.Phase == PhaseCreating || v.Status == nil || v.Status.Power == Absent:
		return false, "The VM is not on its host yet."
	case v.MissingDiskFault(disk.Ref()) != nil:
		return false, v.MissingDiskFault(disk.Ref()).Text
	case v.WhySnapshotsBlockDiskJobs() != "":
		return false, v.WhySnapshotsBlockDiskJobs()
	}
	for _, m := range moving {
		if m.Disk == disk.Ref() {
			return false, "The disk is being moved to another pool. Wait for that task, or cancel it."
		}
	}
	return true, ""
}
