package placement

import (
	"fmt"

	"quantix/internal/fleet"
)

// medium adds a fault if a volume of an ISO, floppy or kernel is missing or has the wrong format.
func (f *fit) medium(m fleet.Medium) {
	at := "spec." + m.Field
	if !f.pool(m.PoolID, at+".poolId") || m.Kind == fleet.MediumFolder || !f.volume(m.Volref, at+".volume") {
		return // the host itself looks up folders
	}
	switch v := f.host.Volumes[m.Volref]; {
	case m.Kind == fleet.MediumISO && !v.IsISO():
		f.add(at+".volume", fmt.Sprintf("no ISO image %q", m.Volume), "%s is no ISO image.", m.Volume)
	case m.Kind == fleet.MediumFloppy && (!v.IsPlain() || v.CapacityBytes > fleet.MaxFloppyBytes):
		f.add(at+".volume", fmt.Sprintf("no floppy %q", m.Volume), "%s is no floppy: that is a raw volume of 2.88 MB at most.", m.Volume)
	case m.Kind == fleet.MediumFile && !v.IsPlain():
		f.add(at+".volume", fmt.Sprintf("no plain file %q", m.Volume), "%s is no plain file: a kernel is a raw volume.", m.Volume)
	}
}

// device adds a fault if the host cannot give this device to the VM.
func (f *fit) device(d fleet.VMHostDevice, at string) {
	kind, _ := d.Kind()
	switch has, ok := f.host.Devices[d.Device]; {
	case d.HostID != "" && d.HostID != f.host.ID:
		f.add(at, "a device of another host", "%s is asked of another host than %s. The VM is where its devices are.", d.Device, f.host.Name)
	case !ok:
		f.add(at, "no device "+d.Device, "%s has no device %s that a guest could have.", f.host.Name, d.Device)
	case kind.Shared && has.Max == 0:
		f.add(at, "no "+d.Device+" now", "%s cannot make a %s now: what would make it is used in another way.", f.host.Name, d.Device)
	case kind.Shared && has.VMs >= has.Max:
		f.add(at, "no "+d.Device+" left", "%s can give %s to %d VMs, and has.", f.host.Name, d.Device, has.Max)
	case kind.Shared:
	case has.VM != "":
		f.add(at, "device "+d.Device+" is in use", "%s of %s is given to the VM %s already.", d.Device, f.host.Name, has.VM)
	case has.Busy != "":
		f.add(at, "disk "+d.Device+" is in use", "%s uses %s itself: it is %s. No guest gets it before the host has let go of it.", f.host.Name, d.Device, has.Busy)
	case has.Stays:
		f.add(at, "device "+d.Device+" stays with the host", "%s cannot give away %s: it has no IOMMU group. Switch the IOMMU on, in the firmware and in the kernel (intel_iommu=on).", f.host.Name, d.Device)
	}
}
