package host

import (
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

var diskKindNames = map[string]string{"nvme": "NVMe", "ssd": "SSD", "hdd": "Hard disk", "virtual": "Virtual", "unknown": "Unknown"}

// disksSortedByKind sorts disks by kind, the fastest kind first, then by name.
func disksSortedByKind(disks []fleet.HostDisk) []fleet.HostDisk {
	rank := []string{"nvme", "ssd", "hdd", "virtual"}
	out := slices.Clone(disks)
	slices.SortStableFunc(out, func(a, b fleet.HostDisk) int {
		i, j := slices.Index(rank, a.Kind), slices.Index(rank, b.Kind)
		if i != j {
			if i < 0 {
				return 1
			}
			if j < 0 {
				return -1
			}
			return i - j
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func gpuSharingText(g fleet.GPU) string {
	var ways []string
	if g.VFsTotal > 0 {
		ways = append(ways, strconv.Itoa(g.VFsTotal)+" SR-IOV functions")
	}
	if len(g.MdevTypes) > 0 {
		ways = append(ways, "vGPU: "+strings.Join(g.MdevTypes, ", "))
	}
	return strings.Join(ways, "; ")
}

func numberOrDash(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

func speedText(mbps int) string {
	switch {
	case mbps <= 0:
		return "–"
	case mbps%1000 == 0:
		return strconv.Itoa(mbps/1000) + " Gbit/s"
	case mbps > 1000:
		return strconv.FormatFloat(float64(mbps)/1000, 'f', 1, 64) + " Gbit/s"
	}
	return strconv.Itoa(mbps) + " Mbit/s"
}

func capitalizedOrDash(word string) string {
	if word == "" {
		return "–"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
