package hardware

import (
	"cmp"
	"slices"
	"strings"

	"github.com/jaypipes/ghw"

	"quantix/internal/fleet"
)

// disks lists block devices with data. Loop, RAM, optical and device-mapper devices, and drives without a medium, are
// left out.
func (t hostTree) disks() (out []fleet.HostDisk) {
	info, err := ghw.Block(ghw.WithChroot(string(t)), ghw.WithDisableWarnings(), ghw.WithDisableTools())
	if err != nil {
		return nil
	}
	for _, d := range info.Disks {
		if d.SizeBytes == 0 || isIgnoredDisk(d.Name) {
			continue
		}
		out = append(out, fleet.HostDisk{
			Name: d.Name, Kind: diskKind(d),
			Model:     cmp.Or(emptyIfUnknown(d.Model), t.readLine("sys/block", d.Name, "device/model")), // ghw asks udev, which may be absent
			Serial:    cmp.Or(emptyIfUnknown(d.SerialNumber), t.readLine("sys/block", d.Name, "device/serial")),
			SizeBytes: int64(d.SizeBytes), Removable: d.IsRemovable,
		})
	}
	slices.SortFunc(out, func(a, b fleet.HostDisk) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func isIgnoredDisk(name string) bool {
	for _, p := range []string{"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "drbd", "rbd"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func diskKind(d *ghw.Disk) string {
	switch {
	case d.StorageController == ghw.StorageControllerNVMe || strings.HasPrefix(d.Name, "nvme"):
		return "nvme"
	case d.StorageController == ghw.StorageControllerVirtIO || strings.HasPrefix(d.Name, "vd") || strings.HasPrefix(d.Name, "xvd"):
		return "virtual"
	case d.DriveType == ghw.DriveTypeSSD:
		return "ssd"
	case d.DriveType == ghw.DriveTypeHDD:
		return "hdd"
	}
	return "unknown"
}

// emptyIfUnknown returns "" for ghw's placeholder of unknown values.
func emptyIfUnknown(s string) string {
	if s == "unknown" {
		return ""
	}
	return strings.TrimSpace(s)
}
