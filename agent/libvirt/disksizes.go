package libvirt

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"quantix/agent/libvirt/watch"
)

const (
	diskSizeMaxAge  = 5 * time.Second
	diskSizeTimeout = time.Second
)

// diskSize holds a disk's virtual size and its allocation on storage, in bytes; both are 0 if unreadable.
type diskSize struct {
	bytes, alloc int64
	presence     filePresence
	kind         diskReadMethod
}

// filePresence is the result of a check whether a file exists. A failed check results in fileUnknown.
type filePresence int

const (
	fileUnknown filePresence = iota
	filePresent
	fileMissing
	fileReplaced // a link, device or other file that the pool must not contain
)

// diskSizes reads the sizes of disk files and caches them. It reads each directory separately, so that hanging storage
// delays only its own files. It does not use libvirt's sizes: for a running qcow2 disk libvirt counts only data written
// since the guest's start.
type diskSizes struct {
	mu       sync.Mutex
	dirs     map[string]*watch.Value[map[string]diskSize]
	reported map[string]diskSize
	// isReplaced reports whether the path is not a regular file, or not a directory if folder is set; nil: no check
	isReplaced func(path string, folder bool) bool
}

// diskPaths maps the file paths in definitions to the way of reading the files.
type diskPaths map[string]diskReadMethod

// diskReadMethod is the way of reading a file.
type diskReadMethod int

const (
	readImageHeader   diskReadMethod = iota // read the header
	readFileLength                          // read the length
	checkMediumExists                       // check existence
	checkFolderExists                       // check existence
)

// read returns the sizes of the paths; unknown sizes are zero. Allocations change only in steps, see steadySize.
func (d *diskSizes) read(ctx context.Context, paths diskPaths) map[string]diskSize {
	byDir := map[string]diskPaths{}
	for p, kind := range paths {
		if !filepath.IsAbs(p) {
			continue
		}
		if byDir[filepath.Dir(p)] == nil {
			byDir[filepath.Dir(p)] = diskPaths{}
		}
		byDir[filepath.Dir(p)][p] = kind
	}
	var (
		mu    sync.Mutex
		found = map[string]diskSize{}
		done  sync.WaitGroup
	)
	for dir, files := range byDir {
		done.Go(func() {
			sizes := d.readDir(ctx, dir, files)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(found, sizes)
		})
	}
	done.Wait()
	return d.report(paths, found)
}

func (d *diskSizes) readDir(ctx context.Context, dir string, files diskPaths) map[string]diskSize {
	d.mu.Lock()
	if d.dirs == nil {
		d.dirs = map[string]*watch.Value[map[string]diskSize]{}
	}
	w := d.dirs[dir]
	if w == nil {
		w = &watch.Value[map[string]diskSize]{}
		d.dirs[dir] = w
	}
	d.mu.Unlock()
	look := func() (map[string]diskSize, error) {
		out := map[string]diskSize{}
		for f, kind := range files {
			out[f] = d.sizeOf(f, kind)
		}
		for f, was := range w.State().Value {
			if _, done := out[f]; !done {
				out[f] = d.sizeOf(f, was.kind)
			}
		}
		return out, nil
	}
	known := w.State().Value
	for f := range files {
		if _, ok := known[f]; !ok {
			w.Expire()
			break
		}
	}
	s := w.Read(ctx, diskSizeMaxAge, diskSizeTimeout, look)
	if s.Running <= diskSizeTimeout {
		return s.Value
	}
	// The storage hangs, so the earlier presence of the files is no longer valid.
	old := maps.Clone(s.Value)
	for f, z := range old {
		z.presence = fileUnknown
		old[f] = z
	}
	return old
}

func (d *diskSizes) report(paths diskPaths, found map[string]diskSize) map[string]diskSize {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reported == nil {
		d.reported = map[string]diskSize{}
	}
	out := make(map[string]diskSize, len(paths))
	for p := range paths {
		z, ok := found[p]
		if reported, was := d.reported[p]; was {
			z.alloc = steadySize(reported.alloc, z.alloc, 0)
		}
		if ok {
			d.reported[p] = z
		}
		out[p] = z
	}
	return out
}

// expireDir makes the next read of the directory refresh its sizes.
func (d *diskSizes) expireDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.dirs[filepath.Clean(dir)]; w != nil {
		w.Expire()
	}
}

// keepOnly removes the sizes of all other paths.
func (d *diskSizes) keepOnly(paths map[string]diskSize) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := map[string]bool{}
	for p := range paths {
		dirs[filepath.Dir(p)] = true
	}
	maps.DeleteFunc(d.reported, func(p string, _ diskSize) bool { _, ok := paths[p]; return !ok })
	// A directory with a hanging read stays, so that no second read of the directory starts.
	maps.DeleteFunc(d.dirs, func(dir string, w *watch.Value[map[string]diskSize]) bool {
		return !dirs[dir] && w.State().Running == 0
	})
}

// sizeOf reads a file's allocation and its virtual size: from the header, or from the length of a raw file. Both are
// zero if they cannot be read.
func (d *diskSizes) sizeOf(path string, kind diskReadMethod) diskSize {
	if d.isReplaced != nil && d.isReplaced(path, kind == checkFolderExists) {
		return diskSize{presence: fileReplaced, kind: kind}
	}
	var h header
	var err error
	switch kind {
	case readImageHeader:
		h, err = readHeader(path, true)
	case readFileLength:
		h, err = readRawHeader(path)
	case checkMediumExists, checkFolderExists:
		_, err = os.Stat(path)
	}
	switch {
	case isFileMissing(err):
		return diskSize{presence: fileMissing, kind: kind}
	case err != nil:
		return diskSize{kind: kind}
	}
	return diskSize{bytes: h.Size, alloc: h.alloc, presence: filePresent, kind: kind}
}

// isFileMissing reports whether the file system answered that the file does not exist.
func isFileMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
