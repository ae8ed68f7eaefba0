package hostfile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Version identifies a volume's file and its last change.
type Version struct {
	ID
	Modified time.Time
	Bytes    int64
	Changed  int64 // the inode's change time in nanoseconds; a new owner or new times change it, too
}

// Stamp returns a text that identifies the file's content: inode, length, modification time and inode change time.
// Nobody can set back the inode change time. The device number is omitted, because the device number of network and
// mapped devices changes with each boot.
func (v Version) Stamp() string {
	return fmt.Sprintf("%d %d %d %d", v.Ino, v.Bytes, v.Modified.UnixNano(), v.Changed)
}

// compareWithStamp compares the file with an earlier stamp. same reports that inode, length and modification time are
// equal. touched reports that the inode change time differs. It is false for the stamp of an older agent, which has no
// inode change time.
func (v Version) compareWithStamp(stamp string) (same, touched bool) {
	core, changed, recorded := stamp, "", false
	if fields := strings.Fields(stamp); len(fields) == 4 {
		core, changed, recorded = strings.Join(fields[:3], " "), fields[3], true
	}
	return core == fmt.Sprintf("%d %d %d", v.Ino, v.Bytes, v.Modified.UnixNano()), recorded && changed != strconv.FormatInt(v.Changed, 10)
}

// VersionAt reads the file's identity. The identity is zero if the file cannot be read.
func VersionAt(path string) Version {
	info, err := os.Stat(path)
	if err != nil {
		return Version{}
	}
	return Version{IdentityOf(info), info.ModTime(), info.Size(), ChangedAt(info)}
}

// AddChecksum adds the recorded checksum to the volume if the file is unchanged. libvirt changes the owner of files
// that VMs use, which is harmless. If the inode of an unused file changed, somebody may have changed the content and
// then the times, so the checksum counts as unknown.
func AddChecksum(v *fleet.Volume, h hypervisor.VolumeChecksum, id Version) {
	same, touched := id.compareWithStamp(h.FileStamp)
	if !same || !touched || len(v.UsedBy) > 0 || len(v.InDrive) > 0 {
		h.AddTo(v, same)
	}
}
