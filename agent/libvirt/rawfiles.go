package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"quantix/agent"
	"quantix/agent/image"
	"quantix/internal/fleet"
)

// formats says which files the host's domains define as raw, and which as something else. What a raw file begins with is its guest's data: no
// format, no size and no other file's name is read from it. See ADR 71.
type formats struct{ raw, other map[fileID]bool }

// note adds a file as one domain defines it.
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

// isRaw reports whether the file's bytes are data. A file that no domain of the host defines is raw by its name.
func (f formats) isRaw(path string, id fileID) bool {
	return f.raw[id] || !f.other[id] && fleet.IsRawName(filepath.Base(path))
}

// formatsNow looks at the definitions of all domains at this moment.
func (b *Backend) formatsNow(ctx context.Context, c *conn) (formats, error) {
	all, err := b.inventory(ctx, c)
	if err != nil {
		return formats{}, fmt.Errorf("look at what the host's VMs have: %w", err)
	}
	return b.usersOf(ctx, fresh, all).formats, nil
}

// asDefined is the file as it is where it is raw: as long as it is, and nothing else. Its own reading is kept for those who make something of it.
func (f volumeFile) asDefined() volumeFile {
	f.begins = cmp.Or(f.Format, "qcow2") // a header that is cut off is one of that
	f.header = header{image.Facts{Format: fleet.Raw, Size: f.bytes}, f.alloc}
	return f
}

// misleads reports whether somebody else than its guest would take the raw disk for another format.
func (f volumeFile) misleads() bool { return f.begins != "" }

// imageIn reads all that decides whether an image is made of a volume. A raw disk that begins as another format does is none: whoever opens the
// copy would take it for that.
func (b *Backend) imageIn(ctx context.Context, c *conn, p place) (header, error) {
	f, err := b.volumeFile(ctx, c, p)
	if err != nil {
		return header{}, err
	}
	if f.misleads() {
		return header{}, agent.VolumeRaw(p.volume, f.begins)
	}
	h, err := within(ctx, func() (header, error) { return inspectImage(p.path()) })
	if err != nil {
		return h, notPlain(p, err)
	}
	return h, nil
}

// rawVolume is a listed volume as it is where it is raw: libvirt has read its guest's bytes.
func rawVolume(v fleet.Volume, bytes int64) fleet.Volume {
	v.Format, v.CapacityBytes, v.Backing, v.Appliance = fleet.Raw, bytes, "", nil
	return v
}
