package domxml

import (
	"path"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/seed"
	"quantix/internal/fleet"
)

// FirstBootAlias is the alias of the drive with the first-boot seed. The spec does not list this drive.
const FirstBootAlias = "ua-quantix-firstboot"

// ignitionFWCfgNames are the firmware configuration (fw_cfg) names of Ignition files. Fedora CoreOS and Flatcar read
// different names.
var ignitionFWCfgNames = []string{"opt/com.coreos/config", "opt/org.flatcar-linux/config"}

// editFirstBoot removes the previous seed from the definition and attaches the seed file, unless file is "". Ignition
// reads the file from the firmware configuration; other kinds read a drive.
func editFirstBoot(x *libvirtxml.Domain, kind fleet.FirstBootKind, file string) {
	x.Devices.Disks = slices.DeleteFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return AliasOf(d.Alias) == FirstBootAlias })
	removeIgnition(x)
	switch {
	case file == "":
	case kind == fleet.Ignition:
		i := slices.IndexFunc(x.SysInfo, func(s libvirtxml.DomainSysInfo) bool { return s.FWCfg != nil })
		if i < 0 {
			x.SysInfo = append(x.SysInfo, libvirtxml.DomainSysInfo{FWCfg: &libvirtxml.DomainSysInfoFWCfg{}})
			i = len(x.SysInfo) - 1
		}
		for _, key := range ignitionFWCfgNames {
			x.SysInfo[i].FWCfg.Entry = append(x.SysInfo[i].FWCfg.Entry, libvirtxml.DomainSysInfoEntry{Name: key, File: file})
		}
	default:
		drive := newCDROMOnFreeTarget(x)
		if kind.UsesCloudInit() {
			drive = seedDisk(x)
		}
		drive.Alias = &libvirtxml.DomainAlias{Name: FirstBootAlias}
		drive.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: file}}
		x.Devices.Disks = append(x.Devices.Disks, drive)
	}
}

// seedDisk returns a read-only disk for the seed. The disk uses virtio, because cloud kernels such as Debian's lack
// SATA drivers. cloud-init finds the disk by its label. The target name sorts after the other disks, because the guest
// boots from the first disk.
func seedDisk(x *libvirtxml.Domain) libvirtxml.DomainDisk {
	target := ""
	for i := 25; target == "" || slices.ContainsFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return DiskTargetOf(&d) == target }); i++ {
		target = diskTargetName("vd", i)
	}
	return libvirtxml.DomainDisk{
		Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Target: &libvirtxml.DomainDiskTarget{Dev: target, Bus: "virtio"}, ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
}

// removeIgnition removes Quantix's fw_cfg entries. Entries of an administrator stay.
func removeIgnition(x *libvirtxml.Domain) {
	for i := range x.SysInfo {
		if f := x.SysInfo[i].FWCfg; f != nil {
			f.Entry = slices.DeleteFunc(f.Entry, isIgnition)
		}
	}
	x.SysInfo = slices.DeleteFunc(x.SysInfo, func(s libvirtxml.DomainSysInfo) bool { return s.FWCfg != nil && len(s.FWCfg.Entry) == 0 })
}

// isIgnition reports whether the entry is an Ignition file of Quantix.
func isIgnition(e libvirtxml.DomainSysInfoEntry) bool {
	_, ours := seed.ParsePath(e.File)
	return ours && slices.Contains(ignitionFWCfgNames, e.Name)
}

// SeedPathOf returns the path of the first-boot seed in the definition, or "".
func SeedPathOf(x *libvirtxml.Domain) string {
	if x.Devices != nil {
		for i := range x.Devices.Disks {
			if d := &x.Devices.Disks[i]; AliasOf(d.Alias) == FirstBootAlias {
				return DiskPathOf(d)
			}
		}
	}
	for _, s := range x.SysInfo {
		if s.FWCfg == nil {
			continue
		}
		for _, e := range s.FWCfg.Entry {
			if isIgnition(e) {
				return e.File
			}
		}
	}
	return ""
}

// readFirstBoot derives the first-boot settings from the seed's file name. If it cannot, it returns the file's name.
func readFirstBoot(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	file := SeedPathOf(x)
	if file == "" {
		return ""
	}
	of, ok := seed.ParsePath(file)
	if !ok {
		return path.Base(file)
	}
	s.FirstBoot = of
	return ""
}
