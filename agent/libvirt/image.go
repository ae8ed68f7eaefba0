package libvirt

import (
	"fmt"
	"io"
	"os"

	"quantix/agent/image"
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
	facts, err := image.Read(f, size, deep)
	if err != nil {
		return header{}, fmt.Errorf("%s: %w", path, err)
	}
	return header{facts, allocated(info, size)}, nil
}
