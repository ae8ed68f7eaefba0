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

	"quantix/agent"
	"quantix/agent/blockdev"
	"quantix/internal/fleet"
)

// A disk of the host that a guest has for itself stands in a definition as a disk, with the alias of a device of the host.

const physicalDir = "/" + blockdev.Dir + "/"

// physicalOf is the name of a disk of the host in a spec; empty: it is none.
func physicalOf(d *libvirtxml.DomainDisk) string {
	if !isOurs(d.Alias, aliasHostdev) {
		return ""
	}
	name, ok := strings.CutPrefix(pathOf(d), physicalDir)
	if !ok {
		name = pathOf(d) // somebody changed it
	}
	return fleet.PhysicalDevice + name
}

// writePhysicals is writeHostDevices for disks. It comes behind the VM's own, which keep their place and so their names.
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

// checkPhysicals refuses disks of the host that are not there, that it uses itself, and that another domain has. Those that the VM has stay.
func (a *applying) checkPhysicals(ctx context.Context, old *sighted, in intent) error {
	if !in.Has("hostDevices") {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Clone(in.spec.HostDevices), func(w fleet.VMHostDevice) bool {
		return old != nil && slices.ContainsFunc(old.kept.parts.HostDevices, func(o fleet.VMHostDevice) bool { return o.Device == w.Device })
	})
	return a.physicalsFree(ctx, a.c, a.in.VM.ID, fresh, false)
}

// physicalsFree looks now. running: what counts are guests that run, not definitions.
func (b *Backend) physicalsFree(ctx context.Context, c *conn, id fleet.VMID, devices []fleet.VMHostDevice, running bool) error {
	for _, w := range devices {
		name := w.Physical()
		if name == "" {
			continue
		}
		d, err := bounded(ctx, func() (blockdev.Device, error) { return unclaimed(w.Device, name) })
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
					return cmpErr(err, agent.PhysicalTaken(w.Device))
				}
			}
		}
	}
	return nil
}

// unclaimed is the disk of that name, which neither its partitions nor the kernel say to be in use.
func unclaimed(device, name string) (blockdev.Device, error) {
	d, ok := blockdev.Look("/", name)
	switch {
	case !ok:
		return d, agent.NoPhysical(device)
	case d.Busy != "":
		return d, agent.PhysicalBusy(device, d.Busy)
	}
	claimed, err := blockdev.Claimed(physicalDir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, agent.NoPhysical(device)
	case claimed:
		return d, agent.PhysicalBusy(device, "held by its kernel for somebody")
	}
	return d, err
}

// onDisk reports whether the path is that disk, or a part of it, by whatever name.
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
