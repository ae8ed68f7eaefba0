package libvirt

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"quantix/agent"
	"quantix/internal/fleet"
)

// volumeID is a volume's file, and when that was written last.
type volumeID struct {
	fileID
	modified time.Time
	bytes    int64
	changed  int64 // when anything of it was changed last, its owner and its times among that, in nanoseconds
}

// stamp tells the file as it is now from what it was: its place on the storage, its length, when it was written last, and when anything of it was
// changed last, which nobody sets back. The device's number is not in it: that of a network or a mapped device is another after each boot.
func (v volumeID) stamp() string {
	return fmt.Sprintf("%d %d %d %d", v.ino, v.bytes, v.modified.UnixNano(), v.changed)
}

// like compares the file with the stamp that it had. touched: it looks the same, but something of it was changed since; a stamp of an older agent does
// not tell that.
func (v volumeID) like(stamp string) (same, touched bool) {
	core, changed, told := stamp, "", false
	if fields := strings.Fields(stamp); len(fields) == 4 {
		core, changed, told = strings.Join(fields[:3], " "), fields[3], true
	}
	return core == fmt.Sprintf("%d %d %d", v.ino, v.bytes, v.modified.UnixNano()), told && changed != strconv.FormatInt(v.changed, 10)
}

func identifyVolume(path string) volumeID {
	info, err := os.Stat(path)
	if err != nil {
		return volumeID{}
	}
	return volumeID{identityOf(info), info.ModTime(), info.Size(), changedAt(info)}
}

// tellHashed notes on the volume what is known of its checksum. libvirt itself changes the owner of what VMs use; of a file that no VM uses and that
// somebody touched, nobody can tell whether its bytes and then its times were changed: it is as one that nobody has read.
func tellHashed(v *fleet.Volume, h agent.Hashed, id volumeID) {
	same, touched := id.like(h.Stamp)
	if !same || !touched || len(v.UsedBy) > 0 || len(v.InDrive) > 0 {
		h.Report(v, same)
	}
}
