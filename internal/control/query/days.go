package query

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// tellDays fills in the 24-hour history of each host status of one object.
func tellDays[C any](ctx context.Context, b *Queries, n fleet.ResourceType, id string, cells []C, at func(*C) (fleet.HostID, *fleet.Day)) error {
	if len(cells) == 0 {
		return nil
	}
	hosts := make([]string, len(cells))
	for i := range cells {
		host, _ := at(&cells[i])
		hosts[i] = string(host)
	}
	now := time.Now()
	since := fleet.DaySince(now)
	quarters, err := b.store.StatusQuarters(ctx, db.StatusQuartersParams{Noun: string(n), ObjectID: id, Hosts: hosts, Since: since})
	if err != nil {
		return store.Err(err)
	}
	quiet, err := b.store.HostOfflinePeriods(ctx, db.HostOfflinePeriodsParams{Hosts: hosts, Since: since, Fresh: fleet.Freshness})
	if err != nil {
		return store.Err(err)
	}
	turns, silences := map[fleet.HostID][]fleet.Turn{}, map[fleet.HostID][]fleet.OfflinePeriod{}
	for _, q := range quarters {
		turns[q.HostID] = append(turns[q.HostID], fleet.Turn{Quarter: q.Quarter, Worst: fleet.SeverityOf(int(q.Worst)), Last: fleet.SeverityOf(int(q.Last))})
	}
	for _, q := range quiet {
		silences[q.HostID] = append(silences[q.HostID], fleet.OfflinePeriod{Since: q.Since, Until: q.Until})
	}
	for i := range cells {
		host, day := at(&cells[i])
		*day = fleet.DayOf(now, turns[host], silences[host])
	}
	return nil
}

func poolDay(h *fleet.PoolHost) (fleet.HostID, *fleet.Day) { return h.HostID, &h.Day }

func networkDay(h *fleet.NetworkHost) (fleet.HostID, *fleet.Day) { return h.HostID, &h.Day }
