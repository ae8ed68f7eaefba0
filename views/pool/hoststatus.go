package pool

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// maxHostsNamed is the maximum number of hosts that a text names. The text gives the number of the others.
const maxHostsNamed = 12

func sortedByName(statuses []fleet.PoolHost) []fleet.PoolHost {
	return slices.SortedFunc(slices.Values(statuses), func(x, y fleet.PoolHost) int { return strings.Compare(x.HostName, y.HostName) })
}

// StatusOnHost is the pool's status on one host.
func StatusOnHost(v fleet.PoolView, host fleet.HostID) fleet.PoolHost {
	for _, h := range v.Hosts {
		if h.HostID == host {
			return h
		}
	}
	return fleet.PoolHost{PoolID: v.ID, HostID: host, State: fleet.PoolPending, Assigned: true}
}

func poolKindName(s fleet.PoolSpec) string {
	return cmp.Or(s.Kind.Info().Word, string(s.Kind))
}

// SourceText is the location of the pool's data; empty for actors who may not see the location.
func SourceText(s fleet.PoolSpec) string {
	if field, place := s.Location(); field != "" && place == "" {
		return ""
	}
	return s.Source()
}

// stoppedOutsideQuantix reports whether the pool was stopped on the host outside of Quantix. It is false if the host's report
// is not current.
func stoppedOutsideQuantix(status fleet.PoolHost) bool {
	return status.State == fleet.PoolInactive && status.Status != nil && status.Status.StoppedOutside
}

func freeSpaceText(status fleet.PoolHost) string {
	if status.Status == nil || status.Status.CapacityBytes == 0 {
		return "–"
	}
	return kit.Bytes(status.Status.AvailableBytes)
}

// latencyText describes how long a small write and a small read take: "write 1.2 ms, read 0.3 ms". It is empty if they
// were not measured or the host is offline.
func latencyText(status fleet.PoolHost) string {
	if status.Status == nil || status.Status.WriteMicros == 0 || status.State == fleet.PoolUnknown {
		return ""
	}
	return "write " + millisecondsText(status.Status.WriteMicros) + " ms, read " + millisecondsText(status.Status.ReadMicros) + " ms"
}

func millisecondsText(us int64) string {
	if us >= 10_000 {
		return strconv.FormatInt(us/1000, 10)
	}
	return strconv.FormatFloat(float64(us)/1000, 'f', 1, 64)
}

// lastReportedStateText is the last reported state of a pool on an offline host.
func lastReportedStateText(status fleet.PoolHost) string {
	switch {
	case status.State != fleet.PoolUnknown:
		return ""
	case status.Status == nil:
		return "The host is offline and never reported anything."
	case status.Status.CapacityBytes > 0:
		return "Last known: " + strings.ToLower(status.Status.State.DisplayName()) + ", " + kit.Bytes(status.Status.UsedBytes) + " of " + kit.Bytes(status.Status.CapacityBytes) + " used."
	}
	return "Last known: " + strings.ToLower(status.Status.State.DisplayName()) + "."
}

func mountPath(v fleet.PoolView, status fleet.PoolHost) string {
	if status.Status != nil && status.Status.MountPath != "" {
		return status.Status.MountPath
	}
	if !v.Spec.Kind.Info().FilePool {
		return kit.TextOrDash(SourceText(v.Spec))
	}
	return kit.TextOrDash(v.Spec.Path)
}
