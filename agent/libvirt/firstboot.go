package libvirt

import (
	"context"
	"fmt"
	"path"
	"slices"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/seed"
	"quantix/internal/fleet"
)

// firstBootAlias is the alias of the drive with the first-boot seed. The spec does not list this drive.
const firstBootAlias = "ua-quantix-firstboot"

// ignitionFWCfgNames are the firmware configuration (fw_cfg) names of Ignition files. Fedora CoreOS and Flatcar read
// different names.
var ignitionFWCfgNames = []string{"opt/com.coreos/config", "opt/org.flatcar-linux/config"}

// createSeed sets in.seed if the spec has first-boot data and the definition uses it. It creates the seed file if the
// file is missing. defined is the first-boot setting of the current definition.
func (a *applyRun) createSeed(ctx context.Context, defined fleet.VMFirstBoot, in *definitionEdit) error {
	want := a.in.VM.Spec.FirstBoot
	if want.Kind == "" || !in.SetsField("firstBoot") && defined != want {
		return nil
	}
	file, err := a.seeds.PathOf(a.in.VM.ID, want)
	if err != nil {
		return err
	}
	in.seed = file
	have, err := withinContext(ctx, func() (bool, error) { return a.seeds.Exists(a.in.VM.ID, want) })
	if err != nil || have {
		return err
	}
	if a.in.FirstBoot == nil {
		return fleet.Errorf(fleet.Conflict, "The VM's first-boot data is not on this host. Enter the first-boot data again.")
	}
	files, err := a.in.FirstBoot(ctx)
	if err != nil {
		return err
	}
	_, err = withinContext(ctx, func() (struct{}, error) { return struct{}{}, a.seeds.Write(a.in.VM.ID, want, files) })
	if err != nil {
		return fmt.Errorf("create the first-boot seed: %w", err)
	}
	return nil
}

// removeUnusedSeeds removes seeds that no definition, running guest or snapshot with memory uses.
func (a *applyRun) removeUnusedSeeds(ctx context.Context, x *libvirtxml.Domain, live *domainHardware) error {
	keep := []string{seedPathOf(x)}
	tree, err := withinContext(ctx, func() (*hypervisor.SnapTree, error) { return readSnapshotTree(a.in.VM.ID) })
	if err != nil {
		return nil //nolint:nilerr // all seeds stay, because an unknown snapshot may use any of them
	}
	if tree != nil {
		for _, n := range tree.Nodes {
			keep = append(keep, n.Seed)
		}
		if w := tree.Work; w != nil && w.Node != nil {
			keep = append(keep, w.Node.Seed)
		}
	}
	if live != nil {
		keep = append(keep, live.seed)
	}
	return a.removeOtherSeeds(ctx, a.in.VM.ID, keep...)
}

// removeOtherSeeds removes the VM's first-boot seeds except the given files.
func (b *Backend) removeOtherSeeds(ctx context.Context, id fleet.VMID, files ...string) error {
	_, err := withinContext(ctx, func() (struct{}, error) { return struct{}{}, b.seeds.RemoveExcept(id, files...) })
	if err != nil {
		return fmt.Errorf("remove the first-boot seed: %w", err)
	}
	return nil
}

// editFirstBoot removes the previous seed from the definition and attaches the seed file, unless file is "". Ignition
// reads the file from the firmware configuration; other kinds read a drive.
func editFirstBoot(x *libvirtxml.Domain, kind fleet.FirstBootKind, file string) {
	x.Devices.Disks = slices.DeleteFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return aliasOf(d.Alias) == firstBootAlias })
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
		drive.Alias = &libvirtxml.DomainAlias{Name: firstBootAlias}
		drive.Source = &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: file}}
		x.Devices.Disks = append(x.Devices.Disks, drive)
	}
}

// seedDisk returns a read-only disk for the seed. The disk uses virtio, because cloud kernels such as Debian's lack
// SATA drivers. cloud-init finds the disk by its label. The target name sorts after the other disks, because the guest
// boots from the first disk.
func seedDisk(x *libvirtxml.Domain) libvirtxml.DomainDisk {
	target := ""
	for i := 25; target == "" || slices.ContainsFunc(x.Devices.Disks, func(d libvirtxml.DomainDisk) bool { return diskTargetOf(&d) == target }); i++ {
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

// seedPathOf returns the path of the first-boot seed in the definition, or "".
func seedPathOf(x *libvirtxml.Domain) string {
	if x.Devices != nil {
		for i := range x.Devices.Disks {
			if d := &x.Devices.Disks[i]; aliasOf(d.Alias) == firstBootAlias {
				return diskPathOf(d)
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
	file := seedPathOf(x)
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
