//go:build linux

package libvirt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"quantix/internal/fleet"
)

// physicalDisk returns a loop device under a by-id name, as udev names disks. use mounts the device's file system until
// release is called.
func physicalDisk(t *testing.T) (device string, use func() (release func())) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 16<<20), os.MkdirAll("/dev/disk/by-id", 0o755)); err != nil {
		t.Fatal(err)
	}
	runOutput(t, "mkfs.ext4", "-q", file)
	loop := runOutput(t, "losetup", "-f", "--show", file)
	t.Cleanup(func() { runOutput(t, "losetup", "-d", loop) })
	name := "quantix-" + string(fleet.NewID[fleet.VMID]())
	if err := os.Symlink(loop, "/dev/disk/by-id/"+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove("/dev/disk/by-id/" + name); err != nil {
			t.Error(err)
		}
		_, _ = os.Remove("/dev/disk/by-id"), os.Remove("/dev/disk") // removed only if empty
	})
	return fleet.PhysicalDevice + name, func() func() {
		dir := t.TempDir()
		runOutput(t, "mount", loop, dir)
		return func() { runOutput(t, "umount", dir) }
	}
}
