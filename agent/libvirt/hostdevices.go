package libvirt

import (
	"errors"
	"fmt"
	"strings"

	"libvirt.org/go/libvirtxml"

	machine "quantix/agent/hardware"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
)

// prepareHostDevices prepares the host devices of a definition for the guest's start. It looks up the devices at USB
// ports, creates missing mediated devices, and removes those that the definition no longer has. changed reports whether
// the definition changed.
func (b *Backend) prepareHostDevices(x *libvirtxml.Domain) (changed bool, err error) {
	if err := b.removeOtherMdevs(x); err != nil {
		return false, err
	}
	for i := range x.Devices.Hostdevs {
		if domxml.IsManagedHostDevice(x.Devices.Hostdevs[i]) {
			found, err := b.prepareHostDevice(x.UUID, &x.Devices.Hostdevs[i])
			if err != nil {
				return false, err
			}
			changed = changed || found
		}
	}
	return changed, nil
}

// prepareHostDevice prepares one device. changed reports whether the definition now names another device.
func (b *Backend) prepareHostDevice(vm string, d *libvirtxml.DomainHostdev) (changed bool, err error) {
	name := domxml.HostDeviceName(*d)
	if port, ok := strings.CutPrefix(name, "usb-port/"); ok {
		is, err := b.devices.USBAt(port)
		if errors.Is(err, machine.ErrUSBPortEmpty) {
			return false, hypervisor.RefuseEmptyUSBPort(port, conn.Hostname())
		}
		if err != nil {
			return false, err
		}
		return domxml.SetUSBDevice(d, is), nil
	}
	kind, ok := strings.CutPrefix(name, "mdev/")
	if !ok {
		return false, nil
	}
	err = b.devices.CreateMdev(vm, kind)
	if errors.Is(err, machine.ErrNoMdevFree) {
		return false, hypervisor.RefuseUnavailableMdev(kind, conn.Hostname())
	}
	if err != nil {
		return false, fmt.Errorf("create a mediated device of the type %s: %w", kind, err)
	}
	return false, nil
}

// removeOtherMdevs removes the VM's mediated devices whose type is in none of the VM's definitions.
func (b *Backend) removeOtherMdevs(all ...*libvirtxml.Domain) error {
	var kinds []string
	for _, x := range all {
		for _, d := range x.Devices.Hostdevs {
			if kind, ok := strings.CutPrefix(domxml.HostDeviceName(d), "mdev/"); ok && domxml.IsManagedHostDevice(d) {
				kinds = append(kinds, kind)
			}
		}
	}
	return b.devices.RemoveMdevsExcept(all[0].UUID, kinds...)
}
