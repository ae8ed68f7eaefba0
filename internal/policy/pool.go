package policy

import (
	"cmp"
	"fmt"
	"time"

	"quantix/internal/fleet"
)

// Used capacity in percent: a warning from warnUsedPercent, a fault from faultUsedPercent. A guest is paused when its
// write finds no space.
const (
	warnUsedPercent  = 90
	faultUsedPercent = 97
)

// PoolHealthGroup counts the hosts that report the same health of a pool.
type PoolHealthGroup struct {
	PoolHealthKey
	Hosts int
	Space fleet.PoolSpace // sum over the group's hosts
}

// PoolHealthKey is a host's report of a pool, reduced to what determines health.
type PoolHealthKey struct {
	State          fleet.PoolState // as returned by fleet.PoolHost.StateAt
	UsedPercent    int             // as returned by fleet.PoolSpace.UsedPercent
	VMsPaused      bool            // a VM there is paused for lack of storage
	StoppedOutside bool            // the pool was stopped on the host outside Quantix
	Faulty         bool            // active with an error
}

// NewPoolHealthKey returns the group key of a host status.
func NewPoolHealthKey(status fleet.PoolHost, now time.Time) PoolHealthKey {
	k := PoolHealthKey{State: status.StateAt(now), VMsPaused: status.PausedVMs > 0}
	if s := status.Status; s != nil {
		k.UsedPercent, k.StoppedOutside, k.Faulty = s.Space().UsedPercent(), s.StoppedOutside, s.Error != ""
	}
	return k
}

// PoolHostStatus returns the severity and a notice of a pool on one host.
func PoolHostStatus(status fleet.PoolHost, now time.Time) (fleet.Severity, string) {
	var errText string
	if status.Status != nil {
		errText = status.Status.Error
	}
	return NewPoolHealthKey(status, now).severityAndNotice(status.PausedVMs, errText)
}

// Severity is the severity of the group's host statuses.
func (k PoolHealthKey) Severity() fleet.Severity {
	severity, _ := k.severityAndNotice(1, "")
	return severity
}

// CauseText describes the group's fault with the host's error text, without details that differ between hosts.
func (k PoolHealthKey) CauseText(errText string) string {
	switch {
	case k.State == fleet.PoolInactive && k.StoppedOutside:
		return "Stopped on the host outside Quantix"
	case k.State != fleet.PoolActive && errText == "":
		return k.State.DisplayName()
	case k.State != fleet.PoolActive:
		return k.State.DisplayName() + ": " + errText
	case k.VMsPaused:
		return "VMs are paused, because their storage is full or fails"
	case k.UsedPercent >= faultUsedPercent:
		return "Full"
	case k.Faulty:
		return "Degraded: " + errText
	}
	return "Nearly full"
}

// NeedsAttention reports whether the group needs attention: it is unusable or has a notice.
func (k PoolHealthKey) NeedsAttention() bool {
	severity, notice := k.severityAndNotice(1, "")
	return severity == fleet.SeverityBad || notice != ""
}

// Degraded reports whether the pool is active with an error.
func (k PoolHealthKey) Degraded() bool { return k.State == fleet.PoolActive && k.Faulty }

// severityAndNotice returns the severity and a notice. starved is the number of paused VMs, errText the host's error
// text.
func (k PoolHealthKey) severityAndNotice(starved int, errText string) (fleet.Severity, string) {
	switch {
	case k.State == fleet.PoolInactive && k.StoppedOutside:
		return k.State.Severity(), "Stopped on the host outside Quantix"
	case k.State != fleet.PoolActive:
		return k.State.Severity(), ""
	case k.VMsPaused && starved == 1:
		return fleet.SeverityBad, fmt.Sprintf("A VM is paused there, because its storage is full or fails; %d %% used", k.UsedPercent)
	case k.VMsPaused:
		return fleet.SeverityBad, fmt.Sprintf("%d VMs are paused there, because their storage is full or fails; %d %% used", starved, k.UsedPercent)
	case k.UsedPercent >= faultUsedPercent:
		return fleet.SeverityBad, fmt.Sprintf("Full: %d %% used", k.UsedPercent)
	case k.Faulty:
		return fleet.SeverityWarn, "Degraded: " + cmp.Or(errText, "see the host's report")
	case k.UsedPercent >= warnUsedPercent:
		return fleet.SeverityWarn, fmt.Sprintf("Nearly full: %d %% used", k.UsedPercent)
	}
	return fleet.SeverityOK, ""
}

// PoolHealth summarizes a pool's health from its hosts' reports. Offline hosts count as unknown. A shared pool's
// capacity counts once, from the first healthy host by name; a local pool's capacity is the sum over healthy hosts.
func PoolHealth(spec fleet.PoolSpec, groups []PoolHealthGroup, first fleet.PoolSpace) fleet.PoolHealth {
	var h fleet.PoolHealth
	var room fleet.PoolSpace
	for _, g := range groups {
		h.Hosts += g.Hosts
		severity := g.Severity()
		h.SeverityCounts.Add(severity, g.Hosts)
		switch g.State {
		case fleet.PoolActive:
			if room = room.Plus(g.Space); spec.Shared {
				room = first
			}
			switch {
			case severity == fleet.SeverityBad:
				h.Full += g.Hosts
			case g.Degraded():
				h.Degraded += g.Hosts
				continue
			case severity == fleet.SeverityWarn:
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
	h.Severity, h.Summary = poolSeverity(h), poolSummary(spec, h)
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
	case h.Hosts == 1 || spec.Shared && how != "degraded": // a full shared pool is full for all hosts
		return text + ", " + how
	}
	return fmt.Sprintf("%s, %s on %d", text, how, n)
}

func poolSeverity(h fleet.PoolHealth) fleet.Severity {
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
