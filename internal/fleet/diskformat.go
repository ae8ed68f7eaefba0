package fleet

import "strings"

// Raw is the format of a disk file that contains only the disk's bytes, without a header.
const Raw = "raw"

// IsRawName reports whether the name marks a raw disk. The format is never probed from the file's content, because
// the guest controls the content.
func IsRawName(volume string) bool {
	return strings.HasSuffix(strings.TrimSuffix(volume, PartialSuffix), "."+Raw)
}

// DiskFormats are the file formats of a new disk.
var DiskFormats = []Option{{"", "Pool default (qcow2 in a file pool)"}, {Raw, "Raw file"}}

// FileFormat returns the format of the disk's file in a file pool.
func (d Disk) FileFormat() string {
	if d.Existing || d.Format == Raw {
		return Raw
	}
	return "qcow2"
}

// IsQcow2 reports whether the disk is a qcow2 file, which supports snapshots and migration. Volumes of block pools have
// no qcow2 suffix.
func (d Disk) IsQcow2() bool {
	return d.FileFormat() == "qcow2" && strings.HasSuffix(d.Volume, ".qcow2")
}

// NewVolumeName returns the name of a new volume of the disk in a pool of that kind, with the suffix of its
// format.
func (d Disk) NewVolumeName(name string, kind PoolKind) string {
	return strings.TrimSuffix(name, ".qcow2") + d.formatSuffix(kind)
}

func (d Disk) formatSuffix(kind PoolKind) string {
	if !kind.Info().FilePool {
		return "." + Raw
	}
	return "." + d.FileFormat()
}

// CheckVolumeName adds an error at field if a new volume of the disk cannot have the name in a pool of that kind.
func (d Disk) CheckVolumeName(c *Checks, field, name string, kind PoolKind) {
	if ending := d.formatSuffix(kind); !volumeForm.MatchString(name) || !strings.HasSuffix(name, ending) {
		c.Add(field, "A disk name has letters, digits and . _ -, at most 200 characters, and ends in %s.", ending)
	}
}

// checkFormat adds an error for each setting that a raw disk cannot have.
func (d Disk) checkFormat(c *Checks, at string) {
	switch {
	case d.Format != Raw:
	case d.Existing:
		c.Add(at+".format", "An existing volume keeps its format. Remove the format.")
	case d.Overlay:
		c.Add(at+".format", "A raw disk cannot be a linked clone. Choose a full clone, or remove the format.")
	case d.Encryption != "":
		c.Add(at+".format", "An encrypted disk needs the format qcow2. Remove the format, or the encryption.")
	}
}

// WhyRawNotCopied returns why Quantix does not copy a raw disk; empty: the disk is not raw. The guest may have written
// a qcow2 header into the disk, and a copy would then be read as qcow2.
func (d Disk) WhyRawNotCopied() string {
	if d.Format != Raw {
		return ""
	}
	return "is a raw file whose guest may have written the header of another format, so it cannot be copied safely. Add a qcow2 disk to the VM, and copy the data in the guest."
}

// diskByVolume returns the disk with the volume, or the zero value.
func (s VMSpec) diskByVolume(ref Volref) Disk {
	for _, d := range s.Disks {
		if d.Ref() == ref {
			return d
		}
	}
	return Disk{}
}
