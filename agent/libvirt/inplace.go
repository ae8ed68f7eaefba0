package libvirt

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// pathClass classifies the file at a path of a pool.
type pathClass int

const (
	pathAsExpected pathClass = iota // the expected kind, or missing: other code reports missing files
	pathReplaced                    // a link, a device, or a folder instead of a file
)

// checkDefinedPaths refuses the start of a guest if a path in the definition is in a pool, but is not a regular file of
// the pool. So an attacker with access to shared storage cannot make QEMU open other files of this host. Paths outside
// all pools are not checked, because only an administrator of the host can set such paths.
func (b *Backend) checkDefinedPaths(ctx context.Context, x *libvirtxml.Domain) error {
	text, err := x.Marshal()
	if err != nil {
		return err
	}
	paths, err := absolutePathsIn(text)
	if err != nil {
		return err
	}
	var disks []string
	if x.Devices != nil {
		for i := range x.Devices.Disks {
			for _, h := range domxml.DiskFilesOf(&x.Devices.Disks[i]) {
				if !h.Opaque {
					disks = append(disks, h.Path)
				}
			}
		}
	}
	odd, err := hostfile.RunWithinLookupTimeout(ctx, func() (string, error) {
		for _, p := range paths {
			if is, err := b.classifyPath(p.path, p.folder); err != nil || is == pathReplaced {
				return p.path, err
			}
		}
		for _, d := range disks {
			if odd, err := b.badBackingFile(d); err != nil || odd != "" {
				return odd, err
			}
		}
		return "", nil
	})
	if err == nil && odd != "" {
		err = hypervisor.FaultError(hypervisor.FileOutsidePoolsFault(odd, conn.Hostname()))
	}
	return err
}

// definedPath is a path in a definition. If folder is set, the path may be a directory.
type definedPath struct {
	path   string
	folder bool
}

// absolutePathsIn returns all absolute paths in a definition, except those in metadata and descriptions.
func absolutePathsIn(text string) (out []definedPath, err error) {
	folder := false
	add := func(path string) {
		if path = strings.TrimSpace(path); filepath.IsAbs(path) {
			out = append(out, definedPath{filepath.Clean(path), folder})
		}
	}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch e := token.(type) {
		case xml.StartElement:
			if slices.Contains([]string{"metadata", "description", "title", "cmdline"}, e.Name.Local) {
				if err := d.Skip(); err != nil {
					return nil, err
				}
				continue
			}
			folder = folder || e.Name.Local == "filesystem"
			for _, a := range e.Attr {
				add(a.Value)
			}
		case xml.EndElement:
			folder = folder && e.Name.Local != "filesystem"
		case xml.CharData:
			add(string(e))
		}
	}
}

// classifyPath classifies the file at a path without following links. A path outside all pools is pathAsExpected.
func (b *Backend) classifyPath(path string, folder bool) (is pathClass, err error) {
	dir, _, ok := b.pools.PoolRecords().RecordContaining(path)
	if !ok {
		return pathAsExpected, nil
	}
	root, err := os.OpenRoot(dir)
	if hostfile.IsFileMissingError(err) {
		return pathAsExpected, nil
	}
	if err != nil {
		return pathAsExpected, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	below, err := filepath.Rel(dir, filepath.Clean(path))
	if err != nil {
		return pathAsExpected, err
	}
	names := strings.Split(below, string(filepath.Separator))
	for i := range names {
		info, err := root.Lstat(filepath.Join(names[:i+1]...))
		last := i == len(names)-1
		switch {
		case hostfile.IsFileMissingError(err):
			return pathAsExpected, nil
		case err != nil:
			return pathAsExpected, err
		case info.Mode().IsRegular() && last, info.IsDir() && (!last || folder):
		default:
			return pathReplaced, nil
		}
	}
	return pathAsExpected, nil
}

// badBackingFile returns the first invalid backing file of a qcow2 disk in a pool, or "". A backing file in a pool is
// invalid if it is not a regular file. A backing file outside all pools is invalid for a disk in a shared pool.
func (b *Backend) badBackingFile(disk string) (string, error) {
	seen := map[string]bool{}
	for todo := []string{disk}; len(todo) > 0 && len(seen) < hostfile.MaxChainFiles; todo = todo[1:] {
		_, kept, ok := b.pools.PoolRecords().RecordContaining(todo[0])
		if !ok || seen[todo[0]] {
			continue // a file outside all pools, so an administrator created the file
		}
		seen[todo[0]] = true
		for _, below := range hostfile.ReadReferences(todo[0]) {
			at := filepath.Clean(below.Path)
			is, err := b.classifyPath(at, false)
			if err != nil {
				return at, err
			}
			if _, _, inPool := b.pools.PoolRecords().RecordContaining(at); is == pathReplaced || kept.Shared && !inPool {
				return at, nil
			}
			if !below.Opaque {
				todo = append(todo, at)
			}
		}
	}
	return "", nil
}

// isPathReplaced reports whether the file at a path of a pool is not the expected kind. It returns false if a read fails.
func (b *Backend) isPathReplaced(path string, folder bool) bool {
	is, err := b.classifyPath(path, folder)
	return err == nil && is == pathReplaced
}

// replacedMediaFaults returns the faults of replaced media and shared folders, which prevent the guest's start.
func replacedMediaFaults(s observedDomain, sizes map[string]hostfile.DiskSize) (out []fleet.Fault) {
	for path := range mediaPaths(s) {
		if sizes[path].Presence == hostfile.FileReplaced {
			out = append(out, hypervisor.FileOutsidePoolsFault(path, conn.Hostname()))
		}
	}
	slices.SortFunc(out, func(a, b fleet.Fault) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// mediaPaths returns the media and shared folders of a domain.
func mediaPaths(s observedDomain) hostfile.DiskPaths {
	out := hostfile.DiskPaths{}
	if s.persistent.ISO != "" {
		out[s.persistent.ISO] = hostfile.CheckMediumExists
	}
	for _, m := range s.persistent.FieldValues.Media() {
		if out[m.Volume] = hostfile.CheckMediumExists; m.Kind == fleet.MediumFolder {
			out[m.Volume] = hostfile.CheckFolderExists
		}
	}
	return out
}
