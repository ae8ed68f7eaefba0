package hostfile

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quantix/agent/libvirt/watch"
)

// CacheRecency is the maximum age of a cached value, and the time to wait for storage before the cached value is used.
type CacheRecency struct{ Age, timeout time.Duration }

// ReportRecency is for reports, which may contain values that are a few seconds old.
var ReportRecency = CacheRecency{20 * time.Second, time.Second}

// DecisionRecency is for decisions, because a file may have been moved, removed or replaced meanwhile.
var DecisionRecency = CacheRecency{0, fileLookupTimeout}

// DirCache caches facts about files. It reads each directory separately, so that hanging storage delays only its files.
type DirCache[T any] struct {
	mu   sync.Mutex
	dirs map[string]*watch.Value[map[string]T]
}

// Read returns the results of inspect by path. It uses cached results up to the age in recency. A path on hanging
// storage has no result.
func (d *DirCache[T]) Read(ctx context.Context, recency CacheRecency, paths []string, inspect func(path string) T) map[string]T {
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
			seen := d.readDir(ctx, recency, dir, files, inspect)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, seen)
		})
	}
	done.Wait()
	return found
}

func (d *DirCache[T]) readDir(ctx context.Context, how CacheRecency, dir string, files []string, look func(path string) T) map[string]T {
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
	if how.Age == 0 || lacks(w.State().Value) {
		w.Expire()
	}
	read := func() map[string]T {
		return w.Read(ctx, how.Age, how.timeout, func() (map[string]T, error) {
			out := make(map[string]T, len(files))
			for _, f := range files {
				out[f] = look(f)
			}
			return out, nil
		}).Value
	}
	seen := read()
	// Files are missing if a concurrent reader refreshed only other files, or if the storage hangs. If the storage
	// hangs, readDir does not wait a second time.
	if lacks(seen) {
		w.Expire()
		seen = read()
	}
	return seen
}

// KeepOnly removes all directories without one of the paths. A directory with a hanging read stays, so that no second
// read of the directory starts.
func (d *DirCache[T]) KeepOnly(paths []string) {
	dirs := map[string]bool{}
	for _, p := range paths {
		dirs[filepath.Dir(p)] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.dirs, func(dir string, w *watch.Value[map[string]T]) bool { return !dirs[dir] && w.State().Running == 0 })
}

// ExpireDir makes the next read of the directory refresh it.
func (d *DirCache[T]) ExpireDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.dirs[filepath.Clean(dir)]; w != nil {
		w.Expire()
	}
}
