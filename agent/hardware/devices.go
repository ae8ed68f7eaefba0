package hardware

import (
	"cmp"
	"slices"
	"strings"

	"quantix/agent/blockdev"
	"quantix/internal/fleet"
)

// devices lists devices for passthrough: PCI devices except bridges, USB devices except hubs, USB ports, whole disks,
// and mediated device types. A device is named independently of its driver. At most fleet.MaxReportedDevices are
// listed.
func (t hostTree) devices() (out []fleet.HostDevice) {
	const pci, usb = "sys/bus/pci/devices", usbDevicesDir
	var names func(address string) (vendor, product string)
	for _, address := range t.listDir(pci) {
		class := t.readLine(pci, address, "class")
		if strings.HasPrefix(class, "0x06") || class == "" || len(out) == fleet.MaxReportedDevices {
			continue
		}
		if names == nil {
			names = t.pciNames()
		}
		maker, product := names(address)
		maker = cmp.Or(maker, "PCI "+strings.TrimPrefix(t.readLine(pci, address, "vendor"), "0x"))
		product = cmp.Or(product, strings.TrimPrefix(t.readLine(pci, address, "device"), "0x"))
		out = append(out, fleet.HostDevice{
			Device: "pci/" + address, Name: shortenDeviceName(maker + " " + product), Class: class, Driver: t.linkTargetName(pci, address, "driver"), IOMMU: t.linkTargetName(pci, address, "iommu_group"),
		})
	}
	for _, at := range t.listDir(usb) {
		vendor, product := t.readLine(usb, at, "idVendor"), t.readLine(usb, at, "idProduct")
		name := "usb/" + vendor + ":" + product
		if vendor == "" || product == "" || t.readLine(usb, at, "bDeviceClass") == "09" || len(out) == fleet.MaxReportedDevices ||
			slices.ContainsFunc(out, func(d fleet.HostDevice) bool { return d.Device == name }) {
			continue
		}
		out = append(out, fleet.HostDevice{Device: name, Name: shortenDeviceName(t.usbName(at))})
	}
	out = slices.Concat(out, t.mdevTypes(), t.usbPorts())
	out = out[:min(len(out), fleet.MaxReportedDevices)]
	for _, d := range blockdev.ListDisks(string(t)) {
		if len(out) == fleet.MaxReportedDevices {
			break
		}
		name := strings.TrimSuffix(d.Kernel+" · "+t.readLine("sys/class/block", d.Kernel, "device/model"), " · ")
		out = append(out, fleet.HostDevice{Device: fleet.PhysicalDevice + d.Name, Name: shortenDeviceName(name), SizeBytes: d.SizeBytes, HostUse: shortenDeviceName(d.Busy)})
	}
	return out
}

// shortenDeviceName limits the length of a name that a device reports.
func shortenDeviceName(name string) string {
	name = strings.ToValidUTF8(name, "?")
	if r := []rune(name); len(r) > 120 {
		return string(r[:120])
	}
	return name
}
