// Package hostfile reads and writes files of the host, such as disks, images and unfinished uploads. Storage may hang,
// so functions in wait.go limit the time, and caches read each directory separately. Names of other files come only
// from headers that no guest wrote.
package hostfile

import (
	"os"
	"path/filepath"
	"slices"
)

// ID identifies a file independently of its path, because symbolic links and bind mounts give a file several paths.
// It is the device and inode number, or the device number of a device node. The zero value identifies no file.
type ID struct {
	dev, Ino uint64
	device   bool
}

// IDAt returns the ID of the file at the path, or the zero value if it cannot be read.
func IDAt(path string) ID {
	info, err := os.Stat(path)
	if err != nil {
		return ID{}
	}
	return IdentityOf(info)
}

// MaxChainFiles limits the length of a backing chain.
const MaxChainFiles = 64

// BackingChainIDs returns the file at the path and all files that its header refers to, recursively. It does not read
// the header of an opaque file, which has raw data that a guest may have written.
func BackingChainIDs(path string, opaque bool) []ID {
	var out []ID
	for todo := []ImageReference{{path, opaque}}; len(todo) > 0 && len(out) < MaxChainFiles; todo = todo[1:] {
		at := todo[0]
		id := IDAt(at.Path)
		if id == (ID{}) || slices.Contains(out, id) {
			continue
		}
		out = append(out, id)
		if !at.Opaque {
			todo = append(todo, ReadReferences(at.Path)...)
		}
	}
	return out
}

// BackingFiles returns the backing files that the headers of the disk and of its backing files name, and whether each is
// raw. It does not read the header of a raw file.
func BackingFiles(disk string, raw bool) map[string]bool {
	out := map[string]bool{}
	for todo := []ImageReference{{disk, raw}}; len(todo) > 0 && len(out) < MaxChainFiles; todo = todo[1:] {
		if todo[0].Opaque {
			continue
		}
		for _, r := range ReadReferences(todo[0].Path) {
			r.Path = filepath.Clean(r.Path)
			if _, ok := out[r.Path]; !ok {
				out[r.Path] = r.Opaque
				todo = append(todo, r)
			}
		}
	}
	return out
}
