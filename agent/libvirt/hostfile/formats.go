package hostfile

import (
	"path/filepath"

	"quantix/internal/fleet"
)

// Formats records which files the definitions of the host's domains have as raw and which as another format. The
// content of a raw file is guest data: the agent reads no format, size or file name from it. See ADR 70.
type Formats struct{ Raw, other map[ID]bool }

// AddFile records the file's format in one domain's definition.
func (f *Formats) AddFile(id ID, raw bool) {
	if f.Raw == nil {
		f.Raw, f.other = map[ID]bool{}, map[ID]bool{}
	}
	if raw {
		f.Raw[id] = true
	} else {
		f.other[id] = true
	}
}

// IsRaw reports whether the file is raw. If no domain defines the file, the file name decides.
func (f Formats) IsRaw(path string, id ID) bool {
	return f.Raw[id] || !f.other[id] && fleet.IsRawName(filepath.Base(path))
}

// RawVolumeListing returns the listing of a raw volume without libvirt's values, because libvirt probed the guest's
// bytes.
func RawVolumeListing(v fleet.Volume, bytes int64) fleet.Volume {
	v.Format, v.CapacityBytes, v.Backing, v.Appliance = fleet.Raw, bytes, "", nil
	return v
}
