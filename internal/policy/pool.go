package policy

import (
	"fmt"
	"time"

	"quantix/internal/fleet"
)

// Of a pool's capacity in percent: from warnUsed on it is said, from faultUsed on it is a fault. A guest whose write finds no
// room is paused, and all that share the pool with it.
const (
	warnUsed  = 90
	faultUsed = 97
)

// PoolCell judges a pool on one host: how it is drawn, and what is to be known of it beside its state.
func PoolCell(cell fleet.PoolHost, now time.Time) (fleet.Tone, string) {
	state := cell.StateAt(now)
	if state != fleet.PoolActive {
		if state == fleet.PoolInactive && cell.Status.ByOthers {
			return state.Tone(), "Stopped on the host by somebody else"
		}
		return state.Tone(), ""
	}
	used := usedPercent(*cell.Status)
	switch {
	case cell.Starved == 1:
		return fleet.ToneBad, fmt.Sprintf("A VM is paused there, because its storage is full or fails; %d %% used", used)
	case cell.Starved > 1:
		return fleet.ToneBad, fmt.Sprintf("%d VMs are paused there, because their storage is full or fails; %d %% used", cell.Starved, used)
	case used >= faultUsed:
		return fleet.ToneBad, fmt.Sprintf("Full: %d %% used", used)
	case used >= warnUsed:
		return fleet.ToneWarn, fmt.Sprintf("Nearly full: %d %% used", used)
	}
	return fleet.ToneOK, ""
}

// usedPercent is rounded down, so that a pool is full no sooner than it is.
func usedPercent(s fleet.PoolStatus) int64 {
	if s.CapacityBytes <= 0 {
		return 0
	}
	return int64(float64(s.UsedBytes) / float64(s.CapacityBytes) * 100)
}

// PoolHealth judges a pool by its hosts' reports. A report of a host that is not heard counts as unknown. A shared pool's
// capacity counts once (from the first healthy host), a local one's adds up over the healthy hosts.
func PoolHealth(spec fleet.PoolSpec, hosts []fleet.PoolHost, now time.Time) fleet.PoolHealth {
	h := fleet.PoolHealth{Hosts: len(hosts)}
	for _, cell := range hosts {
		switch cell.StateAt(now) {
		case fleet.PoolActive:
			h.Healthy++
			switch tone, _ := PoolCell(cell, now); tone {
			case fleet.ToneBad:
				h.Full++
			case fleet.ToneWarn:
				h.NearlyFull++
			}
			if !spec.Shared || h.Healthy == 1 {
				h.CapacityBytes += cell.Status.CapacityBytes
				h.UsedBytes += cell.Status.UsedBytes
				h.AvailableBytes += cell.Status.AvailableBytes
				h.PromisedBytes += cell.Status.PromisedBytes
			}
		case fleet.PoolUnknown:
			h.Unknown++
		case fleet.PoolFailed, fleet.PoolStalled, fleet.PoolInactive:
			h.Failed++
		}
	}
	h.Tone, h.Summary = poolTone(h), poolSummary(spec, h)
	return h
}

func poolSummary(spec fleet.PoolSpec, h fleet.PoolHealth) string {
	if h.Hosts == 0 {
		return "On no host"
	}
	text := fmt.Sprintf("%d of %d hosts healthy", h.Healthy, h.Hosts)
	how, n := "full", h.Full
	if n == 0 {
		how, n = "nearly full", h.NearlyFull
	}
	switch {
	case n == 0:
		return text
	case spec.Shared || h.Hosts == 1:
		return text + ", " + how
	}
	return fmt.Sprintf("%s, %s on %d", text, how, n)
}

func poolTone(h fleet.PoolHealth) fleet.Tone {
	switch {
	case h.Hosts == 0:
		return fleet.ToneIdle
	case h.Full > 0 && h.Full == h.Healthy:
		return fleet.ToneBad
	case h.Healthy == h.Hosts && h.Full+h.NearlyFull == 0:
		return fleet.ToneOK
	case h.Healthy == 0 && h.Failed > 0:
		return fleet.ToneBad
	case h.Unknown == h.Hosts:
		return fleet.ToneUnknown
	}
	return fleet.ToneWarn
}
