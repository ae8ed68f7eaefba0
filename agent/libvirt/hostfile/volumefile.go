package hostfile

import (
	"cmp"
	"os"
	"time"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// VolumeFile is the current state of a volume's file.
type VolumeFile struct {
	ImageHeader
	ID            ID
	Modified      time.Time
	Bytes         int64
	ContentFormat string // the format that a raw disk's content looks like; empty if the format comes from the header
}

// WithoutContent returns the facts of a raw file: its length, and nothing from its content. Only ContentFormat
// describes the content, for callers that create images from the file.
func (f VolumeFile) WithoutContent() VolumeFile {
	f.ContentFormat = cmp.Or(f.Format, "qcow2") // only a truncated qcow2 header leaves the format empty
	f.ImageHeader = ImageHeader{image.Facts{Format: fleet.Raw, Size: f.Bytes}, f.Alloc}
	return f
}

// LooksLikeOtherFormat reports whether the content of the raw disk looks like another format.
func (f VolumeFile) LooksLikeOtherFormat() bool { return f.ContentFormat != "" }

// ReadVolumeFile reads the header and identity of a regular file.
func ReadVolumeFile(path string) (VolumeFile, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return VolumeFile{}, err
	}
	if !info.Mode().IsRegular() {
		return VolumeFile{}, &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	h, err := ReadHeader(path, false)
	h.Alloc = AllocatedBytes(info, info.Size())
	return VolumeFile{ImageHeader: h, ID: IdentityOf(info), Modified: info.ModTime(), Bytes: info.Size()}, err
}
