package query

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// fillHistory fills in the 24-hour history of each host status of one object.
func fillHistory[C any](ctx context.Context, b *Queries, n fleet.ResourceType, id string, statuses []C, at func(*C) (fleet.HostID, *fleet.StatusHistory)) error {
	if len(statuses) == 0 {
		return nil
	}
	hosts := make([]string, len(statuses))
	for i := range statuses {
		host, _ := at(&statuses[i])
		hosts[i] = string(host)
	}
	now := time.Now()
	since := policy.DayStart(now)
	quarters, err := b.store.StatusQuarters(ctx, db.StatusQuartersParams{Noun: string(n), ObjectID: id, Hosts: hosts, Since: since})
	if err != nil {
		return store.UserError(err)
	}
	periods, err := b.store.HostOfflinePeriods(ctx, db.HostOfflinePeriodsParams{Hosts: hosts, Since: since})
	if err != nil {
		return store.UserError(err)
	}
	changes, offline := map[fleet.HostID][]policy.SeverityChange{}, map[fleet.HostID][]policy.OfflinePeriod{}
	for _, q := range quarters {
		changes[q.HostID] = append(changes[q.HostID], policy.SeverityChange{Quarter: q.Quarter, Worst: policy.SeverityByRank(int(q.Worst)), Last: policy.SeverityByRank(int(q.Last))})
	}
	for _, q := range periods {
		offline[q.HostID] = append(offline[q.HostID], policy.OfflinePeriod{Since: q.Since, Until: q.Until})
	}
	for i := range statuses {
		host, day := at(&statuses[i])
		*day = policy.ComputeDay(now, changes[host], offline[host])
	}
	return nil
}

func poolHistory(h *fleet.PoolHost) (fleet.HostID, *fleet.StatusHistory) { return h.HostID, &h.Day }

func networkHistory(h *fleet.NetworkHost) (fleet.HostID, *fleet.StatusHistory) {
	return h.HostID, &h.Day
}
