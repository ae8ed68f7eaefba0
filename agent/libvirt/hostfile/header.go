package hostfile

import (
	"fmt"
	"io"
	"os"

	"quantix/agent/image"
	"quantix/internal/fleet"
)

// ImageHeader holds the facts from a disk image's header, and its allocation on storage.
type ImageHeader struct {
	image.Facts
	Alloc int64
}

// ReadHeader reads the header of a regular file or block device. A symbolic link is an error unless follow is set.
func ReadHeader(path string, follow bool) (ImageHeader, error) { return readImage(path, follow, false) }

// InspectImage reads the header of a regular file and checks the tables of a qcow2 image. No other program may write to
// the file meanwhile.
func InspectImage(path string) (ImageHeader, error) { return readImage(path, false, true) }

func readImage(path string, follow, deep bool) (ImageHeader, error) {
	return withOpenImage(path, follow, func(f *os.File, size int64) (image.Facts, error) { return image.ReadFacts(f, size, deep) })
}

// readRawHeader is ReadHeader for a raw file or block device. It does not read the content, which a guest may have
// written.
func readRawHeader(path string) (ImageHeader, error) {
	return withOpenImage(path, true, func(_ *os.File, size int64) (image.Facts, error) {
		return image.Facts{Format: fleet.Raw, Size: size}, nil
	})
}

// withOpenImage calls read with the open image and its size in bytes, and adds the allocation to the result.
func withOpenImage(path string, follow bool, read func(f *os.File, size int64) (image.Facts, error)) (ImageHeader, error) {
	f, err := OpenImage(path, follow)
	if err != nil {
		return ImageHeader{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ImageHeader{}, err
	}
	size := info.Size()
	if info.Mode()&os.ModeDevice != 0 {
		if size, err = f.Seek(0, io.SeekEnd); err != nil {
			return ImageHeader{}, err
		}
	}
	facts, err := read(f, size)
	if err != nil {
		return ImageHeader{}, fmt.Errorf("%s: %w", path, err)
	}
	return ImageHeader{facts, AllocatedBytes(info, size)}, nil
}
