package vmxml

import (
	"cmp"
	"strings"

	"quantix/internal/fleet"
)

func readDisk(r *conversion, e *element) error {
	device := cmp.Or(e.attr("device"), "disk")
	d := Disk{Line: e.line, CDROM: device == "cdrom", Floppy: device == "floppy"}
	target, source := e.firstChild("target"), e.firstChild("source")
	d.Target = shortenForError(target.attr("dev"))
	switch device {
	case "disk", "cdrom", "floppy":
	case "lun":
		r.addNote(e, Refused, "A disk that passes SCSI commands to a device of the host.")
		return nil
	default:
		r.addNote(e, Left, "A VM here has no such drive: "+shortenForError(device)+".")
		return nil
	}
	for _, in := range e.children {
		if err := readDiskChild(r, e, in, &d); err != nil {
			return err
		}
	}
	switch kind := e.attr("type"); {
	case source == nil || len(source.attrs) == 0:
		if !d.CDROM && !d.Floppy {
			r.addNote(e, Left, "The disk has no source: choose an image or a volume.")
		}
	case kind == "file":
		d.Path = source.attr("file")
	case kind == "block":
		d.Path = source.attr("dev")
	case kind == "volume":
		d.Pool, d.Volume = source.attr("pool"), source.attr("volume")
	default:
		r.addNote(e, Refused, "A disk of type "+shortenForError(kind)+" belongs to no pool.")
		return nil
	}
	r.Disks = append(r.Disks, d)
	return nil
}

func readDiskChild(r *conversion, e, in *element, d *Disk) error {
	drive := d.CDROM || d.Floppy
	switch in.name {
	case "source", "address", "alias":
	case "target":
		if !drive {
			readDiskBus(r, in, d)
		}
	case "serial":
		if !drive {
			r.diskFields(d).setValue(in, "serial", strings.TrimSpace(in.text))
		}
	case "boot":
		return r.diskFields(d).setNumber(in, "bootOrder", in.attr("order"))
	case "driver":
		if !drive {
			readDiskDriver(r, e, in, d)
		}
	case "readonly":
		if !drive {
			r.diskFields(d).setValue(in, "readOnly", true)
		}
	case "shareable":
		r.addNote(in, Left, "The disk becomes a new volume, which other VMs cannot share. To share a disk between VMs, choose an existing volume.")
	case "iotune":
		return readDiskLimits(r, in, d)
	case "backingStore", "mirror":
		if len(in.children) > 0 {
			r.addNote(in, Refused, "A disk that depends on another file.")
		}
	case "encryption", "auth":
		r.addNote(in, Refused, "A secret of the host.")
	default:
		r.addNote(in, Left, "A VM here has no such setting of a disk.")
	}
	return nil
}

func readDiskBus(r *conversion, target *element, d *Disk) {
	switch bus := target.attr("bus"); {
	case bus == "" || bus == "virtio":
	case isOption(fleet.DiskBuses, bus):
		d.As.Bus = bus
	default:
		r.addNote(target, Left, "The disk uses the virtio bus here, not "+shortenForError(bus)+": the guest needs the virtio driver.")
	}
}

func readDiskDriver(r *conversion, disk, e *element, d *Disk) {
	for _, name := range []string{"cache", "io", "discard"} {
		if e.hasAttr(name) {
			r.diskFields(d).setValue(e, name, e.attr(name))
		}
	}
	if e.attr("type") == fleet.Raw && disk.attr("type") == "file" {
		r.diskFields(d).setValue(e, "format", fleet.Raw)
	}
	r.noteOtherAttributes(e, "disk's driver", "name", "type", "cache", "io", "discard")
}

// limitFields maps libvirt's name of a disk limit to the spec's field, and to the number of libvirt's units in one unit
// of that field.
var limitFields = map[string]struct {
	field string
	by    uint64
}{
	"total_iops_sec": {"limits.totalIops", 1}, "read_iops_sec": {"limits.readIops", 1}, "write_iops_sec": {"limits.writeIops", 1}, "total_iops_sec_max": {"limits.burstIops", 1},
	"total_bytes_sec": {"limits.totalKiB", 1024}, "read_bytes_sec": {"limits.readKiB", 1024}, "write_bytes_sec": {"limits.writeKiB", 1024}, "total_bytes_sec_max": {"limits.burstKiB", 1024},
	"total_iops_sec_max_length": {"limits.burstSeconds", 1}, "total_bytes_sec_max_length": {"limits.burstSeconds", 1},
}

func readDiskLimits(r *conversion, e *element, d *Disk) error {
	for _, in := range e.children {
		t, known := limitFields[in.name]
		if !known {
			r.addNote(in, Left, "A disk's limits here are operations and bytes a second, of reads, writes or both, with bursts. This limit cannot be chosen.")
			continue
		}
		if err := r.diskFields(d).setQuotient(in, t.field, in.text, t.by); err != nil {
			return err
		}
	}
	return nil
}
