package domxml

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
)

// Alias prefixes of devices that can exist several times. A distinguishing suffix follows.
const (
	DriveAliasPrefix  = "ua-quantix-drive-"
	shareAliasPrefix  = "ua-quantix-share-"
	serialAliasPrefix = "ua-quantix-serial-"
	redirAliasPrefix  = "ua-quantix-redir-"
	parallelAlias     = "ua-quantix-parallel"
)

// mediumPath returns the path of a medium, or "" for nil. In this package the specs for definitions name a medium by
// its host path: Volume is the path, and PoolID is empty.
func mediumPath(v *fleet.Volref) string {
	if v == nil {
		return ""
	}
	return v.Volume
}

// mediumOfPath returns the medium with that path, or nil for "".
func mediumOfPath(path string) *fleet.Volref {
	if path == "" {
		return nil
	}
	return &fleet.Volref{Volume: path}
}

func updateOS(x *libvirtxml.Domain, set func(*libvirtxml.DomainOS)) {
	if x.OS != nil {
		set(x.OS)
	}
}

// aliasHash returns a short digest for use in an alias, because libvirt allows only some characters in aliases.
func aliasHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

func writeDrives(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	wanted := func(alias string) bool {
		return slices.ContainsFunc(s.Drives, func(w fleet.VMDrive) bool { return DriveAliasPrefix+w.Slot == alias })
	}
	d.Disks = slices.DeleteFunc(d.Disks, func(o libvirtxml.DomainDisk) bool {
		return HasAliasPrefix(o.Alias, DriveAliasPrefix) && !wanted(AliasOf(o.Alias))
	})
	for _, w := range s.Drives {
		i := slices.IndexFunc(d.Disks, func(o libvirtxml.DomainDisk) bool { return AliasOf(o.Alias) == DriveAliasPrefix+w.Slot })
		if i < 0 {
			d.Disks, i = append(d.Disks, newMediaDrive(x, w)), len(d.Disks)
		}
		one := &d.Disks[i]
		if one.Boot = bootElement(w.BootOrder); DiskPathOf(one) == mediumPath(w.Medium) {
			continue
		}
		if one.Source = nil; w.Medium != nil {
			one.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: w.Medium.Volume}}
		}
	}
}

func newMediaDrive(x *libvirtxml.Domain, w fleet.VMDrive) libvirtxml.DomainDisk {
	drive := newCDROMOnFreeTarget(x)
	if w.IsFloppy() {
		drive.Device = "floppy" // read-only, because several VMs may use the same image
		drive.Target = &libvirtxml.DomainDiskTarget{Dev: map[string]string{"floppy1": "fda", "floppy2": "fdb"}[w.Slot], Bus: "fdc"}
	}
	drive.Alias = &libvirtxml.DomainAlias{Name: DriveAliasPrefix + w.Slot}
	return drive
}

func readDrives(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	for i := range x.Devices.Disks {
		if d := &x.Devices.Disks[i]; HasAliasPrefix(d.Alias, DriveAliasPrefix) {
			s.Drives = append(s.Drives, fleet.VMDrive{Slot: strings.TrimPrefix(AliasOf(d.Alias), DriveAliasPrefix), Medium: mediumOfPath(DiskPathOf(d)), BootOrder: bootNumberOf(d.Boot)})
		}
	}
	return ""
}

func writeSharedFolders(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Filesystems = slices.DeleteFunc(d.Filesystems, func(o libvirtxml.DomainFilesystem) bool { return HasAliasPrefix(o.Alias, shareAliasPrefix) })
	for _, w := range s.Shares {
		d.Filesystems = append(d.Filesystems, libvirtxml.DomainFilesystem{
			AccessMode: "passthrough", Driver: &libvirtxml.DomainFilesystemDriver{Type: "virtiofs"},
			Source: &libvirtxml.DomainFilesystemSource{Mount: &libvirtxml.DomainFilesystemSourceMount{Dir: w.Folder.Volume}},
			Target: &libvirtxml.DomainFilesystemTarget{Dir: w.Tag},
			Alias:  &libvirtxml.DomainAlias{Name: shareAliasPrefix + aliasHash(w.Tag)},
		})
	}
}

func readSharedFolders(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	for _, d := range x.Devices.Filesystems {
		if HasAliasPrefix(d.Alias, shareAliasPrefix) && d.Target != nil && d.Source != nil && d.Source.Mount != nil {
			s.Shares = append(s.Shares, fleet.VMShare{Tag: d.Target.Dir, Folder: fleet.Volref{Volume: d.Source.Mount.Dir}})
		}
	}
	return ""
}

