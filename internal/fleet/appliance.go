package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of the values read from an appliance's file.
const (
	MaxApplianceNotes = 64
	MaxApplianceText  = 255
)

// FormatOVA is the format of a volume that is an OVA appliance: a tar archive of a descriptor and disks.
const FormatOVA = "ova"

// ConvertedFormats are disk formats of other products, which are converted on import.
var ConvertedFormats = []string{"vmdk", "vhdx", "vpc", "vdi"}

// Appliance describes the VM in a file, as read by the host that has the file: an OVA archive, or one disk in another
// product's format.
type Appliance struct {
	Name      string          `json:"name,omitempty"`
	Product   string          `json:"product,omitempty"` // product that created it, as text
	OS        string          `json:"os,omitempty"`      // operating system, as text
	Family    string          `json:"family,omitempty" enum:"linux,windows,bsd,other"`
	CPUs      int             `json:"cpus,omitempty"` // 0: not specified
	MemoryMiB int             `json:"memoryMiB,omitempty"`
	Firmware  Firmware        `json:"firmware,omitempty"`
	Disks     []ApplianceDisk `json:"disks,omitempty"`
	NICs      []ApplianceNIC  `json:"nics,omitempty"`
	// NotImported lists properties of the appliance that the imported VM lacks, one sentence each.
	NotImported []string `json:"left,omitempty"`
	// ChecksumAlgorithm names the checksum algorithm that verifies the archive's files; empty: none.
	ChecksumAlgorithm string `json:"checks,omitempty"`
	Error             string `json:"error,omitempty"` // why the appliance cannot be imported
}

// ApplianceDisk is a disk of an appliance.
type ApplianceDisk struct {
	// Member is the disk's file in the archive. Empty: the disk is empty, or the appliance is a single disk file.
	Member    string `json:"member,omitempty"`
	Format    string `json:"format,omitempty"`    // vmdk, vhdx, vpc, vdi, qcow2 or raw; empty: an empty disk
	SizeBytes int64  `json:"sizeBytes"`           // virtual size
	FileBytes int64  `json:"fileBytes,omitempty"` // size of the file
	// Controller: pvscsi, lsilogic, lsilogicsas, buslogic, ide, sata or nvme; empty: not specified
	Controller string `json:"controller,omitempty"`
}

// ApplianceNIC is a NIC of an appliance.
type ApplianceNIC struct {
	Network string `json:"network,omitempty"` // name of the network in the appliance
	Model   string `json:"model,omitempty"`   // vmxnet3, vmxnet2, e1000, e1000e, pcnet or virtio; empty: not specified
}

// isWindows reports whether the guest is Windows, which has no virtio drivers by default.
func (a Appliance) isWindows() bool { return a.Family == "windows" }

// DiskBus returns the bus of the disk in the imported VM: SATA if the guest may lack a virtio driver, else virtio
// (empty).
func (a Appliance) DiskBus(d ApplianceDisk) string {
	switch {
	case a.isWindows(), slices.Contains([]string{"ide", "sata"}, d.Controller):
		return "sata"
	}
	return ""
}

// NICModel returns the NIC model in the imported VM: e1000e if the guest may lack a virtio driver, else virtio (empty).
func (a Appliance) NICModel(n ApplianceNIC) string {
	switch {
	case n.Model == "virtio" || n.Model == "" && !a.isWindows():
		return ""
	case a.isWindows(), strings.HasPrefix(n.Model, "e1000"), n.Model == "pcnet":
		return "e1000e"
	}
	return ""
}

// RequiredDrivers returns the drivers that the guest needs on the new virtual hardware, one sentence each.
func (a Appliance) RequiredDrivers() []string {
	var out []string
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, d := range a.Disks {
		had := ""
		if d.Controller != "" && d.Controller != a.DiskBus(d) {
			had = fmt.Sprintf(" instead of %s", d.Controller)
		}
		if a.DiskBus(d) == "" {
			add("Disks are on virtio%s: the guest needs virtio_blk in its initramfs (Linux), or viostor (Windows).", had)
		} else {
			add("Disks are on SATA%s: the guest needs ahci, which Linux and Windows include.", had)
		}
	}
	for _, n := range a.NICs {
		had := ""
		if n.Model != "" && n.Model != a.NICModel(n) {
			had = fmt.Sprintf(" instead of %s", n.Model)
		}
		if a.NICModel(n) == "" {
			add("NICs are virtio%s: the guest needs virtio_net (Linux), or NetKVM (Windows).", had)
		} else {
			add("NICs are e1000e%s: the guest needs e1000e, which Linux and Windows include.", had)
		}
	}
	if len(a.NICs) > 0 {
		add("NICs have new MAC addresses and may have other names in the guest: settings for the old addresses and names do not apply.")
	}
	return out
}

// Spec returns the spec of the imported VM, with the disks in the pool. The NICs have no network yet: the user
// chooses one.
func (a Appliance) Spec(pool PoolID) VMSpec {
	s := VMSpec{CPUs: max(a.CPUs, 1), MemoryMiB: a.MemoryMiB, Firmware: a.Firmware, Disks: []Disk{}, NICs: []NIC{}}
	if s.MemoryMiB == 0 {
		s.MemoryMiB = 2048
	}
	if s.Firmware == "" {
		s.Firmware = BIOS
	}
	for _, d := range a.Disks {
		s.Disks = append(s.Disks, Disk{PoolID: pool, SizeBytes: d.SizeBytes, Bus: a.DiskBus(d)})
	}
	for _, n := range a.NICs {
		s.NICs = append(s.NICs, NIC{Model: a.NICModel(n)})
	}
	return s
}

// VMName proposes a name for the imported VM, from the appliance's name or its file name.
func (a Appliance) VMName(file string) string {
	for _, text := range []string{a.Name, strings.TrimSuffix(file, "."+fileExtension(file)), "imported"} {
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.':
				return r
			}
			return '-'
		}, text)
		name = strings.Trim(name, "-.")
		if len(name) > 63 {
			name = strings.Trim(name[:63], "-.")
		}
		if nameForm.MatchString(name) {
			return name
		}
	}
	return "imported"
}

func fileExtension(file string) string {
	if i := strings.LastIndexByte(file, '.'); i >= 0 {
		return strings.ToLower(file[i+1:])
	}
	return ""
}

// ApplianceFormatByName returns the format that the file name suggests: "ova", or a disk format that needs conversion;
// empty: neither.
func ApplianceFormatByName(file string) string {
	switch ext := fileExtension(file); ext {
	case FormatOVA, "vmdk", "vhdx", "vdi":
		return ext
	case "vhd", "vpc":
		return "vpc"
	}
	return ""
}

// ExportParams is the content of an archive. Its appliance contains no secrets of the VM: no first-boot data, keys or
// MAC addresses.
type ExportParams struct {
	Appliance Appliance `json:"appliance"` // the Member fields of its disks are the file names in the archive
	Disks     []Volref  `json:"disks"`     // in the order of the appliance's disks
}
