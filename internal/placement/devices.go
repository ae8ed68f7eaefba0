package placement

import (
	"fmt"

	"quantix/internal/fleet"
)

// checkMedium adds a fault if a volume of an ISO, floppy or kernel is missing or has the wrong format.
func (f *faultCheck) checkMedium(m fleet.Medium) {
	at := "spec." + m.Field
	if !f.requireReadyPool(m.PoolID, at+".poolId") || m.Kind == fleet.MediumFolder || !f.requireVolume(m.Volref, at+".volume") {
		return // the host checks a folder when it executes the job
	}
	switch v := f.host.Volumes[m.Volref]; {
	case m.Kind == fleet.MediumISO && !v.IsISO():
		f.addFault(at+".volume", fmt.Sprintf("no ISO image %q", m.Volume), "%s is not an ISO image.", m.Volume)
	case m.Kind == fleet.MediumFloppy && (!v.IsPlainFile() || v.CapacityBytes > fleet.MaxFloppyBytes):
		f.addFault(at+".volume", fmt.Sprintf("no floppy %q", m.Volume), "%s is not a floppy image: a floppy image is a raw volume of at most 2.88 MB.", m.Volume)
	case m.Kind == fleet.MediumFile && !v.IsPlainFile():
		f.addFault(at+".volume", fmt.Sprintf("no plain file %q", m.Volume), "%s is not a plain file: a kernel or initrd must be a raw volume.", m.Volume)
	}
}

// checkDevice adds a fault if the host cannot give this device to the VM.
func (f *faultCheck) checkDevice(d fleet.VMHostDevice, at string) {
	kind, _ := d.Kind()
	switch has, ok := f.host.Devices[d.Device]; {
	case d.HostID != "" && d.HostID != f.host.ID:
		f.addFault(at, "a device of another host", "%s is a device of another host than %s. A VM must be on the host of its devices.", d.Device, f.host.Name)
	case !ok:
		f.addFault(at, "no device "+d.Device, "%s has no device %s for passthrough.", f.host.Name, d.Device)
	case kind.Shared && has.Max == 0:
		f.addFault(at, "no "+d.Device+" now", "%s cannot create a %s now: the physical device is used in another way.", f.host.Name, d.Device)
	case kind.Shared && has.VMs >= has.Max:
		f.addFault(at, "no "+d.Device+" left", "%s can assign %s to %d VMs, and all are in use.", f.host.Name, d.Device, has.Max)
	case kind.Shared:
	case has.VM != "":
		f.addFault(at, "device "+d.Device+" is in use", "%s of %s is already assigned to the VM %s.", d.Device, f.host.Name, has.VM)
	case has.HostUse != "":
		f.addFault(at, "disk "+d.Device+" is in use", "%s uses %s itself: the disk is %s. Release the disk on the host first.", f.host.Name, d.Device, has.HostUse)
	case has.NoIOMMUGroup:
		f.addFault(at, "no IOMMU group for device "+d.Device, "%s cannot pass through %s: the device has no IOMMU group. Switch the IOMMU on in the firmware and in the kernel (intel_iommu=on).", f.host.Name, d.Device)
	}
}
