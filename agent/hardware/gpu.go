package hardware

import (
	"strings"

	"github.com/jaypipes/ghw"

	"quantix/internal/fleet"
)

// gpuVendors maps PCI vendor IDs to short vendor names, so that pci.ids is not needed.
var gpuVendors = map[string]string{
	"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel", "0x1a03": "ASPEED", "0x102b": "Matrox",
	"0x1234": "QEMU", "0x1b36": "Red Hat", "0x1af4": "Red Hat", "0x15ad": "VMware", "0x1013": "Cirrus Logic",
}

// gpus lists PCI devices of the display class and accelerators of GPU vendors, whatever their driver: a GPU passed to a
// guest is not in /sys/class/drm.
func (t hostTree) gpus() (out []fleet.GPU) {
	const dir = "sys/bus/pci/devices"
	var names func(address string) (vendor, product string)
	for _, address := range t.listDir(dir) {
		class := t.readLine(dir, address, "class")
		vendor := t.readLine(dir, address, "vendor")
		compute := strings.HasPrefix(class, "0x1200") && (vendor == "0x10de" || vendor == "0x1002" || vendor == "0x8086")
		if !strings.HasPrefix(class, "0x03") && !compute || t.exists(dir, address, "physfn") {
			continue
		}
		if names == nil {
			names = t.pciNames()
		}
		maker, product := names(address)
		if v := gpuVendors[vendor]; v != "" {
			maker = v
		}
		if maker == "" {
			maker = "PCI vendor " + strings.TrimPrefix(vendor, "0x")
		}
		if product == "" {
			product = "PCI device " + strings.TrimPrefix(t.readLine(dir, address, "device"), "0x")
		}
		out = append(out, fleet.GPU{
			Address: address, Vendor: maker, Product: product, Driver: t.linkTargetName(dir, address, "driver"),
			VFsTotal: int(t.readNumber(dir, address, "sriov_totalvfs")), MdevTypes: t.listDir(dir, address, "mdev_supported_types"),
		})
	}
	return out
}

// pciNames returns a lookup in the machine's pci.ids. Without that file the lookup returns no names.
func (t hostTree) pciNames() func(string) (vendor, product string) {
	found := map[string][2]string{}
	info, err := ghw.PCI(ghw.WithChroot(string(t)), ghw.WithDisableWarnings(), ghw.WithDisableTools(), ghw.WithDisableTopology())
	if err == nil {
		for _, d := range info.Devices {
			var n [2]string
			if d.Vendor != nil {
				n[0] = emptyIfUnknown(d.Vendor.Name)
			}
			if d.Product != nil {
				n[1] = emptyIfUnknown(d.Product.Name)
			}
			found[d.Address] = n
		}
	}
	return func(address string) (string, string) { return found[address][0], found[address][1] }
}
