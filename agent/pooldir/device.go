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

// CheckDevice refuses a block device that the agent's settings do not allow for pools, and one that is mounted anywhere
// but at dir: otherwise a compromised portal could have the host's own file systems mounted as pools.
func (r Roots) CheckDevice(device, dir string) error {
	if err := r.AllowDevice(device); err != nil {
		return err
	}
	info, err := os.Stat(device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fleet.Errorf(fleet.Conflict, "The host has no device %s.", device)
	case err != nil:
		return err
	case info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0:
		return fleet.Errorf(fleet.Conflict, "%s is no block device.", device)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	real, err := realPath(dir)
	if err != nil {
		return err
	}
	if at, ok := mountedAt(string(mounts), info, real); ok {
		return fleet.Errorf(fleet.Conflict, "%s is mounted at %s already. Unmount it there, or make a directory pool of that.", device, at)
	}
	return nil
}

// AllowDevice refuses a device, or the directory of a volume group, that the agent's settings do not allow for pools.
func (r Roots) AllowDevice(device string) error {
	if !anyMatches(r.Devices, device) {
		return fleet.Errorf(fleet.Forbidden, "The host refuses the device %s: its agent allows %s for pools. Add the device to poolDevices in the agent's settings.",
			device, deviceWords(r.Devices))
	}
	return nil
}

func anyMatches(patterns []string, device string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, device); ok && err == nil {
			return true
		}
	}
	return false
}

func deviceWords(patterns []string) string {
	if len(patterns) == 0 {
		return "no device"
	}
	return strings.Join(patterns, ", ") + " only"
}

// mountedAt finds a mount of the device anywhere but at dir. It compares the device number and the mount's source,
// because btrfs has a number of its own for each mount.
func mountedAt(table string, device fs.FileInfo, dir string) (at string, ok bool) {
	for m := range mounts(table) {
		if m.Point != dir && (m.device == deviceNumber(device) || sameDevice(m.Source, device)) {
			return m.Point, true
		}
	}
	return "", false
}

func sameDevice(source string, device fs.FileInfo) bool {
	if !filepath.IsAbs(source) || !strings.HasPrefix(source, "/dev/") {
		return false
	}
	info, err := os.Stat(source)
	return err == nil && info.Mode()&fs.ModeDevice != 0 && deviceNumber(info) == deviceNumber(device)
}
