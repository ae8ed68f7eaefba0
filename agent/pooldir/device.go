package pooldir

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"quantix/internal/fleet"
)

// CheckDevice refuses a block device that the agent's settings do not allow for pools, or that is mounted anywhere but
// at dir. Without this check a compromised portal could mount the host's own file systems as pools.
func (r PoolRoots) CheckDevice(device, dir string) error {
	if err := r.CheckDeviceAllowed(device); err != nil {
		return err
	}
	info, err := os.Stat(device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fleet.Errorf(fleet.Conflict, "The host has no device %s.", device)
	case err != nil:
		return err
	case info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0:
		return fleet.Errorf(fleet.Conflict, "%s is not a block device.", device)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	real, err := resolvePath(dir)
	if err != nil {
		return err
	}
	if at, ok := otherMountPoint(string(mounts), info, real); ok {
		return fleet.Errorf(fleet.Conflict, "%s is mounted at %s already. Unmount the device there, or define a directory pool at that path.", device, at)
	}
	return nil
}

// CheckDeviceAllowed refuses a device, or a volume group's directory, that the agent's settings do not allow for pools.
func (r PoolRoots) CheckDeviceAllowed(device string) error {
	if !matchesAnyPattern(r.Devices, device) {
		return fleet.Errorf(fleet.Forbidden, "The host refuses the device %s: its agent allows %s for pools. Add the device to poolDevices in the agent's settings.",
			device, listDevicePatterns(r.Devices))
	}
	return nil
}

func matchesAnyPattern(patterns []string, device string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, device); ok && err == nil {
			return true
		}
	}
	return false
}

func listDevicePatterns(patterns []string) string {
	if len(patterns) == 0 {
		return "no device"
	}
	return strings.Join(patterns, ", ") + " only"
}

// otherMountPoint returns a mount point of the device other than dir; ok: there is one. It compares the mount's source,
// too, because each btrfs mount has a device number of its own.
func otherMountPoint(table string, device fs.FileInfo, dir string) (at string, ok bool) {
	for m := range parseMountTable(table) {
		if m.Point != dir && (m.device == deviceNumber(device) || isSameDevice(m.Source, device)) {
			return m.Point, true
		}
	}
	return "", false
}

func isSameDevice(source string, device fs.FileInfo) bool {
	if !filepath.IsAbs(source) || !strings.HasPrefix(source, "/dev/") {
		return false
	}
	info, err := os.Stat(source)
	return err == nil && info.Mode()&fs.ModeDevice != 0 && deviceNumber(info) == deviceNumber(device)
}
