package pooldir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// MarkerFile is the file in a pool's directory that contains the pool's ID. All hosts of a shared pool use the same
// file. A volume's name must not begin with the name of MarkerFile, and lists of volumes omit the file.
const MarkerFile = ".quantix-pool"

// Mount describes the mount of a path, as the kernel reports it.
type Mount struct {
	Point  string `json:"point"`
	Type   string `json:"type"`
	Source string `json:"source"`
}

// DirReading is the state of a pool's directory, as read at one time.
type DirReading struct {
	Exists bool
	Marker fleet.PoolID // empty: none
	Mount  Mount
	Inode  uint64
	// Options are the mount options, then the options of the file system: "rw,relatime,errors=remount-ro".
	Options string
	// FileSystem is the directory's file system; nil if the kernel does not report it.
	FileSystem *fleet.FileSystem
}

// RecordedDir identifies the directory that a pool was first used in, by the marker. Mount and inode identify the
// directory only if no marker could be written, because device numbers change with reboots and mounts. With a marker,
// they only explain an error.
type RecordedDir struct {
	Marked bool   `json:"marked"`
	Mount  Mount  `json:"mount"`
	Inode  uint64 `json:"inode"`
}

// InspectDir reads the state of a pool's directory. It may block as long as the storage does not answer.
func InspectDir(dir string) (DirReading, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return DirReading{}, nil
	}
	if err != nil {
		return DirReading{}, err
	}
	defer func() { _ = root.Close() }()
	self, err := root.Open(".")
	if err != nil {
		return DirReading{}, err
	}
	defer self.Close()
	info, err := self.Stat()
	if err != nil {
		return DirReading{}, err
	}
	s := DirReading{Exists: true, Inode: inode(info)}
	s.Mount, s.FileSystem, s.Options = readMountOf(self)
	s.Marker, err = readMarker(root)
	return s, err
}

func readMarker(root *os.Root) (fleet.PoolID, error) {
	info, err := root.Lstat(MarkerFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := root.OpenFile(MarkerFile, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	return fleet.PoolID(strings.TrimSpace(string(text))), err
}

// WriteMarker writes the pool's marker unless the directory has one. Other hosts of a shared pool may do so at the same
// time.
func WriteMarker(dir string, id fleet.PoolID) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if there, err := readMarker(root); err != nil || there != "" {
		return err
	}
	f, err := root.OpenFile(MarkerFile, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(string(id) + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// RemoveMarker removes the marker if it contains this pool's ID.
func RemoveMarker(dir string, id fleet.PoolID) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if there, err := readMarker(root); err != nil || there != id {
		return err
	}
	return root.Remove(MarkerFile)
}

// readMountOf returns the open directory's mount, file system and mount options; zero values if the kernel does not
// report them.
func readMountOf(dir *os.File) (Mount, *fleet.FileSystem, string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", dir.Fd()))
	if err != nil {
		return Mount{}, nil, ""
	}
	_, id, _ := strings.Cut(string(text), "mnt_id:")
	id, _, _ = strings.Cut(strings.TrimSpace(id), "\n")
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Mount{}, nil, ""
	}
	return findMount(string(table), id)
}

// findMount finds a mount by its ID in the kernel's mount table.
func findMount(table, id string) (Mount, *fleet.FileSystem, string) {
	for m := range parseMountTable(table) {
		if m.id == id {
			return m.Mount, fileSystemOf(table, m), joinOptions(m.options...)
		}
	}
	return Mount{}, nil, ""
}

// mountEntry is one line of /proc/self/mountinfo.
type mountEntry struct {
	Mount
	id, device string
	options    []string // mount options, then file system options
}

// parseMountTable parses the kernel's mount table. A line has: id, parent, device, root, point, options, any number of
// other fields, "-", type, source, options.
func parseMountTable(table string) iter.Seq[mountEntry] {
	return func(yield func(mountEntry) bool) {
		for line := range strings.Lines(table) {
			first, second, _ := strings.Cut(line, " - ")
			before, after := strings.Fields(first), strings.Fields(second)
			if len(before) < 6 || len(after) < 2 {
				continue
			}
			m := mountEntry{Mount{Point: unescapeOctal(before[4]), Type: after[0], Source: unescapeOctal(after[1])}, before[0], before[2], append(before[5:6:6], after[2:]...)}
			if !yield(m) {
				return
			}
		}
	}
}

// sharedFileSystems maps network file systems whose source is the same on every host to the name of their kind.
var sharedFileSystems = map[string]string{
	"nfs": "nfs", "nfs4": "nfs", "cifs": "cifs", "smb3": "cifs", "fuse.glusterfs": "glusterfs", "ceph": "ceph", "fuse.ceph": "ceph", "lustre": "lustre",
}

// fileSystemOf identifies a mount's file system. Exports of one server's file system share the device number; the
// alphabetically first source identifies all of them.
func fileSystemOf(table string, of mountEntry) *fleet.FileSystem {
	kind := sharedFileSystems[of.Type]
	if kind == "" {
		return &fleet.FileSystem{ID: of.device}
	}
	source := of.Source
	for m := range parseMountTable(table) {
		if m.device == of.device && sharedFileSystems[m.Type] == kind {
			source = min(source, m.Source)
		}
	}
	return &fleet.FileSystem{ID: hypervisor.EscapeInvalidText(kind + " " + source), Shared: true}
}

// maxOptionsBytes limits the reported mount options, in bytes.
const maxOptionsBytes = 400

// joinOptions joins lists of options, each option once. An "ro" removes "rw".
func joinOptions(lists ...string) string {
	var all []string
	for _, l := range lists {
		for o := range strings.SplitSeq(l, ",") {
			if o != "" && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	if slices.Contains(all, "ro") {
		all = slices.DeleteFunc(all, func(o string) bool { return o == "rw" })
	}
	out := strings.Join(all, ",")
	return strings.ToValidUTF8(out[:min(len(out), maxOptionsBytes)], "")
}

// unescapeOctal decodes the kernel's octal escapes, as of blanks and backslashes.
func unescapeOctal(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
