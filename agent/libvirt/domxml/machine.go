package domxml

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// q35 is the default machine type.
const q35 = "q35"

// SupportedMachines are the machine types that Quantix supports, the default first.
var SupportedMachines = []string{q35, fleet.MachinePC}

// MachineTypeOf returns the machine type of the spec; the default is q35.
func MachineTypeOf(s fleet.VMSpec) string { return cmp.Or(s.Boot.Machine, q35) }

// isPCMachine reports whether the definition has the old PC machine type, as an alias or a version: pc-i440fx-7.2,
// pc-1.3.
func isPCMachine(x *libvirtxml.Domain) bool {
	return !isQ35(x) && x.OS != nil && x.OS.Type != nil && (x.OS.Type.Machine == fleet.MachinePC || strings.HasPrefix(x.OS.Type.Machine, "pc-"))
}

func isQ35(x *libvirtxml.Domain) bool {
	return x.OS != nil && x.OS.Type != nil && strings.Contains(x.OS.Type.Machine, q35)
}

// readMachineType sets the spec's machine type and returns an unsupported machine type. It ignores a definition without
// a machine type, which libvirt never returns.
func readMachineType(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch {
	case isPCMachine(x):
		s.Boot.Machine = fleet.MachinePC
	case !isQ35(x) && x.OS != nil && x.OS.Type != nil:
		return x.OS.Type.Machine
	}
	return ""
}

// writeMachineType changes the machine type. It removes all bus addresses, because libvirt must assign new ones. It
// moves CD-ROM drives to the bus that guests of the new machine type expect.
func writeMachineType(x *libvirtxml.Domain, s fleet.VMSpec) {
	var is fleet.VMSpec
	if x.OS == nil || x.OS.Type == nil || readMachineType(x, &is) == "" && is.Boot.Machine == s.Boot.Machine {
		return
	}
	x.OS.Type.Machine = MachineTypeOf(s)
	d := x.Devices
	d.Controllers = slices.DeleteFunc(d.Controllers, func(c libvirtxml.DomainController) bool {
		return c.Type == "pci" || c.Type == "ide" || c.Type == "sata"
	})
	dropBusAddresses(reflect.ValueOf(d).Elem())
	for i := range d.Disks {
		if d.Disks[i].Device == "cdrom" && HasAliasPrefix(d.Disks[i].Alias, "ua-quantix-") {
			d.Disks[i].Target = &libvirtxml.DomainDiskTarget{}
		}
	}
	for i := range d.Disks {
		if one := &d.Disks[i]; one.Target != nil && *one.Target == (libvirtxml.DomainDiskTarget{}) {
			*one.Target = *newCDROMOnFreeTarget(x).Target
		}
	}
}

// dropBusAddresses removes the guest-side bus addresses of devices. It preserves the host-side address of a device,
// which has another type.
func dropBusAddresses(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			dropBusAddresses(v.Index(i))
		}
	case reflect.Pointer:
		if at, ok := reflect.TypeAssert[*libvirtxml.DomainAddress](v); ok && at != nil && v.CanSet() && (at.PCI != nil || at.Drive != nil) {
			v.SetZero()
		} else if !v.IsNil() {
			dropBusAddresses(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			dropBusAddresses(field)
		}
	}
}

// newCDROM returns an empty CD-ROM drive on the bus and target that guests of the machine type expect.
func newCDROM(machine string) libvirtxml.DomainDisk {
	target := &libvirtxml.DomainDiskTarget{Dev: "sda", Bus: "sata"}
	if machine == fleet.MachinePC {
		target = &libvirtxml.DomainDiskTarget{Dev: ideTargets[0], Bus: "ide"}
	}
	return libvirtxml.DomainDisk{
		Device: "cdrom", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Target: target, ReadOnly: &libvirtxml.DomainDiskReadOnly{}, Alias: &libvirtxml.DomainAlias{Name: cdromAlias},
	}
}

// ideTargets are the target names of IDE drives on the pc machine type. Targets of the second channel come first,
// because disks use the first channel.
var ideTargets = []string{"hdc", "hdd", "hdb", "hda"}

// newCDROMOnFreeTarget returns a CD-ROM drive with an unused target name. If all IDE targets are in use,
// newCDROMOnFreeTarget uses SATA.
func newCDROMOnFreeTarget(x *libvirtxml.Domain) libvirtxml.DomainDisk {
	free := func(name string) bool {
		return !slices.ContainsFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return DiskTargetOf(&d) == name })
	}
	if isPCMachine(x) {
		if i := slices.IndexFunc(ideTargets, free); i >= 0 {
			drive := newCDROM(fleet.MachinePC)
			drive.Target.Dev = ideTargets[i]
			return drive
		}
	}
	drive := newCDROM(q35)
	for i := 0; !free(drive.Target.Dev); i++ {
		drive.Target.Dev = diskTargetName("sd", i)
	}
	return drive
}
