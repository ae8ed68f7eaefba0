// Package blockdev finds the host's whole disks that a guest could use. It identifies a disk by its udev name
// (/dev/disk/by-id), which stays the same at any port.
package blockdev

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DiskNameDir is udev's directory of disk names, below the root.
const DiskNameDir = "dev/disk/by-id"

// Device is a whole disk.
type Device struct {
	Name      string // file name in DiskNameDir
	Kernel    string // "sda"
	SizeBytes int64
	Busy      string // how the host uses the disk, completing "it is …"; empty: no use is known
}

// nameForm matches names of disks that a guest can use. contentNamePattern matches names that udev derives from a
// disk's content, which a guest cannot use.
var (
	usableNamePattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+@=-]{0,199}$`)
	contentNamePattern   = regexp.MustCompile(`^(dm|md|lvm)-`)
	virtualDevicePattern = regexp.MustCompile(`^(ram|zram|dm-|md|sr|fd)`)
)

// ListDisks lists the disks of the machine, each once, sorted by name. root is the root of the machine's file tree.
func ListDisks(root string) (out []Device) {
	entries, err := os.ReadDir(filepath.Join(root, DiskNameDir))
	if err != nil {
		return nil
	}
	m := hostTree{root: root}
	for _, e := range entries {
		d, ok := m.diskNamed(e.Name())
		if ok && !slices.ContainsFunc(out, func(o Device) bool { return o.Kernel == d.Kernel }) {
			out = append(out, d)
		}
	}
	return out
}

// FindDisk returns the disk of that name below root; false: the disk does not exist.
func FindDisk(root, name string) (Device, bool) { return (&hostTree{root: root}).diskNamed(name) }

// IsUsedByKernel reports whether the kernel uses the block device at path: for a file system on the device or on a
// partition, a RAID or a volume group.
func IsUsedByKernel(path string) (bool, error) {
	// O_EXCL on a block device fails while the kernel uses the device
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_EXCL, 0)
	if errors.Is(err, syscall.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0) {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("the file is not a block device")}
	}
	return false, err
}

type hostTree struct {
	root        string
	mountLines  []string
	swapDevices []string
}

func (m *hostTree) readLine(rel ...string) string {
	data, err := os.ReadFile(filepath.Join(append([]string{m.root}, rel...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (m *hostTree) diskNamed(name string) (Device, bool) {
	if !usableNamePattern.MatchString(name) || contentNamePattern.MatchString(name) {
		return Device{}, false
	}
	to, err := os.Readlink(filepath.Join(m.root, DiskNameDir, name))
	d := Device{Name: name, Kernel: filepath.Base(to)}
	if err != nil || virtualDevicePattern.MatchString(d.Kernel) || m.readLine("sys/class/block", d.Kernel, "partition") != "" {
		return d, false
	}
	sectors, _ := strconv.ParseInt(m.readLine("sys/class/block", d.Kernel, "size"), 10, 64)
	if d.SizeBytes = sectors * 512; d.SizeBytes <= 0 {
		return d, false
	}
	d.Busy = m.usage(d.Kernel)
	return d, true
}

// usage returns how the host uses the disk or one of its partitions, in the form of Device.Busy.
func (m *hostTree) usage(kernel string) string {
	if m.readLine("sys/class/block", kernel, "ro") == "1" {
		return "read-only"
	}
	if m.mountLines == nil {
		m.mountLines = strings.Split(m.readLine("proc/self/mountinfo"), "\n")
		m.swapDevices = strings.Split(m.readLine("proc/swaps"), "\n")
	}
	all := []string{kernel}
	entries, _ := os.ReadDir(filepath.Join(m.root, "sys/class/block", kernel))
	for _, e := range entries {
		if m.readLine("sys/class/block", kernel, e.Name(), "partition") != "" {
			all = append(all, e.Name())
		}
	}
	for i, name := range all {
		dir := []string{"sys/class/block", kernel}
		if i > 0 {
			dir = append(dir, name)
		}
		if at := m.mountPoint(name, m.readLine(append(dir, "dev")...)); at != "" {
			return "mounted at " + at
		}
		for _, line := range m.swapDevices {
			if on, _, _ := strings.Cut(line, " "); strings.TrimSuffix(on, "\t") == "/dev/"+name {
				return "swapped to"
			}
		}
		if holders, _ := os.ReadDir(filepath.Join(append(append([]string{m.root}, dir...), "holders")...)); len(holders) > 0 {
			return "a part of " + holders[0].Name() + " (RAID, LVM, multipath or encryption)"
		}
	}
	return ""
}

// mountPoint returns the mount point of a file system on the device. It compares the device number, and the name for
// file systems with device numbers of their own.
func (m *hostTree) mountPoint(name, number string) string {
	for _, line := range m.mountLines {
		first, second, _ := strings.Cut(line, " - ")
		before, after := strings.Fields(first), strings.Fields(second)
		if len(before) > 4 && len(after) > 1 && (before[2] == number && number != "" || after[1] == "/dev/"+name) {
			return before[4]
		}
	}
	return ""
}
