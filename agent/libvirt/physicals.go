package libvirt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/blockdev"
	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// The definition of a guest with an assigned physical disk has an ordinary disk with the alias of a host device.

// physicalDiskDir is the directory of the stable names of physical disks.
const physicalDiskDir = "/" + blockdev.DiskNameDir + "/"

// physicalDiskName returns the spec's name of a physical disk. It is empty if the disk is not a physical disk.
func physicalDiskName(d *libvirtxml.DomainDisk) string {
	if !hasAliasPrefix(d.Alias, hostdevAliasPrefix) {
		return ""
	}
	name, ok := strings.CutPrefix(diskPathOf(d), physicalDiskDir)
	if !ok {
		name = diskPathOf(d) // somebody edited the path
	}
	return fleet.PhysicalDevice + name
}

// writePhysicalDisks is writeHostDevices for disks. It appends physical disks after the VM's own disks, so that the
// VM's own disks keep their order and target names.
func writePhysicalDisks(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Disks = slices.DeleteFunc(d.Disks, func(o libvirtxml.DomainDisk) bool {
		name := physicalDiskName(&o)
		return name != "" && !slices.ContainsFunc(s.HostDevices, func(w fleet.VMHostDevice) bool { return w.Device == name })
	})
	for _, w := range s.HostDevices {
		if w.PhysicalDiskName() == "" || slices.ContainsFunc(d.Disks, func(o libvirtxml.DomainDisk) bool { return physicalDiskName(&o) == w.Device }) {
			continue
		}
		d.Disks = append(d.Disks, libvirtxml.DomainDisk{
			Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw", Cache: "none", Discard: "unmap"},
			Source: &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: physicalDiskDir + w.PhysicalDiskName()}},
			Target: &libvirtxml.DomainDiskTarget{Bus: "virtio"}, Alias: &libvirtxml.DomainAlias{Name: hostdevAliasPrefix + aliasHash(w.Device)},
		})
	}
	assignTargetNames(d)
}

// checkPhysicalDisks refuses physical disks that are missing, in use by the host, or assigned to another domain. It
// does not check disks that the VM already has.
func (a *applyRun) checkPhysicalDisks(ctx context.Context, old *observedDomain, in definitionEdit) error {
	if !in.SetsField("hostDevices") {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Clone(in.spec.HostDevices), func(w fleet.VMHostDevice) bool {
		return old != nil && slices.ContainsFunc(old.persistent.fieldValues.HostDevices, func(o fleet.VMHostDevice) bool { return o.Device == w.Device })
	})
	return a.checkPhysicalDisksFree(ctx, a.c, a.in.VM.ID, fresh, false)
}

// checkPhysicalDisksFree refuses physical disks that are missing or in use. If running is set, only running guests
// count as users; otherwise every definition counts.
func (b *Backend) checkPhysicalDisksFree(ctx context.Context, c *conn, id fleet.VMID, devices []fleet.VMHostDevice, running bool) error {
	for _, w := range devices {
		name := w.PhysicalDiskName()
		if name == "" {
			continue
		}
		d, err := withinLookupTimeout(ctx, func() (blockdev.Device, error) { return unusedPhysicalDisk(w.Device, name) })
		if err != nil {
			return err
		}
		all, err := b.readDomains(ctx, c)
		if err != nil {
			return err
		}
		dirs := b.poolLocationsFor(ctx, decisionRecency, all)
		for _, s := range all {
			files := s.diskFiles()
			if running && s.live == nil || s.id == id {
				continue
			}
			for _, h := range files {
				at := dirs.path(h.path)
				same, err := withinLookupTimeout(ctx, func() (bool, error) { return isOnKernelDisk(at, d.Kernel), nil })
				if err != nil || same {
					return preferFirstError(err, hypervisor.RefuseTakenPhysicalDisk(w.Device))
				}
			}
		}
	}
	return nil
}

// unusedPhysicalDisk returns the physical disk with this name. It refuses a disk with partitions or file systems in
// use, and a disk that the kernel has claimed.
func unusedPhysicalDisk(device, name string) (blockdev.Device, error) {
	d, ok := blockdev.FindDisk("/", name)
	switch {
	case !ok:
		return d, hypervisor.NoPhysicalDiskError(device)
	case d.Busy != "":
		return d, hypervisor.RefuseBusyPhysicalDisk(device, d.Busy)
	}
	claimed, err := blockdev.IsUsedByKernel(physicalDiskDir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, hypervisor.NoPhysicalDiskError(device)
	case claimed:
		return d, hypervisor.RefuseBusyPhysicalDisk(device, "claimed by the host's kernel")
	}
	return d, err
}

// isOnKernelDisk reports whether the path, under any of its names, is the kernel's disk or one of the disk's
// partitions.
func isOnKernelDisk(at, kernel string) bool {
	if !strings.HasPrefix(at, "/dev/") {
		return false
	}
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return false
	}
	name := path.Base(real)
	if name == kernel {
		return true
	}
	_, err = os.Stat(filepath.Join("/sys/class/block", kernel, name, "partition"))
	return err == nil
}
