package policy

import (
	"fmt"
	"time"

	"quantix/internal/fleet"
)

// PoolHealth judges a pool by its hosts' reports. A report of a host that is not heard counts as unknown. A shared pool's
// capacity counts once (from the first healthy host), a local one's adds up over the healthy hosts.
func PoolHealth(spec fleet.PoolSpec, hosts []fleet.PoolHost, now time.Time) fleet.PoolHealth {
	h := fleet.PoolHealth{Hosts: len(hosts)}
	for _, cell := range hosts {
		switch cell.StateAt(now) {
		case fleet.PoolActive:
			h.Healthy++
			if !spec.Shared || h.Healthy == 1 {
				h.CapacityBytes += cell.Status.CapacityBytes
				h.UsedBytes += cell.Status.UsedBytes
				h.AvailableBytes += cell.Status.AvailableBytes
			}
		case fleet.PoolUnknown:
			h.Unknown++
		case fleet.PoolFailed, fleet.PoolStalled, fleet.PoolInactive:
			h.Failed++
		}
	}
	h.Tone, h.Summary = poolTone(h), fmt.Sprintf("%d of %d hosts healthy", h.Healthy, h.Hosts)
	if h.Hosts == 0 {
		h.Summary = "On no host"
	}
	return h
}

func poolTone(h fleet.PoolHealth) fleet.Tone {
	switch {
	case h.Hosts == 0:
		return fleet.ToneIdle
	case h.Healthy == h.Hosts:
		return fleet.ToneOK
	case h.Healthy == 0 && h.Failed > 0:
		return fleet.ToneBad
	case h.Unknown == h.Hosts:
		return fleet.ToneUnknown
	}
	return fleet.ToneWarn
}
