package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/internal/fleet"
)

// formats records which files the host's domains define as raw and which as another format. A raw file's content is
// guest data: no format, size or file name is read from it. See ADR 70.
type formats struct{ raw, other map[fileID]bool }

// note records how one domain defines the file.
func (f *formats) note(id fileID, raw bool) {
	if f.raw == nil {
		f.raw, f.other = map[fileID]bool{}, map[fileID]bool{}
	}
	if raw {
		f.raw[id] = true
	} else {
		f.other[id] = true
	}
}

// isRaw reports whether the file's content is data. A file that no domain defines is raw if its name is.
func (f formats) isRaw(path string, id fileID) bool {
	return f.raw[id] || !f.other[id] && fleet.IsRawName(filepath.Base(path))
}

// formatsNow reads the definitions of all domains now.
func (b *Backend) formatsNow(ctx context.Context, c *conn) (formats, error) {
	all, err := b.inventory(ctx, c)
	if err != nil {
		return formats{}, fmt.Errorf("look at what the host's VMs have: %w", err)
	}
	return b.usersOf(ctx, fresh, all).formats, nil
}

// asRaw returns the raw file's facts: its length, and nothing from its content. begins keeps the format that the
// content resembles, for callers that create images from it.
func (f volumeFile) asRaw() volumeFile {
	f.begins = cmp.Or(f.Format, "qcow2") // a truncated header is one of qcow2
	f.header = header{image.Facts{Format: fleet.Raw, Size: f.bytes}, f.alloc}
	return f
}

// looksFormatted reports whether the raw disk's content looks like another format.
func (f volumeFile) looksFormatted() bool { return f.begins != "" }

// imageIn reads the facts that decide whether an image may be created from a volume. It refuses a raw disk that looks
// like another format: readers of the copy would take it for that format.
func (b *Backend) imageIn(ctx context.Context, c *conn, p place) (header, error) {
	f, err := b.volumeFile(ctx, c, p)
	if err != nil {
		return header{}, err
	}
	if f.looksFormatted() {
		return header{}, hypervisor.VolumeRaw(p.volume, f.begins)
	}
	h, err := within(ctx, func() (header, error) { return inspectImage(p.path()) })
	if err != nil {
		return h, notPlain(p, err)
	}
	return h, nil
}

// rawVolume corrects the listing of a raw volume: libvirt probed the guest's bytes.
func rawVolume(v fleet.Volume, bytes int64) fleet.Volume {
	v.Format, v.CapacityBytes, v.Backing, v.Appliance = fleet.Raw, bytes, "", nil
	return v
}
