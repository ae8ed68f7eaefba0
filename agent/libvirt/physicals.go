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

	"quantix/agent/blockdev"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// libvirt has no host device for a whole physical disk. A domain has such a disk as an ordinary disk element, whose alias
// marks it as an assigned host device.

// checkPhysicalDisks refuses physical disks that are missing, in use by the host, or assigned to another domain. It
// does not check disks that the VM already has.
func (a *applyRun) checkPhysicalDisks(ctx context.Context, old *observedDomain, in domxml.EditContent) error {
	if !in.SetsField("hostDevices") {
		return nil
	}
	fresh := slices.DeleteFunc(slices.Clone(in.Spec.HostDevices), func(w fleet.VMHostDevice) bool {
		return old != nil && slices.ContainsFunc(old.persistent.FieldValues.HostDevices, func(o fleet.VMHostDevice) bool { return o.Device == w.Device })
	})
	return a.checkPhysicalDisksFree(ctx, a.c, a.in.VM.ID, fresh, false)
}

// checkPhysicalDisksFree refuses physical disks that are missing or in use. If running is set, only running guests
// count as users; otherwise every definition counts.
func (b *Backend) checkPhysicalDisksFree(ctx context.Context, c *conn.Conn, id fleet.VMID, devices []fleet.VMHostDevice, running bool) error {
	for _, w := range devices {
		name := w.PhysicalDiskName()
		if name == "" {
			continue
		}
		d, err := hostfile.RunWithinLookupTimeout(ctx, func() (blockdev.Device, error) { return unusedPhysicalDisk(w.Device, name) })
		if err != nil {
			return err
		}
		all, err := b.readDomains(ctx, c)
		if err != nil {
			return err
		}
		dirs := b.poolLocationsFor(ctx, hostfile.DecisionRecency, all)
		for _, s := range all {
			files := s.diskFiles()
			if running && s.live == nil || s.id == id {
				continue
			}
			for _, h := range files {
				at := dirs.Path(h.Path)
				same, err := hostfile.RunWithinLookupTimeout(ctx, func() (bool, error) { return isPathOnDisk(at, d.Kernel), nil })
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
	claimed, err := blockdev.IsUsedByKernel(domxml.PhysicalDiskDir + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, hypervisor.NoPhysicalDiskError(device)
	case claimed:
		return d, hypervisor.RefuseBusyPhysicalDisk(device, "claimed by the host's kernel")
	}
	return d, err
}

// isPathOnDisk reports whether the path, under any of its names, is the kernel's disk or one of the disk's
// partitions.
func isPathOnDisk(at, kernel string) bool {
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
