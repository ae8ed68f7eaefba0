package vmedit

import (
	"slices"

	"quantix/internal/fleet"
)

// VMPreset is a set of initial values in the form of a new VM, for one kind of guest. Users can change every value.
type VMPreset struct {
	Key, Title, Hint string
	Source           VMSource
	Fields           map[string]string // value as JSON, by the name of a field in VMFields
	// Values as JSON for each disk and each NIC, by the name of a field in DiskFields or NICFields.
	Disk, NIC map[string]string
	DiskGiB   int // size of the first disk; 0: the size of its image
}

// VMSource is the source of a new VM. Each has one entry in VMSources.
type VMSource string

const (
	SourceImage VMSource = "image"
	SourceISO   VMSource = "iso"
	SourceBlank VMSource = "blank"
	SourceXML   VMSource = "xml"
)

// VMSources lists the sources in form order.
var VMSources = []struct {
	Key         VMSource
	Title, Hint string
}{
	{SourceImage, "Image", "A ready-to-start disk from the image library."},
	{SourceISO, "ISO", "An installer in the CD-ROM drive, and an empty disk."},
	{SourceBlank, "Blank", "Empty disks, or none. The VM boots from the network."},
	{SourceXML, "libvirt XML", "Fills the form from the output of virsh dumpxml."},
}

// Presets lists all presets in form order.
var Presets = []VMPreset{
	{
		Key: "linux-cloud", Title: "Linux, cloud image", Hint: "A small VM with the disk size of its image.", Source: SourceImage,
		Fields: map[string]string{"cpus": "2", "memoryMiB": "2048", "firmware": `"bios"`},
	},
	{
		Key: "linux-iso", Title: "Linux, installer", Hint: "UEFI, 20 GiB.", Source: SourceISO, DiskGiB: 20,
		Fields: map[string]string{"cpus": "2", "memoryMiB": "4096", "firmware": `"uefi"`},
	},
	{
		Key: "windows-11", Title: "Windows 11", Hint: "UEFI with TPM 2.0 and secure boot, 64 GiB, and a second CD-ROM drive for the ISO with the virtio drivers, without which the installer finds no disk.", Source: SourceISO, DiskGiB: 64,
		Fields: map[string]string{"cpus": "4", "memoryMiB": "8192", "firmware": `"uefi"`, "security.tpm": "true", "security.secureBoot": "true", "drives": `[{"slot":"cdrom2"}]`, "display.sound": `"ich9"`, "cpu.sockets": "1", "cpu.cores": "4"},
	},
	{
		Key: "legacy", Title: "Legacy", Hint: "Machine type pc (i440FX): BIOS, one vCPU, an IDE disk, a Realtek 8139 NIC, a PS/2 mouse.", Source: SourceISO, DiskGiB: 20,
		Fields: map[string]string{"cpus": "1", "memoryMiB": "1024", "firmware": `"bios"`, "boot.machine": `"pc"`, "display.pointer": `"mouse"`, "display.sound": `"ac97"`},
		Disk:   map[string]string{"bus": `"ide"`}, NIC: map[string]string{"model": `"rtl8139"`},
	},
}

// PresetByKey returns the preset with the key.
func PresetByKey(key string) (VMPreset, bool) {
	for _, p := range Presets {
		if p.Key == key {
			return p, true
		}
	}
	return VMPreset{}, false
}

// ApplyTo returns the spec with the preset's values. All other optional fields are reset to their defaults, including
// those of disks and NICs.
func (p VMPreset) ApplyTo(s fleet.VMSpec) (fleet.VMSpec, error) {
	for _, f := range fleet.OptionalFields() {
		f.Copy(&s, fleet.VMSpec{})
	}
	for name, value := range p.Fields {
		f, ok := fleet.FieldByName(name)
		if !ok {
			return s, p.unknownFieldError(name)
		}
		if err := f.Decode(&s, []byte(value)); err != nil {
			return s, p.invalidValueError(f.Type)
		}
	}
	var err error
	if s.Disks, err = applyPreset(p, s.Disks, fleet.DiskFields, p.Disk); err != nil {
		return s, err
	}
	s.NICs, err = applyPreset(p, s.NICs, fleet.NICFields, p.NIC)
	return s, err
}

// applyPreset returns the devices with the preset's values. All other fields are reset to their defaults.
func applyPreset[T any](p VMPreset, all []T, fields []fleet.Field[T], values map[string]string) ([]T, error) {
	out := slices.Clone(all)
	for name := range values {
		if !slices.ContainsFunc(fields, func(f fleet.Field[T]) bool { return f.Name == name }) {
			return out, p.unknownFieldError(name)
		}
	}
	for i := range out {
		for _, f := range fields {
			var unset T
			if f.Copy(&out[i], unset); values[f.Name] == "" {
				continue
			}
			if err := f.Decode(&out[i], []byte(values[f.Name])); err != nil {
				return out, p.invalidValueError(f.Type)
			}
		}
	}
	return out, nil
}

func (p VMPreset) unknownFieldError(name string) error {
	return fleet.Errorf(fleet.Invalid, "The preset %s has an unknown field: %s.", p.Title, name)
}

func (p VMPreset) invalidValueError(field string) error {
	return fleet.Errorf(fleet.Invalid, "The preset %s has no valid value for %s.", p.Title, field)
}
