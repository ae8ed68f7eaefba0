package fleet

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of what an appliance's file may say.
const (
	MaxApplianceNotes = 64
	MaxApplianceText  = 255
)

// FormatOVA is the format of a volume that is a whole appliance: a tar archive of a descriptor and disks.
const FormatOVA = "ova"

// ForeignFormats are the formats of disks that no VM is given as they are, and that are converted on the way in.
var ForeignFormats = []string{"vmdk", "vhdx", "vpc", "vdi"}

// Appliance is a machine in a file, as the host that has the file reads it: an OVA archive, or one disk in another product's format.
type Appliance struct {
	Name      string          `json:"name,omitempty"`
	Product   string          `json:"product,omitempty"` // what made it, in words
	OS        string          `json:"os,omitempty"`      // in words
	Family    string          `json:"family,omitempty" enum:"linux,windows,bsd,other"`
	CPUs      int             `json:"cpus,omitempty"` // 0: it does not say
	MemoryMiB int             `json:"memoryMiB,omitempty"`
	Firmware  Firmware        `json:"firmware,omitempty"`
	Disks     []ApplianceDisk `json:"disks,omitempty"`
	NICs      []ApplianceNIC  `json:"nics,omitempty"`
	// Left is what it has and a VM made of it has not, a sentence each.
	Left []string `json:"left,omitempty"`
	// Checks is by which checksums its files are verified; empty: it has none.
	Checks string `json:"checks,omitempty"`
	Error  string `json:"error,omitempty"` // why no VM can be made of it
}

// ApplianceDisk is a disk of an appliance.
type ApplianceDisk struct {
	Member     string `json:"member,omitempty"`     // the archive's file that holds it; empty: of an archive an empty disk, of a single file that file
	Format     string `json:"format,omitempty"`     // vmdk, vhdx, vpc, vdi, qcow2 or raw; empty: an empty disk
	SizeBytes  int64  `json:"sizeBytes"`            // as a guest sees it
	FileBytes  int64  `json:"fileBytes,omitempty"`  // what the file holds
	Controller string `json:"controller,omitempty"` // pvscsi, lsilogic, lsilogicsas, buslogic, ide, sata or nvme; empty: it does not say
}

// ApplianceNIC is a network card of an appliance.
type ApplianceNIC struct {
	Network string `json:"network,omitempty"` // the name that its network had
	Model   string `json:"model,omitempty"`   // vmxnet3, vmxnet2, e1000, e1000e, pcnet or virtio; empty: it does not say
}

// windows reports whether the guest lacks drivers for virtio until somebody installs them.
func (a Appliance) windows() bool { return a.Family == "windows" }

// Bus is how a VM made of the appliance has the disk: on what its guest surely has a driver for, or on virtio (empty).
func (a Appliance) Bus(d ApplianceDisk) string {
	switch {
	case a.windows(), slices.Contains([]string{"ide", "sata"}, d.Controller):
		return "sata"
	}
	return ""
}

// Model is what network card it gets instead: virtio (empty) but where its guest would lack the driver.
func (a Appliance) Model(n ApplianceNIC) string {
	switch {
	case n.Model == "virtio" || n.Model == "" && !a.windows():
		return ""
	case a.windows(), strings.HasPrefix(n.Model, "e1000"), n.Model == "pcnet":
		return "e1000e"
	}
	return ""
}

// Drivers are what the guest needs to start on other hardware than it was made for, a sentence each.
func (a Appliance) Drivers() []string {
	var out []string
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, d := range a.Disks {
		had := ""
		if d.Controller != "" && d.Controller != a.Bus(d) {
			had = fmt.Sprintf(" in the place of %s", d.Controller)
		}
		if a.Bus(d) == "" {
			add("Disks are on virtio%s: the guest needs virtio_blk in its initramfs (Linux), or viostor (Windows).", had)
		} else {
			add("Disks are on SATA%s: the guest needs ahci, which Linux and Windows bring along.", had)
		}
	}
	for _, n := range a.NICs {
		had := ""
		if n.Model != "" && n.Model != a.Model(n) {
			had = fmt.Sprintf(" in the place of %s", n.Model)
		}
		if a.Model(n) == "" {
			add("Network cards are virtio%s: the guest needs virtio_net (Linux), or NetKVM (Windows).", had)
		} else {
			add("Network cards are e1000e%s: the guest needs e1000e, which Linux and Windows bring along.", had)
		}
	}
	if len(a.NICs) > 0 {
		add("Network cards have new MAC addresses and may have other names in the guest: settings that are bound to the old ones do not apply.")
	}
	return out
}

// Spec is the VM that the appliance proposes: its disks in the pool, its cards on no network yet, for that people choose.
func (a Appliance) Spec(pool PoolID) VMSpec {
	s := VMSpec{CPUs: max(a.CPUs, 1), MemoryMiB: a.MemoryMiB, Firmware: a.Firmware, Disks: []Disk{}, NICs: []NIC{}}
	if s.MemoryMiB == 0 {
		s.MemoryMiB = 2048
	}
	if s.Firmware == "" {
		s.Firmware = BIOS
	}
	for _, d := range a.Disks {
		s.Disks = append(s.Disks, Disk{PoolID: pool, SizeBytes: d.SizeBytes, Bus: a.Bus(d)})
	}
	for _, n := range a.NICs {
		s.NICs = append(s.NICs, NIC{Model: a.Model(n)})
	}
	return s
}

// VMName is what a VM made of the appliance may be called, after its own name or that of its file.
func (a Appliance) VMName(file string) string {
	for _, text := range []string{a.Name, strings.TrimSuffix(file, "."+extension(file)), "imported"} {
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

func extension(file string) string {
	if i := strings.LastIndexByte(file, '.'); i >= 0 {
		return strings.ToLower(file[i+1:])
	}
	return ""
}

// ApplianceKind is what a file of that name claims to be: "ova", or the format of a disk that must be converted; empty: neither.
func ApplianceKind(file string) string {
	switch ext := extension(file); ext {
	case FormatOVA, "vmdk", "vhdx", "vdi":
		return ext
	case "vhd", "vpc":
		return "vpc"
	}
	return ""
}
