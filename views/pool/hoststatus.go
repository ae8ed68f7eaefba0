package pool

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// hostsNamed is up to how many hosts are named where all of them are meant.
const hostsNamed = 12

func byName(cells []fleet.PoolHost) []fleet.PoolHost {
	return slices.SortedFunc(slices.Values(cells), func(x, y fleet.PoolHost) int { return strings.Compare(x.HostName, y.HostName) })
}

// StatusOf is the pool's part on one host.
func StatusOf(v fleet.PoolView, host fleet.HostID) fleet.PoolHost {
	for _, h := range v.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.PoolHost{PoolID: v.ID, HostID: host, State: fleet.PoolPending, Assigned: true}
}

func kindWord(s fleet.PoolSpec) string {
	return cmp.Or(s.Kind.Is().Word, string(s.Kind))
}

// Source is where the bytes are; empty for those who may not know.
func Source(s fleet.PoolSpec) string {
	if field, place := s.Place(); field != "" && place == "" {
		return ""
	}
	return s.Source()
}

// stoppedByOthers reports whether somebody stopped the pool on the host, as it says now.
func stoppedByOthers(cell fleet.PoolHost) bool {
	return cell.State == fleet.PoolInactive && cell.Status != nil && cell.Status.ByOthers
}

func free(cell fleet.PoolHost) string {
	if cell.Status == nil || cell.Status.CapacityBytes == 0 {
		return "–"
	}
	return kit.Bytes(cell.Status.AvailableBytes)
}

// took is how long a small write and a read take there: "write 1.2 ms, read 0.3 ms"; empty: they were not tried, or the host is silent.
func took(cell fleet.PoolHost) string {
	if cell.Status == nil || cell.Status.WriteMicros == 0 || cell.State == fleet.PoolUnknown {
		return ""
	}
	return "write " + millis(cell.Status.WriteMicros) + " ms, read " + millis(cell.Status.ReadMicros) + " ms"
}

func millis(us int64) string {
	if us >= 10_000 {
		return strconv.FormatInt(us/1000, 10)
	}
	return strconv.FormatFloat(float64(us)/1000, 'f', 1, 64)
}

// lastKnown is what a silent host said last.
func lastKnown(cell fleet.PoolHost) string {
	switch {
	case cell.State != fleet.PoolUnknown:
		return ""
	case cell.Status == nil:
		return "The host is not heard and never said anything."
	case cell.Status.CapacityBytes > 0:
		return "Last known: " + strings.ToLower(cell.Status.State.Word()) + ", " + kit.Bytes(cell.Status.UsedBytes) + " of " + kit.Bytes(cell.Status.CapacityBytes) + " used."
	}
	return "Last known: " + strings.ToLower(cell.Status.State.Word()) + "."
}

func mountPath(v fleet.PoolView, cell fleet.PoolHost) string {
	if cell.Status != nil && cell.Status.MountPath != "" {
		return cell.Status.MountPath
	}
	if !v.Spec.Kind.Is().Files {
		return kit.Dash(Source(v.Spec))
	}
	return kit.Dash(v.Spec.Path)
}
