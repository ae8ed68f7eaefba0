package fleet

import "strings"

// Raw is the format of a file that holds a disk's bytes and nothing else.
const Raw = "raw"

// IsRawName reports whether the name says that the volume is a raw disk. Nothing is read from what such a file begins with: its guest wrote that.
func IsRawName(volume string) bool {
	return strings.HasSuffix(strings.TrimSuffix(volume, PartialSuffix), "."+Raw)
}

// DiskFormats are what a new disk's file can be in.
var DiskFormats = []Option{{"", "As its pool has it (qcow2 in a pool of files)"}, {Raw, "Raw file"}}

// FileFormat is the format that the disk's file has in a pool of files.
func (d Disk) FileFormat() string {
	if d.Existing || d.Format == Raw {
		return Raw
	}
	return "qcow2"
}

// IsQcow2 reports whether the disk is a qcow2 file, of which there can be snapshots and which goes elsewhere. Pools that are none of files have theirs
// under names that end otherwise.
func (d Disk) IsQcow2() bool {
	return d.FileFormat() == "qcow2" && strings.HasSuffix(d.Volume, ".qcow2")
}

// VolumeNamed is the name as a new volume of the disk bears it in a pool of that kind: its ending says what it is.
func (d Disk) VolumeNamed(name string, kind PoolKind) string {
	return strings.TrimSuffix(name, ".qcow2") + d.ending(kind)
}

func (d Disk) ending(kind PoolKind) string {
	if !kind.Is().Files {
		return "." + Raw
	}
	return "." + d.FileFormat()
}

// CheckVolume notes at field where name cannot be that of a new volume of the disk in a pool of that kind.
func (d Disk) CheckVolume(c *Checks, field, name string, kind PoolKind) {
	if ending := d.ending(kind); !volumeForm.MatchString(name) || !strings.HasSuffix(name, ending) {
		c.Add(field, "Name the new disk with letters, digits and . _ -, 200 at most, ending in %s.", ending)
	}
}

// checkFormat notes what no raw file can be.
func (d Disk) checkFormat(c *Checks, at string) {
	switch {
	case d.Format != Raw:
	case d.Existing:
		c.Add(at+".format", "A volume that is there already is as it is. Leave the format.")
	case d.Overlay:
		c.Add(at+".format", "A raw file stands on no image. Choose a full copy of it, or leave the format.")
	case d.Encryption != "":
		c.Add(at+".format", "An encrypted disk is a qcow2 file. Leave the format, or the encryption.")
	}
}

// staysRaw is why a disk that is a raw file is not copied; empty: it is none. Its guest may have begun it with what a qcow2 file begins with, and whoever
// copies it tells its format by that.
func (d Disk) staysRaw() string {
	if d.Format != Raw {
		return ""
	}
	return "is a raw file, whose guest may have written there what another format begins with, so it is not copied by what it begins with. Give the VM a disk of the usual format, and copy the data in the guest."
}

// diskOf is the disk with that volume; the zero one where the VM has none.
func (s VMSpec) diskOf(ref Volref) Disk {
	for _, d := range s.Disks {
		if d.Ref() == ref {
			return d
		}
	}
	return Disk{}
}
