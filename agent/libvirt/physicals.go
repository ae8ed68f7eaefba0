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

// physicalDir is the directory of the stable names of physical disks.
const physicalDir = "/" + blockdev.Dir + "/"

// physicalOf returns the spec's name of a physical disk. It is empty if the disk is not a physical disk.
func physicalOf(d *libvirtxml.DomainDisk) string {
	if !hasAliasPrefix(d.Alias, aliasHostdev) {
		return ""
	}
	name, ok := strings.CutPrefix(pathOf(d), physicalDir)
	if !ok {
		name = pathOf(d) // somebody edited the path
	}
	return fleet.PhysicalDevice + name
}

// writePhysicals is writeHostDevices for disks. It appends physical disks after the VM's own disks, so that the VM's
// own disks keep their order and target names.
func writePhysicals(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Disks = slices.DeleteFunc(d.Disks, func(o libvirtxml.DomainDisk) bool {
		name := physicalOf(&o)
		return name != "" && !slices.ContainsFunc(s.HostDevices, func(w fleet.VMHostDevice) bool { return w.Device == name })
	})
	for _, w := range s.HostDevices {
		if w.Physical() == "" || slices.ContainsFunc(d.Disks, func(o libvirtxml.DomainDisk) bool { return physicalOf(&o) == w.Device }) {
			continue
		}
		d.Disks = append(d.Disks, libvirtxml.DomainDisk{
			Device: "disk", Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw", Cache: "none", Discard: "unmap"},
			Source: &libvirtxml.DomainDiskSource{Block: &libvirtxml.DomainDiskSourceBlock{Dev: physicalDir + w.Physical()}},
			Target: &libvirtxml.DomainDiskTarget{Bus: "virtio"}, Alias: &libvirtxml.DomainAlias{Name: aliasHostdev + aliasHash(w.Device)},
		})
	}
	nameTargets(d)
}

// checkPhysicals refuses physical disks that are missing, in use by the host, or assigned to another domain. It does
// not check disks that the VM already has.
func (a *applying) checkPhysicals(ctx context.Context, old *observedDomain, in definitionEdit) error {
	if !in.Has("hostDevices") {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Clone(in.spec.HostDevices), func(w fleet.VMHostDevice) bool {
		return old != nil && slices.ContainsFunc(old.persistent.parts.HostDevices, func(o fleet.VMHostDevice) bool { return o.Device == w.Device })
	})
	return a.checkPhysicalsFree(ctx, a.c, a.in.VM.ID, fresh, false)
}

// checkPhysicalsFree refuses physical disks that are missing or in use. If running is set, only running guests count as
// users; otherwise every definition counts.
func (b *Backend) checkPhysicalsFree(ctx context.Context, c *conn, id fleet.VMID, devices []fleet.VMHostDevice, running bool) error {
	for _, w := range devices {
		name := w.Physical()
		if name == "" {
			continue
		}
		d, err := withinLookPatience(ctx, func() (blockdev.Device, error) { return unusedDisk(w.Device, name) })
		if err != nil {
			return err
		}
		all, err := b.inventory(ctx, c)
		if err != nil {
			return err
		}
		dirs := b.dirsOfPools(ctx, decisionRecency, all)
		for _, s := range all {
			files := s.diskFiles()
			if running && s.live == nil || s.id == id {
				continue
			}
			for _, h := range files {
				at := dirs.path(h.path)
				same, err := withinLookPatience(ctx, func() (bool, error) { return onDisk(at, d.Kernel), nil })
				if err != nil || same {
					return firstError(err, hypervisor.RefuseTakenPhysical(w.Device))
				}
			}
		}
	}
	return nil
}

// unusedDisk returns the physical disk with this name. It refuses a disk with partitions or file systems in use, and a
// disk that the kernel has claimed.
func unusedDisk(device, name string) (blockdev.Device, error) {
	d, ok := blockdev.Find("/", name)
	switch {
	case !ok:
		return d, hypervisor.NoPhysical(device)
	case d.Busy != "":
		return d, hypervisor.RefuseBusyPhysical(device, d.Busy)
	}
	claimed, err := blockdev.InUse(physicalDir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, hypervisor.NoPhysical(device)
	case claimed:
		return d, hypervisor.RefuseBusyPhysical(device, "claimed by the host's kernel")
	}
	return d, err
}

// onDisk reports whether the path, under any of its names, is the kernel's disk or one of the disk's partitions.
func onDisk(at, kernel string) bool {
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
