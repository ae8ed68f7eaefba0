package hostfile

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

// DiskSize holds a disk's virtual size and its allocation on storage, in bytes; both are 0 if unreadable.
type DiskSize struct {
	Bytes, Alloc int64
	Presence     FilePresence
	kind         diskReadMethod
}

// FilePresence is the result of a check whether a file exists. A failed check results in fileUnknown.
type FilePresence int

// Results of the check.
const (
	fileUnknown FilePresence = iota
	FilePresent
	FileMissing
	FileReplaced // a link, device or other file that the pool must not contain
)

// DiskSizes reads the sizes of disk files and caches them. It reads each directory separately, so that hanging storage
// delays only its own files. It does not use libvirt's sizes: for a running qcow2 disk libvirt counts only data written
// since the guest's start.
type DiskSizes struct {
	mu       sync.Mutex
	dirs     map[string]*watch.Value[map[string]DiskSize]
	reported map[string]DiskSize
	// IsReplaced reports whether the path is not a regular file, or not a directory if folder is set; nil: no check
	IsReplaced func(path string, folder bool) bool
}

// DiskPaths maps the file paths in definitions to the way of reading the files.
type DiskPaths map[string]diskReadMethod

// diskReadMethod is the way of reading a file.
type diskReadMethod int

const (
	ReadImageHeader   diskReadMethod = iota // read the header
	ReadFileLength                          // read the length
	CheckMediumExists                       // check existence
	CheckFolderExists                       // check existence
)

// Read returns the sizes of the paths; unknown sizes are zero. Allocations change only in steps (see SteadySize).
func (d *DiskSizes) Read(ctx context.Context, paths DiskPaths) map[string]DiskSize {
	byDir := map[string]DiskPaths{}
	for p, kind := range paths {
		if !filepath.IsAbs(p) {
			continue
		}
		if byDir[filepath.Dir(p)] == nil {
			byDir[filepath.Dir(p)] = DiskPaths{}
		}
		byDir[filepath.Dir(p)][p] = kind
	}
	var (
		mu    sync.Mutex
		found = map[string]DiskSize{}
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

func (d *DiskSizes) readDir(ctx context.Context, dir string, files DiskPaths) map[string]DiskSize {
	d.mu.Lock()
	if d.dirs == nil {
		d.dirs = map[string]*watch.Value[map[string]DiskSize]{}
	}
	w := d.dirs[dir]
	if w == nil {
		w = &watch.Value[map[string]DiskSize]{}
		d.dirs[dir] = w
	}
	d.mu.Unlock()
	look := func() (map[string]DiskSize, error) {
		out := map[string]DiskSize{}
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
		z.Presence = fileUnknown
		old[f] = z
	}
	return old
}

func (d *DiskSizes) report(paths DiskPaths, found map[string]DiskSize) map[string]DiskSize {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reported == nil {
		d.reported = map[string]DiskSize{}
	}
	out := make(map[string]DiskSize, len(paths))
	for p := range paths {
		z, ok := found[p]
		if reported, was := d.reported[p]; was {
			z.Alloc = SteadySize(reported.Alloc, z.Alloc, 0)
		}
		if ok {
			d.reported[p] = z
		}
		out[p] = z
	}
	return out
}

// ExpireDir makes the next read of the directory refresh its sizes.
func (d *DiskSizes) ExpireDir(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.dirs[filepath.Clean(dir)]; w != nil {
		w.Expire()
	}
}

// KeepOnly removes the sizes of all other paths.
func (d *DiskSizes) KeepOnly(paths map[string]DiskSize) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := map[string]bool{}
	for p := range paths {
		dirs[filepath.Dir(p)] = true
	}
	maps.DeleteFunc(d.reported, func(p string, _ DiskSize) bool { _, ok := paths[p]; return !ok })
	// Keep a directory whose read hangs, so that no second read of the directory starts.
	maps.DeleteFunc(d.dirs, func(dir string, w *watch.Value[map[string]DiskSize]) bool {
		return !dirs[dir] && w.State().Running == 0
	})
}

// sizeOf reads a file's allocation and its virtual size: from the header, or from the length of a raw file. Both are
// zero if they cannot be read.
func (d *DiskSizes) sizeOf(path string, kind diskReadMethod) DiskSize {
	if d.IsReplaced != nil && d.IsReplaced(path, kind == CheckFolderExists) {
		return DiskSize{Presence: FileReplaced, kind: kind}
	}
	var h ImageHeader
	var err error
	switch kind {
	case ReadImageHeader:
		h, err = ReadHeader(path, true)
	case ReadFileLength:
		h, err = readRawHeader(path)
	case CheckMediumExists, CheckFolderExists:
		_, err = os.Stat(path)
	}
	switch {
	case IsFileMissingError(err):
		return DiskSize{Presence: FileMissing, kind: kind}
	case err != nil:
		return DiskSize{kind: kind}
	}
	return DiskSize{Bytes: h.Size, Alloc: h.Alloc, Presence: FilePresent, kind: kind}
}

// IsFileMissingError reports whether the file system answered that the file does not exist.
func IsFileMissingError(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// minReportedChange is how many bytes a size must change before a new value is reported, so that a busy guest does not
// change every report.
const minReportedChange = 64 << 20

// SteadySize returns the size to report. It returns reported unless newest differs from it by at least
// minReportedChange, or by a thousandth of total if that is more.
func SteadySize(reported, newest, total int64) int64 {
	diff := newest - reported
	if diff < 0 {
		diff = -diff
	}
	if diff < max(minReportedChange, total/1000) {
		return reported
	}
	return newest
}
