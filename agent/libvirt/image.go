package libvirt

import (
	"fmt"
	"io"
	"os"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// header is what a disk image says of itself, and what it takes on its storage.
type header struct {
	image.Facts
	alloc int64
}

// readHeader reads what a regular file or a block device begins with. A path that is a symbolic link is an error unless follow.
func readHeader(path string, follow bool) (header, error) { return readImage(path, follow, false) }

// inspectImage reads all that decides whether a regular file can be used as an image. Nobody may write to it meanwhile.
func inspectImage(path string) (header, error) { return readImage(path, false, true) }

func readImage(path string, follow, deep bool) (header, error) {
	return onImage(path, follow, func(f *os.File, size int64) (image.Facts, error) { return image.Read(f, size, deep) })
}

// readLength is readHeader of a raw file or a block device, of which no byte is believed.
func readLength(path string) (header, error) {
	return onImage(path, true, func(_ *os.File, size int64) (image.Facts, error) {
		return image.Facts{Format: fleet.Raw, Size: size}, nil
	})
}

func onImage(path string, follow bool, read func(f *os.File, size int64) (image.Facts, error)) (header, error) {
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
	facts, err := read(f, size)
	if err != nil {
		return header{}, fmt.Errorf("%s: %w", path, err)
	}
	return header{facts, allocated(info, size)}, nil
}
