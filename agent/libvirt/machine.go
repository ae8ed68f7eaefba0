package libvirt

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// q35 is the machine that a VM has which asks for none.
const q35 = "q35"

// machines are those that a host is asked about, the usual one first.
var machines = []string{q35, fleet.MachinePC}

func machineOf(s fleet.VMSpec) string { return cmp.Or(s.Boot.Machine, q35) }

// isPC reports whether the definition is of the old machine, under its name or under that of one of its versions: pc-i440fx-7.2, pc-1.3.
func isPC(x *libvirtxml.Domain) bool {
	return !isQ35(x) && x.OS != nil && x.OS.Type != nil && (x.OS.Type.Machine == fleet.MachinePC || strings.HasPrefix(x.OS.Type.Machine, "pc-"))
}

func isQ35(x *libvirtxml.Domain) bool {
	return x.OS != nil && x.OS.Type != nil && strings.Contains(x.OS.Type.Machine, q35)
}

// readMachine says nothing of a definition without a type, as there is none on a host.
func readMachine(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch {
	case isPC(x):
		s.Boot.Machine = fleet.MachinePC
	case !isQ35(x) && x.OS != nil && x.OS.Type != nil:
		return x.OS.Type.Machine
	}
	return ""
}

// writeMachine is for a definition in which somebody changed the machine. No device can stay where it is: libvirt finds each a new place, and the
// CD-ROM drives come to where guests of that machine look for them.
func writeMachine(x *libvirtxml.Domain, s fleet.VMSpec) {
	var is fleet.VMSpec
	if x.OS == nil || x.OS.Type == nil || readMachine(x, &is) == "" && is.Boot.Machine == s.Boot.Machine {
		return
	}
	x.OS.Type.Machine = machineOf(s)
	d := x.Devices
	d.Controllers = slices.DeleteFunc(d.Controllers, func(c libvirtxml.DomainController) bool {
		return c.Type == "pci" || c.Type == "ide" || c.Type == "sata"
	})
	dropPlaces(reflect.ValueOf(d).Elem())
	for i := range d.Disks {
		if d.Disks[i].Device == "cdrom" && isOurs(d.Disks[i].Alias, "ua-quantix-") {
			d.Disks[i].Target = &libvirtxml.DomainDiskTarget{}
		}
	}
	for i := range d.Disks {
		if one := &d.Disks[i]; one.Target != nil && *one.Target == (libvirtxml.DomainDiskTarget{}) {
			*one.Target = *freeDrive(x).Target
		}
	}
}

// dropPlaces forgets where devices sit on the machine's buses. What a device is on its host has an address of another type, and stays.
func dropPlaces(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			dropPlaces(v.Index(i))
		}
	case reflect.Pointer:
		if at, ok := reflect.TypeAssert[*libvirtxml.DomainAddress](v); ok && at != nil && v.CanSet() && (at.PCI != nil || at.Drive != nil) {
			v.SetZero()
		} else if !v.IsNil() {
			dropPlaces(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			dropPlaces(field)
		}
	}
}

// newCDROM is a drive that is empty, where guests of the machine look for one first.
func newCDROM(machine string) libvirtxml.DomainDisk {
	target := &libvirtxml.DomainDiskTarget{Dev: "sda", Bus: "sata"}
	if machine == fleet.MachinePC {
		target = &libvirtxml.DomainDiskTarget{Dev: ideDrives[0], Bus: "ide"}
	}
	return libvirtxml.DomainDisk{
		Device: "cdrom", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Target: target, ReadOnly: &libvirtxml.DomainDiskReadOnly{}, Alias: &libvirtxml.DomainAlias{Name: aliasCDROM},
	}
}

// ideDrives are the places of an old machine in which drives are looked for: the second channel first, as the first one has the disks.
var ideDrives = []string{"hdc", "hdd", "hdb", "hda"}

// freeDrive is a CD-ROM drive under a name that no other drive has. An old machine that has all of its places taken gets a SATA drive.
func freeDrive(x *libvirtxml.Domain) libvirtxml.DomainDisk {
	free := func(name string) bool {
		return !slices.ContainsFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return targetOf(&d) == name })
	}
	if isPC(x) {
		if i := slices.IndexFunc(ideDrives, free); i >= 0 {
			drive := newCDROM(fleet.MachinePC)
			drive.Target.Dev = ideDrives[i]
			return drive
		}
	}
	drive := newCDROM(q35)
	for i := 0; !free(drive.Target.Dev); i++ {
		drive.Target.Dev = diskNamed("sd", i)
	}
	return drive
}
