package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"quantix/internal/fleet"
)

// header is what the first bytes of a disk image say. Quantix reads them itself: tools that open an image follow what it
// refers to, which may be any file of the host.
type header struct {
	format    string // "qcow2", or "raw" for all that has no known magic
	size      int64  // as a guest sees it
	alloc     int64  // on its storage
	refersTo  string // what it refers to outside itself, in words; empty: self-contained
	encrypted bool
}

const (
	qcow2DataFile = 1 << 2 // incompatible feature: the data is in another file
	headerBytes   = 512
)

// foreign formats may refer to other files as well; only qcow2 and raw are cloned.
var magics = []struct{ magic, format string }{
	{"QED\x00", "qed"},
	{"KDMV", "vmdk"},
	{"COWD", "vmdk"},
	{"# Disk DescriptorFile", "vmdk"},
	{"vhdxfile", "vhdx"},
	{"conectix", "vpc"},
	{"WithoutFreeSpace", "parallels"},
	{"WithouFreSpacExt", "parallels"},
	{"LUKS\xba\xbe", "luks"},
	{"<<< ", "vdi"},
}

// readHeader reads a regular file or a block device. A path that is a symbolic link is an error unless follow.
func readHeader(path string, follow bool) (header, error) {
	f, err := openImage(path, follow)
	if err != nil {
		return header{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return header{}, err
	}
	size := info.Size()
	if info.Mode()&os.ModeDevice != 0 {
		if size, err = f.Seek(0, io.SeekEnd); err != nil {
			return header{}, err
		}
	}
	text := make([]byte, headerBytes)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	h, err := parseHeader(text[:n])
	if err != nil {
		return header{}, fmt.Errorf("%s: %w", path, err)
	}
	if h.format == "raw" {
		h.size = size
	}
	h.alloc = allocated(info, size)
	return h, nil
}

func parseHeader(text []byte) (header, error) {
	for _, m := range magics {
		if bytes.HasPrefix(text, []byte(m.magic)) {
			return header{format: m.format}, nil
		}
	}
	if !bytes.HasPrefix(text, []byte("QFI\xfb")) {
		return header{format: "raw"}, nil
	}
	if len(text) < 104 && (len(text) < 72 || binary.BigEndian.Uint32(text[4:]) > 2) {
		return header{}, errors.New("the qcow2 header is cut off")
	}
	version := binary.BigEndian.Uint32(text[4:])
	if version != 2 && version != 3 {
		return header{format: fmt.Sprintf("qcow%d", version)}, nil
	}
	h := header{
		format: "qcow2", size: int64(binary.BigEndian.Uint64(text[24:])), encrypted: binary.BigEndian.Uint32(text[32:]) != 0,
	}
	switch {
	case binary.BigEndian.Uint64(text[8:]) != 0:
		h.refersTo = "a backing file"
	case version == 3 && binary.BigEndian.Uint64(text[72:])&qcow2DataFile != 0:
		h.refersTo = "an external data file"
	}
	return h, nil
}

// checkImage refuses what must not be cloned, in a sentence about the volume.
func checkImage(volume string, h header) error {
	switch {
	case h.refersTo != "":
		return fleet.Errorf(fleet.Conflict, "The image %s refers to %s, so it is not cloned. Flatten it first: qemu-img convert -O qcow2 %s copy.qcow2.", volume, h.refersTo, volume)
	case h.encrypted:
		return fleet.Errorf(fleet.Conflict, "The image %s is encrypted, so it cannot be cloned. Choose an image that is not.", volume)
	case h.format != "qcow2" && h.format != "raw":
		return fleet.Errorf(fleet.Conflict, "The image %s has the format %s; only qcow2 and raw images are cloned. Convert it to qcow2 first.", volume, h.format)
	}
	return nil
}
