package pool

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// hostsNamed is the largest number of hosts named in a list that means all hosts.
const hostsNamed = 12

func byName(cells []fleet.PoolHost) []fleet.PoolHost {
	return slices.SortedFunc(slices.Values(cells), func(x, y fleet.PoolHost) int { return strings.Compare(x.HostName, y.HostName) })
}

// StatusOf is the pool's status on one host.
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

// Source is the location of the pool's data; empty for actors who may not see it.
func Source(s fleet.PoolSpec) string {
	if field, place := s.Place(); field != "" && place == "" {
		return ""
	}
	return s.Source()
}

// stoppedByOthers reports whether the pool was stopped on the host outside of Quantix, according to a current report.
func stoppedByOthers(cell fleet.PoolHost) bool {
	return cell.State == fleet.PoolInactive && cell.Status != nil && cell.Status.ByOthers
}

func free(cell fleet.PoolHost) string {
	if cell.Status == nil || cell.Status.CapacityBytes == 0 {
		return "–"
	}
	return kit.Bytes(cell.Status.AvailableBytes)
}

// took describes the latency of a small write and read: "write 1.2 ms, read 0.3 ms"; empty: not measured, or the host
// is offline.
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

// lastKnown is the last reported state of a pool on an offline host.
func lastKnown(cell fleet.PoolHost) string {
	switch {
	case cell.State != fleet.PoolUnknown:
		return ""
	case cell.Status == nil:
		return "The host is offline and has never reported."
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
