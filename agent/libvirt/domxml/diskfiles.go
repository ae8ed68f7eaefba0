package domxml

import "libvirt.org/go/libvirtxml"

// DiskFile is a file that a domain uses as a disk or in a disk's backing chain. The medium in a drive does not count,
// because the guest only reads it.
type DiskFile struct {
	Path    string // or "volume:pool/name"
	Opaque  bool   // raw: the file's content is guest data and names no other files
	InChain bool   // in a disk's backing chain
	Shared  bool   // the definition lets other domains write to the file
}

// FileUsage returns how the domain uses the file.
func (h DiskFile) FileUsage() FileUse {
	if h.InChain {
		return UsedAsBacking
	}
	return UsedAsDisk
}

// DiskFilesOf returns the files that the definition names for one disk.
func DiskFilesOf(d *libvirtxml.DomainDisk) []DiskFile {
	if d.Device == "cdrom" || HasAliasPrefix(d.Alias, DriveAliasPrefix) { // an unmanaged floppy is writable, so it counts
		return nil
	}
	var out []DiskFile
	add := func(s *libvirtxml.DomainDiskSource, format string, part bool) {
		if path := SourcePath(s); path != "" {
			out = append(out, DiskFile{Path: path, Opaque: format == "raw", InChain: part, Shared: !part && d.Shareable != nil})
		}
	}
	chain := func(b *libvirtxml.DomainDiskBackingStore) {
		for ; b != nil; b = b.BackingStore {
			add(b.Source, formatName(b.Format), true)
		}
	}
	format := ""
	if d.Driver != nil {
		format = d.Driver.Type
	}
	add(d.Source, format, false)
	chain(d.BackingStore)
	if d.Mirror != nil {
		add(d.Mirror.Source, formatName(d.Mirror.Format), false)
		chain(d.Mirror.BackingStore)
	}
	return out
}

func formatName(f *libvirtxml.DomainDiskFormat) string {
	if f == nil {
		return ""
	}
	return f.Type
}

// FileUse is how a domain uses a file.
type FileUse int

// Uses of a file.
const (
	UsedAsDisk    FileUse = iota
	UsedAsBacking         // in a disk's backing chain
	UsedAsMedium          // in a drive: the guest only reads it
)

// VolumeRefPrefix starts the path of a volume that a definition names by pool and volume name.
const VolumeRefPrefix = "volume:"

// VolumeRefPath returns the path for a volume that a definition names by pool and volume name.
func VolumeRefPath(pool, volume string) string { return VolumeRefPrefix + pool + "/" + volume }
