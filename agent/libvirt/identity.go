package libvirt

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// fileID is a file itself, whatever path leads to it: symbolic links and bind mounts end at the same device and inode. Of a
// device it is the device's own number. The zero fileID is no file.
type fileID struct {
	dev, ino uint64
	device   bool
}

// identify returns the file at the path; zero where it cannot be looked at.
func identify(path string) fileID {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}
	}
	return identityOf(info)
}

// longestChain bounds how many files a disk is followed through.
const longestChain = 64

// chainOf returns the file at the path and, unless it is opaque (raw data, which a guest may have written), all that its own
// header refers to, and so on.
func chainOf(path string, opaque bool) []fileID {
	var out []fileID
	for todo := []reference{{path, opaque}}; len(todo) > 0 && len(out) < longestChain; todo = todo[1:] {
		at := todo[0]
		id := identify(at.path)
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

// recency is how old an answer may be, and how long storage is waited for before what was seen earlier is the answer.
type recency struct{ age, patience time.Duration }

var (
	recent = recency{20 * time.Second, time.Second} // for what is told
	fresh  = recency{0, lookPatience}               // for what is decided: a file that was moved, removed or replaced meanwhile is another
)

// byDir remembers what was seen of files, directory by directory, because storage that hangs hangs as a whole.
type byDir[T any] struct {
	mu   sync.Mutex
	dirs map[string]*watch[map[string]T]
}

// read returns what look sees of the paths, as far as their storage answers. Paths that were not looked at before are looked
// at now.
func (d *byDir[T]) read(ctx context.Context, how recency, paths []string, look func(path string) T) map[string]T {
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

func (d *byDir[T]) readDir(ctx context.Context, how recency, dir string, files []string, look func(path string) T) map[string]T {
	d.mu.Lock()
	w := d.dirs[dir]
	if w == nil {
		w = &watch[map[string]T]{}
		if d.dirs == nil {
			d.dirs = map[string]*watch[map[string]T]{}
		}
		d.dirs[dir] = w
	}
	d.mu.Unlock()
	lacks := func(seen map[string]T) bool {
		return slices.ContainsFunc(files, func(f string) bool { _, ok := seen[f]; return !ok })
	}
	if how.age == 0 || lacks(w.sight().value) {
		w.expire()
	}
	read := func() map[string]T {
		return w.read(ctx, how.age, how.patience, func() (map[string]T, error) {
			out := make(map[string]T, len(files))
			for _, f := range files {
				out[f] = look(f)
			}
			return out, nil
		}).value
	}
	seen := read()
	if lacks(seen) { // somebody else's look, at other files, came in between; or storage hangs, which is not waited for twice
		w.expire()
		seen = read()
	}
	return seen
}

// keepOnly forgets all directories but those of the paths. A look that hangs is kept, so that no second one joins it.
func (d *byDir[T]) keepOnly(paths []string) {
	dirs := map[string]bool{}
	for _, p := range paths {
		dirs[filepath.Dir(p)] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.dirs, func(dir string, w *watch[map[string]T]) bool { return !dirs[dir] && w.sight().late == 0 })
}

// expire makes the next read look again in the directory.
func (d *byDir[T]) expire(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.dirs[filepath.Clean(dir)]; w != nil {
		w.expire()
	}
}