func writeBalloon(x *libvirtxml.Domain, s fleet.VMSpec) {
	b := CopyOrZero(x.Devices.MemBalloon)
	if x.Devices.MemBalloon = b; s.Devices.Balloon == "none" {
		*b = libvirtxml.DomainMemBalloon{Model: "none"}
		return
	}
	if b.Model == "none" || b.Model == "" {
		*b = libvirtxml.DomainMemBalloon{Model: "virtio", Stats: &libvirtxml.DomainMemBalloonStats{Period: 10}}
	}
	if b.FreePageReporting = ""; s.Devices.Balloon == "reporting" {
		b.FreePageReporting = "on"
	}
}

func readBalloon(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	switch b := x.Devices.MemBalloon; {
	case b == nil: // libvirt adds a balloon to such a guest
	case b.Model == "none":
		s.Devices.Balloon = "none"
	case b.FreePageReporting == "on":
		s.Devices.Balloon = "reporting"
	}
	return ""
}

func writeBalloonSize(x *libvirtxml.Domain, s fleet.VMSpec) {
	kib := uint(ConfiguredMemoryKiB(x))
	if n := uint(s.Memory.BalloonMiB) * 1024; n > 0 {
		kib = min(n, kib)
	}
	x.CurrentMemory = &libvirtxml.DomainCurrentMemory{Value: kib, Unit: "KiB"}
}

// ReadBalloonSize reads the size of the memory balloon into the spec.
func ReadBalloonSize(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	if c := x.CurrentMemory; c != nil && ToKiB(c.Value, c.Unit) < ConfiguredMemoryKiB(x) {
		s.Memory.BalloonMiB = int(ToKiB(c.Value, c.Unit) / 1024)
	}
	return ""
}

func writeSerials(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Serials = slices.DeleteFunc(d.Serials, func(o libvirtxml.DomainSerial) bool {
		n, _ := strconv.Atoi(strings.TrimPrefix(AliasOf(o.Alias), serialAliasPrefix))
		return HasAliasPrefix(o.Alias, serialAliasPrefix) && n > s.Devices.Serials
	})
	for n := 1; n <= s.Devices.Serials; n++ {
		alias := serialAliasPrefix + strconv.Itoa(n)
		if !slices.ContainsFunc(d.Serials, func(o libvirtxml.DomainSerial) bool { return AliasOf(o.Alias) == alias }) {
			d.Serials = append(d.Serials, libvirtxml.DomainSerial{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}, Alias: &libvirtxml.DomainAlias{Name: alias},
			})
		}
	}
}

func writeParallelPort(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Parallels = slices.DeleteFunc(d.Parallels, func(o libvirtxml.DomainParallel) bool { return AliasOf(o.Alias) == parallelAlias })
	if s.Devices.Parallel {
		d.Parallels = append(d.Parallels, libvirtxml.DomainParallel{
			Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}}, Alias: &libvirtxml.DomainAlias{Name: parallelAlias},
		})
	}
}

func isSpice(g libvirtxml.DomainGraphic) bool { return g.Spice != nil }

func writeSpice(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	switch has := slices.ContainsFunc(d.Graphics, isSpice); {
	case !s.Display.Spice:
		d.Graphics = slices.DeleteFunc(d.Graphics, isSpice)
		// libvirt adds this audio backend for SPICE; the spec has no field for it.
		d.Audios = slices.DeleteFunc(d.Audios, func(o libvirtxml.DomainAudio) bool { return o.SPICE != nil })
	case !has:
		d.Graphics = append(d.Graphics, libvirtxml.DomainGraphic{Spice: &libvirtxml.DomainGraphicSpice{
			Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{}}},
		}})
	}
}

func writeUSBRedirection(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.RedirDevs = slices.DeleteFunc(d.RedirDevs, func(o libvirtxml.DomainRedirDev) bool { return HasAliasPrefix(o.Alias, redirAliasPrefix) })
	for n := range s.Display.USBRedirection {
		d.RedirDevs = append(d.RedirDevs, libvirtxml.DomainRedirDev{
			Bus: "usb", Source: &libvirtxml.DomainChardevSource{SpiceVMC: &libvirtxml.DomainChardevSourceSpiceVMC{}},
			Alias: &libvirtxml.DomainAlias{Name: redirAliasPrefix + strconv.Itoa(n+1)},
		})
	}
}

// SpecHasMedium reports whether the applied spec already has the file at path as a medium of the same kind as m.
func SpecHasMedium(applied fleet.VMSpec, m fleet.Medium, path string) bool {
	return slices.ContainsFunc(applied.Media(), func(o fleet.Medium) bool { return o.Kind == m.Kind && cmp.Or(o.Volume) == path })
}
