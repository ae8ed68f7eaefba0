package libvirt

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quantix/agent/libvirt/watch"
)

// fileID identifies a file independently of its path, because symbolic links and bind mounts give a file several paths.
// It is the device and inode number, or the device number of a device node. The zero value identifies no file.
type fileID struct {
	dev, ino uint64
	device   bool
}

// fileIDAt returns the ID of the file at the path, or the zero value if it cannot be read.
func fileIDAt(path string) fileID {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}
	}
	return identityOf(info)
}

// maxChainFiles limits the length of a backing chain.
const maxChainFiles = 64

// backingChainIDs returns the file at the path and all files that its header refers to, recursively. It does not read
// the header of an opaque file, which has raw data that a guest may have written.
func backingChainIDs(path string, opaque bool) []fileID {
	var out []fileID
	for todo := []imageReference{{path, opaque}}; len(todo) > 0 && len(out) < maxChainFiles; todo = todo[1:] {
		at := todo[0]
		id := fileIDAt(at.path)
		if id == (fileID{}) || slices.Contains(out, id) {
			continue
		}
		out = append(out, id)
		if !at.opaque {
			todo = append(todo, readReferences(at.path)...)
		}
	}
	return out
}

// cacheRecency is the maximum age of a cached value, and the time to wait for storage before the cached value is used.
type cacheRecency struct{ age, timeout time.Duration }

var (
	reportRecency = cacheRecency{20 * time.Second, time.Second} // for reports
	// for decisions: a file may have been moved, removed or replaced meanwhile
	decisionRecency = cacheRecency{0, fileLookupTimeout}
)

// dirCache caches facts about files. It reads each directory separately, so that hanging storage delays only its files.
type dirCache[T any] struct {
	mu   sync.Mutex
	dirs map[string]*watch.Value[map[string]T]
}

// read returns the results of look by path. Cached results are used up to the age in how; hanging storage has no
// result.
func (d *dirCache[T]) read(ctx context.Context, how cacheRecency, paths []string, look func(path string) T) map[string]T {
	in := map[string][]string{}
	for _, p := range paths {
		if filepath.IsAbs(p) {
			in[filepath.Dir(p)] = append(in[filepath.Dir(p)], p)
		}
	}
	var (
		mu    sync.Mutex
		found = map[string]T{}
		done  sync.WaitGroup
	)
	for dir, files := range in {
		done.Go(func() {
			seen := d.readDir(ctx, how, dir, files, look)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, seen)
		})
	}
	done.Wait()
	return found
}

func (d *dirCache[T]) readDir(ctx context.Context, how cacheRecency, dir string, files []string, look func(path string) T) map[string]T {
	d.mu.Lock()
	w := d.dirs[dir]
	if w == nil {
		w = &watch.Value[map[string]T]{}
		if d.dirs == nil {
			d.dirs = map[string]*watch.Value[map[string]T]{}
		}
		d.dirs[dir] = w
	}
	d.mu.Unlock()
	lacks := func(seen map[string]T) bool {
		return slices.ContainsFunc(files, func(f string) bool { _, ok := seen[f]; return !ok })
	}
	if how.age == 0 || lacks(w.State().Value) {
		w.Expire()
	}
	read := func() map[string]T {
		return w.Read(ctx, how.age, how.timeout, func() (map[string]T, error) {
			out := make(map[string]T, len(files))
			for _, f := range files {
				out[f] = look(f)
			}
			return out, nil
		}).Value
	}
	seen := read()
	// Files are missing if a concurrent reader refreshed only other files, or if the storage hangs. If the storage
	// hangs, read does not wait a second time.
	if lacks(seen) {
		w.Expire()
		seen = read()
	}
	return seen
}

// keepOnly removes all directories without one of the paths. A directory with a hanging read stays, so that no second
// read of the directory starts.
func (d *dirCache[T]) keepOnly(paths []string) {
	dirs := map[string]bool{}
	for _, p := range paths {
		dirs[filepath.Dir(p)] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.dirs, func(dir string, w *watch.Value[map[string]T]) bool { return !dirs[dir] && w.State().Running == 0 })
}

// expireDir makes the next read of the directory refresh it.
func (d *dirCache[T]) expireDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.dirs[filepath.Clean(dir)]; w != nil {
		w.Expire()
	}
}
