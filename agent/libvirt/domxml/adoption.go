package domxml

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/vmxml"
)

// AdoptableDisk is a disk of a definition that is read for an adoption.
type AdoptableDisk struct {
	Target, Path string
	Ref          fleet.Volref
}

// ReadAdoptable translates the definition of a domain without Quantix metadata into the record that an adoption would
// write. It takes the disks whose path volumes finds, and the NICs on libvirt networks and bridges. refusals are the
// reasons against an adoption that the definition alone gives. The sizes of the disks are unknown.
func ReadAdoptable(x *libvirtxml.Domain, pools []fleet.Pool, volumes VolumeLookup) (record hypervisor.AppliedRecord, disks []AdoptableDisk, refusals []string) {
	want := fleet.VM{}
	refuse := func(format string, args ...any) { refusals = append(refusals, fmt.Sprintf(format, args...)) }
	if x.Devices == nil {
		x.Devices = &libvirtxml.DomainDeviceList{}
	}
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		if isDrive(d) {
			continue
		}
		target, at := DiskTargetOf(d), DiskPathOf(d)
		one, why := adoptableDisk(d, volumes)
		if why == "" && slices.ContainsFunc(want.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == one.Ref() }) {
			why = "another disk of the VM has the same file. Remove one of the disks."
		}
		if why != "" {
			refuse("Disk %s (%s): %s", target, at, why)
			continue
		}
		want.Spec.Disks = append(want.Spec.Disks, one)
		disks = append(disks, AdoptableDisk{target, at, one.Ref()})
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		if nic := (fleet.NIC{MAC: NICMACOf(n)}); n.Source != nil && (n.Source.Network != nil || n.Source.Bridge != nil) {
			want.Spec.NICs = append(want.Spec.NICs, nic)
		}
	}
	record = hypervisor.NewAppliedRecord(hypervisor.ApplyWork{VM: want, Pools: pools}, x.Name, "", nil)
	record.Name = x.Name
	is := ReadDefinedSpec(x, record, volumes)
	for _, d := range disks {
		if !slices.ContainsFunc(is.Spec.Disks, func(o fleet.Disk) bool { return o.Ref() == d.Ref }) {
			refuse("Disk %s (%s): the definition writes the path of the pool in another way. Write the path as Quantix shows it for the pool.", d.Target, d.Path)
		}
	}
	record.Verbatim = is.VerbatimValues()
	for _, f := range fleet.OptionalFields() { // a value that no spec expresses counts as not set
		if record.Verbatim[f.Name] != "" {
			f.Copy(&is.Spec, fleet.VMSpec{})
		}
	}
	clearInvalidFields(is.Spec.Disks, fleet.DiskFields)
	clearInvalidFields(is.Spec.NICs, fleet.NICFields)
	record.Spec, record.Adopted = is.Spec, true
	return record, disks, refusals
}

func clearInvalidFields[T any](all []T, fields []fleet.Field[T]) {
	var unset T
	for i := range all {
		for _, f := range fields {
			if f.ValueError(all[i]) != "" {
				f.Copy(&all[i], unset)
			}
		}
	}
}

// isDrive reports whether the disk is a CD-ROM or floppy drive.
func isDrive(d *libvirtxml.DomainDisk) bool { return d.Device == "cdrom" || d.Device == "floppy" }

// adoptableDisk returns the spec's disk of a definition's disk, or the reason against its adoption.
func adoptableDisk(d *libvirtxml.DomainDisk, volumes VolumeLookup) (out fleet.Disk, why string) {
	at := DiskPathOf(d)
	switch {
	case at == "":
		return out, "it has no source. Remove the disk, or give it a file."
	case strings.HasPrefix(at, VolumeRefPrefix):
		return out, "the definition names the volume by its pool. Name the file or the address of the volume instead."
	case d.Source.Encryption != nil || d.Encryption != nil:
		return out, "it is encrypted with a secret that only libvirt has."
	}
	ref := volumes.VolumeAt(at)
	if ref == nil {
		return out, "no pool of Quantix on this host has it. Adopt or create a pool with its folder, or with its storage, first."
	}
	out = fleet.Disk{PoolID: ref.PoolID, Volume: ref.Volume}
	format := fleet.Raw
	if d.Driver != nil && d.Driver.Type != "" {
		format = d.Driver.Type
	}
	switch {
	case format == fleet.Raw && d.Source.File != nil:
		out.Format = fleet.Raw
	case format != fleet.Raw && format != "qcow2":
		return out, "its format is " + format + ". Convert the disk to qcow2 or raw."
	}
	return out, ""
}

// NamedDevices are the devices of an adopted domain that NameAdoptedDevices gave an alias.
type NamedDevices struct{ targets, macs []string }

