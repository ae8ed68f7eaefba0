package policy

import (
	"cmp"
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

// PoolGroup is all hosts that say the same of a pool, as far as its health goes.
type PoolGroup struct {
	PoolKey
	Hosts int
	Room  fleet.Room // of all of them together
}

// PoolKey is what a host says of a pool, as far as its health goes.
type PoolKey struct {
	State       fleet.PoolState // as of fleet.PoolHost.StateAt
	UsedPercent int             // as of fleet.Room
	Starved     bool            // a VM is paused there for want of the storage
	ByOthers    bool            // somebody stopped it there
	Faulty      bool            // it is active, and something is wrong
}

// PoolKeyOf is the key of the group that a cell belongs to.
func PoolKeyOf(cell fleet.PoolHost, now time.Time) PoolKey {
	k := PoolKey{State: cell.StateAt(now), Starved: cell.Starved > 0}
	if s := cell.Status; s != nil {
		k.UsedPercent, k.ByOthers, k.Faulty = s.Room().UsedPercent(), s.ByOthers, s.Error != ""
	}
	return k
}

// PoolHostStatus judges a pool on one host: how it is drawn, and what is to be known of it beside its state.
func PoolHostStatus(cell fleet.PoolHost, now time.Time) (fleet.Severity, string) {
	var words string
	if cell.Status != nil {
		words = cell.Status.Error
	}
	return PoolKeyOf(cell, now).judge(cell.Starved, words)
}

// Severity is how cells of the group are drawn.
func (k PoolKey) Severity() fleet.Severity {
	tone, _ := k.judge(1, "")
	return tone
}

// Cause returns the fault of the group's pool on a host, with the host's error but without what differs between hosts.
func (k PoolKey) Cause(words string) string {
	switch {
	case k.State == fleet.PoolInactive && k.ByOthers:
		return "Stopped on the host by somebody else"
	case k.State != fleet.PoolActive && words == "":
		return k.State.Word()
	case k.State != fleet.PoolActive:
		return k.State.Word() + ": " + words
	case k.Starved:
		return "VMs are paused, because their storage is full or fails"
	case k.UsedPercent >= faultUsed:
		return "Full"
	case k.Faulty:
		return "Degraded: " + words
	}
	return "Nearly full"
}

// Notable reports whether a cell of the group wants a person: it cannot be used, or there is something to be known of it.
func (k PoolKey) Notable() bool {
	tone, notice := k.judge(1, "")
	return tone == fleet.SeverityBad || notice != ""
}

// Degraded reports whether the pool is active there, and something is wrong.
func (k PoolKey) Degraded() bool { return k.State == fleet.PoolActive && k.Faulty }

// judge says how a cell is drawn and what is to be known of it: how many VMs starve there, what is wrong in its host's words.
func (k PoolKey) judge(starved int, words string) (fleet.Severity, string) {
	switch {
	case k.State == fleet.PoolInactive && k.ByOthers:
		return k.State.Severity(), "Stopped on the host by somebody else"
	case k.State != fleet.PoolActive:
		return k.State.Severity(), ""
	case k.Starved && starved == 1:
		return fleet.SeverityBad, fmt.Sprintf("A VM is paused there, because its storage is full or fails; %d %% used", k.UsedPercent)
	case k.Starved:
		return fleet.SeverityBad, fmt.Sprintf("%d VMs are paused there, because their storage is full or fails; %d %% used", starved, k.UsedPercent)
	case k.UsedPercent >= faultUsed:
		return fleet.SeverityBad, fmt.Sprintf("Full: %d %% used", k.UsedPercent)
	case k.Faulty:
		return fleet.SeverityWarn, "Degraded: " + cmp.Or(words, "its host says why")
	case k.UsedPercent >= warnUsed:
		return fleet.SeverityWarn, fmt.Sprintf("Nearly full: %d %% used", k.UsedPercent)
	}
	return fleet.SeverityOK, ""
}

// PoolHealth judges a pool by what its hosts say. What a host that is not heard said last counts as unknown. A shared pool's capacity
// counts once: as the first healthy host by name says it. A local one's adds up over the healthy hosts.
func PoolHealth(spec fleet.PoolSpec, groups []PoolGroup, first fleet.Room) fleet.PoolHealth {
	var h fleet.PoolHealth
	var room fleet.Room
	for _, g := range groups {
		h.Hosts += g.Hosts
		tone := g.Severity()
		h.SeverityCounts.Add(tone, g.Hosts)
		switch g.State {
		case fleet.PoolActive:
			if room = room.Plus(g.Room); spec.Shared {
				room = first
			}
			switch {
			case tone == fleet.SeverityBad:
				h.Full += g.Hosts
			case g.Degraded():
				h.Degraded += g.Hosts
				continue
			case tone == fleet.SeverityWarn:
				h.NearlyFull += g.Hosts
			}
			h.Healthy += g.Hosts
		case fleet.PoolUnknown:
			h.Unknown += g.Hosts
		case fleet.PoolFailed, fleet.PoolStalled, fleet.PoolInactive:
			h.Failed += g.Hosts
		}
	}
	h.CapacityBytes, h.UsedBytes, h.AvailableBytes, h.ProvisionedBytes = room.CapacityBytes, room.UsedBytes, room.AvailableBytes, room.ProvisionedBytes
	h.Severity, h.Summary = poolTone(h), poolSummary(spec, h)
	return h
}

func poolSummary(spec fleet.PoolSpec, h fleet.PoolHealth) string {
	if h.Hosts == 0 {
		return "On no host"
	}
	text := fmt.Sprintf("%d of %d hosts healthy", h.Healthy, h.Hosts)
	how, n := "full", h.Full
	if n == 0 {
		how, n = "degraded", h.Degraded
	}
	if n == 0 {
		how, n = "nearly full", h.NearlyFull
	}
	switch {
	case n == 0:
		return text
	case h.Hosts == 1 || spec.Shared && how != "degraded": // what is full is so for all that share it
		return text + ", " + how
	}
	return fmt.Sprintf("%s, %s on %d", text, how, n)
}

func poolTone(h fleet.PoolHealth) fleet.Severity {
	switch {
	case h.Hosts == 0:
		return fleet.SeverityIdle
	case h.Full > 0 && h.Full == h.Healthy:
		return fleet.SeverityBad
	case h.Healthy == h.Hosts && h.Full+h.NearlyFull == 0:
		return fleet.SeverityOK
	case h.Healthy == 0 && h.Failed > 0:
		return fleet.SeverityBad
	case h.Unknown == h.Hosts:
		return fleet.SeverityUnknown
	}
	return fleet.SeverityWarn
}
