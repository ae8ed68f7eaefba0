package libvirt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"quantix/agent/hypervisor"
	"quantix/agent/image"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
)

// formats records which files the definitions of the host's domains have as raw and which as another format. The
// content of a raw file is guest data: the agent reads no format, size or file name from it. See ADR 70.
type formats struct{ raw, other map[fileID]bool }

// addFile records the file's format in one domain's definition.
func (f *formats) addFile(id fileID, raw bool) {
	if f.raw == nil {
		f.raw, f.other = map[fileID]bool{}, map[fileID]bool{}
	}
	if raw {
		f.raw[id] = true
	} else {
		f.other[id] = true
	}
}

// isRaw reports whether the file is raw. If no domain defines the file, the file name decides.
func (f formats) isRaw(path string, id fileID) bool {
	return f.raw[id] || !f.other[id] && fleet.IsRawName(filepath.Base(path))
}

// readFileFormats reads the definitions of all domains now.
func (b *Backend) readFileFormats(ctx context.Context, c *conn.Conn) (formats, error) {
	all, err := b.readDomains(ctx, c)
	if err != nil {
		return formats{}, fmt.Errorf("read the disks of the host's VMs: %w", err)
	}
	return b.findFileUsers(ctx, decisionRecency, all).formats, nil
}

// withoutContent returns the facts of a raw file: its length, and nothing from its content. begins is the format that
// the content resembles, for callers that create images from the file.
func (f volumeFile) withoutContent() volumeFile {
	f.contentFormat = cmp.Or(f.Format, "qcow2") // only a truncated qcow2 header leaves the format empty
	f.header = header{image.Facts{Format: fleet.Raw, Size: f.bytes}, f.alloc}
	return f
}

// looksFormatted reports whether the content of the raw disk looks like another format.
func (f volumeFile) looksFormatted() bool { return f.contentFormat != "" }

// readImageSource reads the facts that decide whether an image may be created from a volume. It refuses a raw disk that
// looks like another format, because readers of the copy would use that format.
func (b *Backend) readImageSource(ctx context.Context, c *conn.Conn, p localVolume) (header, error) {
	f, err := b.volumeFile(ctx, c, p)
	if err != nil {
		return header{}, err
	}
	if f.looksFormatted() {
		return header{}, hypervisor.RefuseImageOfRawDisk(p.volume, f.contentFormat)
	}
	h, err := withinContext(ctx, func() (header, error) { return inspectImage(p.path()) })
	if err != nil {
		return h, translateReadError(p, err)
	}
	return h, nil
}

// rawVolumeListing returns the listing of a raw volume without libvirt's values, because libvirt probed the guest's
// bytes.
func rawVolumeListing(v fleet.Volume, bytes int64) fleet.Volume {
	v.Format, v.CapacityBytes, v.Backing, v.Appliance = fleet.Raw, bytes, "", nil
	return v
}