// NameAdoptedDevices gives the disks and NICs of an adopted record the aliases that Quantix gives to devices of its own,
// so that Edit may change them. It only names devices without a user's alias.
func NameAdoptedDevices(x *libvirtxml.Domain, record hypervisor.AppliedRecord, volumes VolumeLookup) (out NamedDevices) {
	if !record.Adopted || x.Devices == nil {
		return out
	}
	for i := range x.Devices.Disks {
		d := &x.Devices.Disks[i]
		k := slices.IndexFunc(record.Spec.Disks, func(o fleet.Disk) bool { return volumes.AppliedPath(record, o.Ref()) == DiskPathOf(d) })
		if k >= 0 && d.Alias == nil && !isDrive(d) {
			d.Alias = &libvirtxml.DomainAlias{Name: DiskAlias(record.Spec.Disks[k].Ref())}
			out.targets = append(out.targets, DiskTargetOf(d))
		}
	}
	for i := range x.Devices.Interfaces {
		n := &x.Devices.Interfaces[i]
		k := slices.IndexFunc(record.Spec.NICs, func(o fleet.NIC) bool { return strings.EqualFold(o.MAC, NICMACOf(n)) })
		if k >= 0 && n.Alias == nil {
			n.Alias = &libvirtxml.DomainAlias{Name: NICAlias(record.Spec.NICs[k])}
			out.macs = append(out.macs, NICMACOf(n))
		}
	}
	return out
}

// Remove removes the aliases again.
func (n NamedDevices) Remove(x *libvirtxml.Domain) {
	for i := range x.Devices.Disks {
		if slices.Contains(n.targets, DiskTargetOf(&x.Devices.Disks[i])) {
			x.Devices.Disks[i].Alias = nil
		}
	}
	for i := range x.Devices.Interfaces {
		if slices.Contains(n.macs, NICMACOf(&x.Devices.Interfaces[i])) {
			x.Devices.Interfaces[i].Alias = nil
		}
	}
}

// fieldsReadInAnotherWay are fields whose value in an import is not the value in a definition of Quantix, because the
// default of a new VM is written out there. Other fields that only an import sets belong to devices without an alias of
// Quantix.
var fieldsReadInAnotherWay = []string{"cpu.model", "cpu.max", "cpu.features", "memory.balloonMiB", "boot.machine", "security.tpm"}

// expressedElements are elements about which an import has notes, although the spec expresses them: the amounts of memory
// in MiB, rounded up. Quantix's own metadata is no part of the definition.
var expressedElements = []string{"memory", "currentMemory", "metadata"}

// VerbatimParts lists the parts of the definition text that the record's spec does not express. It fails if the text is
// too large or is not the definition of a QEMU domain.
func VerbatimParts(text string, x *libvirtxml.Domain, record hypervisor.AppliedRecord) ([]string, error) {
	read, err := vmxml.ConvertDomain(text)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, field := range slices.Sorted(maps.Keys(record.Verbatim)) {
		label := field
		if f, ok := fleet.FieldByName(field); ok {
			label = f.Type
		}
		out = append(out, label+": "+record.Verbatim[field])
	}
	lines := strings.Split(text, "\n")
	expressed := expressedElements
	if record.Spec.Security.TPM {
		expressed = append(slices.Clone(expressed), "devices/tpm")
	}
	for _, n := range read.Notes {
		if n.Kind != vmxml.Usual && !slices.Contains(expressed, n.At) && n.Line <= len(lines) {
			out = append(out, n.At+": "+strings.TrimSpace(lines[n.Line-1]))
		}
	}
	for i := range x.Devices.Disks {
		if d := &x.Devices.Disks[i]; isDrive(d) {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s drive %s: %s", d.Device, DiskTargetOf(d), DiskPathOf(d)), ": "))
		}
	}
	for _, f := range fleet.OptionalFields() {
		if !f.PortalOnly && !slices.Contains(fieldsReadInAnotherWay, f.Name) && record.Verbatim[f.Name] == "" && !f.Default(read.Spec) && f.Default(record.Spec) {
			out = append(out, f.Type+": "+f.Words(read.Spec))
		}
	}
	return out, nil
}

// LostElements lists the elements of a definition's text, each with its path, that the parsed definition does not have.
// A later edit would remove them.
func LostElements(text string, x *libvirtxml.Domain) ([]string, error) {
	kept, err := DefinitionText(x)
	if err != nil {
		return nil, err
	}
	had, err := countElements(text)
	if err != nil {
		return nil, err
	}
	has, err := countElements(kept)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(had, func(at string, n int) bool { return has[at] >= n })
	return slices.Sorted(maps.Keys(had)), nil
}

// countElements counts the elements and attributes of the text by their path.
func countElements(text string) (map[string]int, error) {
	out := map[string]int{}
	var path []string
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		t, err := d.Token()
		switch t := t.(type) {
		case xml.StartElement:
			path = append(path, t.Name.Local)
			at := strings.Join(path, "/")
			out[at]++
			for _, a := range t.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					out[at+"@"+a.Name.Local]++
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case nil:
			if len(path) == 0 && len(out) > 0 {
				return out, nil
			}
			return nil, fmt.Errorf("read the definition: %w", err)
		}
	}
}
