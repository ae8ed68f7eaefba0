package domxml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"

	machine "quantix/agent/hardware"
	"quantix/internal/fleet"
)

// Aliases of host devices that Quantix assigned. Only the alias identifies a USB port or a mediated device type. The
// element itself names the USB device at the last start, or the UUID of the mediated device.
const (
	hostdevAliasPrefix = "ua-quantix-hostdev-"
	usbPortAliasPrefix = "ua-quantix-usbport-"
	mdevAliasPrefix    = "ua-quantix-mdev-"
)

// IsManagedHostDevice reports whether Quantix added the host device.
func IsManagedHostDevice(d libvirtxml.DomainHostdev) bool {
	return slices.ContainsFunc([]string{hostdevAliasPrefix, usbPortAliasPrefix, mdevAliasPrefix}, func(prefix string) bool { return HasAliasPrefix(d.Alias, prefix) })
}

func writeHostDevices(x *libvirtxml.Domain, s fleet.VMSpec) {
	d := x.Devices
	d.Hostdevs = slices.DeleteFunc(d.Hostdevs, func(o libvirtxml.DomainHostdev) bool {
		return IsManagedHostDevice(o) && !slices.ContainsFunc(s.HostDevices, func(w fleet.VMHostDevice) bool { return w.Device == HostDeviceName(o) })
	})
	for _, w := range s.HostDevices {
		if w.PhysicalDiskName() == "" && !slices.ContainsFunc(d.Hostdevs, func(o libvirtxml.DomainHostdev) bool { return HostDeviceName(o) == w.Device }) {
			d.Hostdevs = append(d.Hostdevs, newHostDevice(x.UUID, w.Device))
		}
	}
}

// newHostDevice returns the definition of the named device. libvirt detaches a managed device from its host driver at
// the guest's start, and reattaches the device after the guest's end.
func newHostDevice(vm, name string) libvirtxml.DomainHostdev {
	out := libvirtxml.DomainHostdev{Managed: "yes", Alias: &libvirtxml.DomainAlias{Name: hostdevAliasPrefix + aliasHash(name)}}
	hexed := func(text string) *uint {
		n, _ := strconv.ParseUint(text, 16, 32) // the format was validated before
		v := uint(n)
		return &v
	}
	kind, rest, _ := strings.Cut(name, "/")
	at := strings.FieldsFunc(rest, func(r rune) bool { return r == ':' || r == '.' })
	switch {
	case kind == "usb-port":
		out.Alias.Name = usbPortAliasPrefix + strings.ReplaceAll(rest, ".", "_")
		bus, _ := strconv.ParseUint(strings.Split(rest, "-")[0], 10, 8)
		// no device has the number 0, so no device is passed through before the guest's start sets the number
		SetUSBDevice(&out, machine.USBDevice{Bus: uint(bus)})
	case kind == "mdev":
		out.Managed, out.Alias.Name = "", mdevAliasPrefix+rest
		out.SubsysMDev = &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: machine.MdevID(vm, rest)}},
		}
	case kind == "pci" && len(at) == 4:
		out.SubsysPCI = &libvirtxml.DomainHostdevSubsysPCI{Source: &libvirtxml.DomainHostdevSubsysPCISource{
			Address: &libvirtxml.DomainAddressPCI{Domain: hexed(at[0]), Bus: hexed(at[1]), Slot: hexed(at[2]), Function: hexed(at[3])},
		}}
	case len(at) == 2:
		out.SubsysUSB = &libvirtxml.DomainHostdevSubsysUSB{Source: &libvirtxml.DomainHostdevSubsysUSBSource{
			Vendor: &libvirtxml.DomainHostDevProductVendorID{ID: "0x" + at[0]}, Product: &libvirtxml.DomainHostDevProductVendorID{ID: "0x" + at[1]},
		}}
	}
	return out
}

// SetUSBDevice sets the USB device to pass through and reports whether the definition changed. It also sets vendor and
// product. So a start without the agent does not use another device that has got the same number.
func SetUSBDevice(d *libvirtxml.DomainHostdev, is machine.USBDevice) (changed bool) {
	src := &libvirtxml.DomainHostdevSubsysUSBSource{Address: &libvirtxml.DomainAddressUSB{Bus: &is.Bus, Device: &is.Number}}
	if is.Vendor != "" {
		src.Vendor, src.Product = &libvirtxml.DomainHostDevProductVendorID{ID: "0x" + is.Vendor}, &libvirtxml.DomainHostDevProductVendorID{ID: "0x" + is.Product}
	}
	was := d.SubsysUSB
	d.SubsysUSB = &libvirtxml.DomainHostdevSubsysUSB{Source: src}
	return was == nil || was.Source == nil || usbAddressText(*was.Source) != usbAddressText(*src)
}

func usbAddressText(s libvirtxml.DomainHostdevSubsysUSBSource) string {
	a, v, p := CopyOrZero(s.Address), CopyOrZero(s.Vendor), CopyOrZero(s.Product)
	return fmt.Sprintln(*CopyOrZero(a.Bus), *CopyOrZero(a.Device), v.ID, p.ID)
}

// HostDeviceName returns the device's name in a spec, or "".
func HostDeviceName(d libvirtxml.DomainHostdev) string {
	num := func(p *uint) uint { return *CopyOrZero(p) }
	switch {
	case HasAliasPrefix(d.Alias, usbPortAliasPrefix) && d.SubsysUSB != nil:
		return "usb-port/" + strings.ReplaceAll(strings.TrimPrefix(AliasOf(d.Alias), usbPortAliasPrefix), "_", ".")
	case HasAliasPrefix(d.Alias, mdevAliasPrefix) && d.SubsysMDev != nil:
		return "mdev/" + strings.TrimPrefix(AliasOf(d.Alias), mdevAliasPrefix)
	case d.SubsysPCI != nil && d.SubsysPCI.Source != nil && d.SubsysPCI.Source.Address != nil:
		a := d.SubsysPCI.Source.Address
		return fmt.Sprintf("pci/%04x:%02x:%02x.%x", num(a.Domain), num(a.Bus), num(a.Slot), num(a.Function))
	case d.SubsysUSB != nil && d.SubsysUSB.Source != nil && d.SubsysUSB.Source.Vendor != nil && d.SubsysUSB.Source.Product != nil:
		s := d.SubsysUSB.Source
		return "usb/" + strings.TrimPrefix(s.Vendor.ID, "0x") + ":" + strings.TrimPrefix(s.Product.ID, "0x")
	}
	return ""
}

func readHostDevices(x *libvirtxml.Domain, s *fleet.VMSpec) string {
	for _, d := range x.Devices.Hostdevs {
		if IsManagedHostDevice(d) {
			s.HostDevices = append(s.HostDevices, fleet.VMHostDevice{Device: HostDeviceName(d)})
		}
	}
	for i := range x.Devices.Disks {
		if name := PhysicalDiskName(&x.Devices.Disks[i]); name != "" {
			s.HostDevices = append(s.HostDevices, fleet.VMHostDevice{Device: name})
		}
	}
	return ""
}
