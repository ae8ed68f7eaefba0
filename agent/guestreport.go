package agent

import (
	"context"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guestNews holds the time of the newest reported reading of each guest. Only the reporter's loop uses it.
type guestNews struct{ told map[fleet.VMID]time.Time }

// guests returns the readings since the last report, least recently reported guests first. A reading that fails is left
// out.
func (r *reporter) guests(ctx context.Context) []fleet.GuestReading {
	ctx, cancel := context.WithTimeout(ctx, r.a.times.snapshot/2)
	defer cancel()
	all, err := r.a.hypervisor.GuestReadings(ctx)
	if err != nil {
		return nil
	}
	told := make(map[fleet.VMID]time.Time, len(all))
	news := all[:0:0]
	for _, g := range all {
		if told[g.ID] = r.news.told[g.ID]; g.At.After(told[g.ID]) {
			news = append(news, g)
		}
	}
	slices.SortStableFunc(news, func(a, b GuestReading) int { return told[a.ID].Compare(told[b.ID]) })
	var out []fleet.GuestReading
	for _, g := range news[:min(len(news), wire.MaxGuests)] {
		told[g.ID] = g.At
		g.AgoMs = max(0, time.Since(g.At).Milliseconds())
		out = append(out, g.GuestReading)
	}
	r.news.told = told
	return out
}
