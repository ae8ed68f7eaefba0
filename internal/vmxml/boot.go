package vmxml

import (
	"slices"

	"quantix/internal/fleet"
)

// defaultOrder is the firmware's boot order for a VM whose devices have no boot order.
var defaultOrder = []string{"hd", "cdrom", "network"}

// resolveBootOrder converts the definition's boot order of device kinds to boot orders of devices: it numbers the first
// device of each kind. If the order is defaultOrder, it does nothing.
func (r *conversion) resolveBootOrder() {
	numbered := slices.ContainsFunc(r.Disks, func(d Disk) bool { return d.As.BootOrder > 0 }) ||
		slices.ContainsFunc(r.Spec.NICs, func(n fleet.NIC) bool { return n.BootOrder > 0 })
	at, inOrder := -1, true
	for _, e := range r.firmwareOrder {
		i := slices.Index(defaultOrder, e.attr("dev"))
		inOrder = inOrder && i > at
		at = i
	}
	for n, e := range r.firmwareOrder {
		switch {
		case numbered:
			r.addNote(e, Left, "The boot order of single devices is used, so an order of device kinds is dropped.")
		case inOrder:
			r.addNote(e, Usual, "Disks are tried first, then the CD-ROM, then the network, as on every VM without a boot order.")
		case !r.setFirstDeviceBootOrder(e.attr("dev"), n+1):
			r.addNote(e, Left, "The VM has no device of the kind "+shortenForError(e.attr("dev"))+" to boot from.")
		}
	}
}

// setFirstDeviceBootOrder sets the boot order of the first device of the kind. It reports whether there is such a device.
func (r *conversion) setFirstDeviceBootOrder(kind string, order int) bool {
	if kind == "network" {
		if len(r.Spec.NICs) > 0 {
			r.Spec.NICs[0].BootOrder = order
		}
		return len(r.Spec.NICs) > 0
	}
	i := slices.IndexFunc(r.Disks, func(d Disk) bool {
		return kind == "cdrom" && d.CDROM || kind == "fd" && d.Floppy || kind == "hd" && !d.CDROM && !d.Floppy
	})
	if i >= 0 {
		r.Disks[i].As.BootOrder = order
	}
	return i >= 0
}
