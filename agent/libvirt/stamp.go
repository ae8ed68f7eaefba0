package libvirt

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// volumeID identifies a volume's file and its last change.
type volumeID struct {
	fileID
	modified time.Time
	bytes    int64
	changed  int64 // the inode's change time in nanoseconds; also changed by a new owner or new times
}

// stamp identifies the file's content: inode, length, modification time, and inode change time, which nobody can set
// back. The device number is left out: that of network and mapped devices changes with each boot.
func (v volumeID) stamp() string {
	return fmt.Sprintf("%d %d %d %d", v.ino, v.bytes, v.modified.UnixNano(), v.changed)
}

// like compares the file with an earlier stamp. touched means that the file looks the same but its inode was changed
// since. A stamp of an older agent lacks that.
func (v volumeID) like(stamp string) (same, touched bool) {
	core, changed, recorded := stamp, "", false
	if fields := strings.Fields(stamp); len(fields) == 4 {
		core, changed, recorded = strings.Join(fields[:3], " "), fields[3], true
	}
	return core == fmt.Sprintf("%d %d %d", v.ino, v.bytes, v.modified.UnixNano()), recorded && changed != strconv.FormatInt(v.changed, 10)
}

// identifyVolume reads the file's identity; it is zero if the file cannot be read.
func identifyVolume(path string) volumeID {
	info, err := os.Stat(path)
	if err != nil {
		return volumeID{}
	}
	return volumeID{identityOf(info), info.ModTime(), info.Size(), changedAt(info)}
}

// addChecksum adds the known checksum to the volume. libvirt changes the owner of files that VMs use, which is
// harmless. If an unused file's inode was changed, somebody may have changed its content and then its times, so its
// checksum counts as unknown.
func addChecksum(v *fleet.Volume, h hypervisor.Hashed, id volumeID) {
	same, touched := id.like(h.Stamp)
	if !same || !touched || len(v.UsedBy) > 0 || len(v.InDrive) > 0 {
		h.Report(v, same)
	}
}
