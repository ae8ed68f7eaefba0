package healthcheck

import (
	"context"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// PoolState is the newest known state of a storage pool on the host.
type PoolState struct {
	Name   string
	Status fleet.PoolStatus
	// Provided says that the storage system provides the volumes, such as the LUNs of an iSCSI target: such a pool is full
	// by its nature.
	Provided bool
}

// Shares of a pool's capacity in use, in percent.
const (
	poolNearlyFull = 90
	poolFull       = 97
)

// Pools returns the check of the host's pools. It judges what the agent already knows; false: it has not read the pools.
func Pools(newest func() ([]PoolState, bool)) Check {
	return Check{Name: "pool", Interval: 30 * time.Second, Timeout: 5 * time.Second, Run: func(context.Context) ([]healthevent.Finding, error) {
		all, read := newest()
		switch {
		case !read:
			return nil, NotYet("The agent has not read the pools since its start.")
		case len(all) == 0:
			return nil, Unavailable("No storage pool of Quantix is assigned to the host.")
		}
		var out []healthevent.Finding
		for _, p := range all {
			out = append(out, p.findings("pool/"+p.Name)...)
		}
		return out, nil
	}}
}

func (p PoolState) findings(object string) (out []healthevent.Finding) {
	s, because := p.Status, ""
	if s.Error != "" {
		because = ": " + s.Error
	}
	switch {
	case s.State == fleet.PoolStalled:
		return append(out, finding(object, "pool-stalled", fleet.AlarmCritical, "The pool's storage does not answer"+because, "", 0))
	case s.State == fleet.PoolInactive && s.StoppedOutside:
		return append(out, finding(object, "pool-stopped", fleet.AlarmWarning, "The pool was stopped on the host outside Quantix.", "", 0))
	case s.State == fleet.PoolInactive, s.State == fleet.PoolFailed:
		return append(out, finding(object, "pool-failed", fleet.AlarmCritical, "The pool is not active on the host"+because, "", 0))
	case s.State != fleet.PoolActive: // its job has not ended
		return nil
	case s.Error != "":
		out = append(out, finding(object, "pool-degraded", fleet.AlarmWarning, "The pool is active but has a problem"+because, "", 0))
	}
	if s.CapacityBytes <= 0 || p.Provided {
		return out
	}
	switch used := 100 * (1 - float64(s.AvailableBytes)/float64(s.CapacityBytes)); {
	case used >= poolFull:
		out = append(out, finding(object, "pool-full", fleet.AlarmCritical, "At least 97 % of the pool is in use. Guests pause when it is full.", "usedPercent", used))
	case used >= poolNearlyFull:
		out = append(out, finding(object, "pool-full", fleet.AlarmWarning, "At least 90 % of the pool is in use.", "usedPercent", used))
	}
	return out
}
