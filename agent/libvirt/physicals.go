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

// A physical disk that is assigned to a guest is a disk in its definition, with the alias of a host device.

// physicalDir is the directory of the stable names of physical disks.
const physicalDir = "/" + blockdev.Dir + "/"

// physicalOf returns the spec's name of a physical disk; empty if the disk is not one.
func physicalOf(d *libvirtxml.DomainDisk) string {
	if !isOurs(d.Alias, aliasHostdev) {
		return ""
	}
	name, ok := strings.CutPrefix(pathOf(d), physicalDir)
	if !ok {
		name = pathOf(d) // somebody edited the path
	}
	return fleet.PhysicalDevice + name
}

// writePhysicals is writeHostDevices for disks. It appends them after the VM's own disks, which so keep their order and
// target names.
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
			Target: &libvirtxml.DomainDiskTarget{Bus: "virtio"}, Alias: &libvirtxml.DomainAlias{Name: aliasHostdev + hashed(w.Device)},
		})
	}
	nameTargets(d)
}

// checkPhysicals refuses physical disks that are missing, in use by the host, or assigned to another domain. Disks that
// the VM already has are not checked.
func (a *applying) checkPhysicals(ctx context.Context, old *sighted, in intent) error {
	if !in.Has("hostDevices") {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Clone(in.spec.HostDevices), func(w fleet.VMHostDevice) bool {
		return old != nil && slices.ContainsFunc(old.kept.parts.HostDevices, func(o fleet.VMHostDevice) bool { return o.Device == w.Device })
	})
	return a.physicalsFree(ctx, a.c, a.in.VM.ID, fresh, false)
}

// physicalsFree checks physical disks now. If running is set, only running guests count as users; otherwise every
// definition does.
func (b *Backend) physicalsFree(ctx context.Context, c *conn, id fleet.VMID, devices []fleet.VMHostDevice, running bool) error {
	for _, w := range devices {
		name := w.Physical()
		if name == "" {
			continue
		}
		d, err := bounded(ctx, func() (blockdev.Device, error) { return unusedDisk(w.Device, name) })
		if err != nil {
			return err
		}
		all, err := b.inventory(ctx, c)
		if err != nil {
			return err
		}
		dirs := b.dirsOfPools(ctx, fresh, all)
		for _, s := range all {
			files := s.held()
			if running && s.live == nil || s.id == id {
				continue
			}
			for _, h := range files {
				at := dirs.path(h.path)
				same, err := bounded(ctx, func() (bool, error) { return onDisk(at, d.Kernel), nil })
				if err != nil || same {
					return cmpErr(err, hypervisor.PhysicalTaken(w.Device))
				}
			}
		}
	}
	return nil
}

// unusedDisk returns the disk of this name. It refuses a disk that has partitions or file systems in use, or that the
// kernel holds.
func unusedDisk(device, name string) (blockdev.Device, error) {
	d, ok := blockdev.Look("/", name)
	switch {
	case !ok:
		return d, hypervisor.NoPhysical(device)
	case d.Busy != "":
		return d, hypervisor.PhysicalBusy(device, d.Busy)
	}
	claimed, err := blockdev.Claimed(physicalDir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, hypervisor.NoPhysical(device)
	case claimed:
		return d, hypervisor.PhysicalBusy(device, "held by its kernel for somebody")
	}
	return d, err
}

// onDisk reports whether the path, under any name, is that disk or one of its partitions.
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
