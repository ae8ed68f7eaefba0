package agent

import (
	"context"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guestNews is what guests said since it was told last. It belongs to the reporter's loop.
type guestNews struct{ told map[fleet.VMID]time.Time }

// guests reads what guests said since, those first that were told longest ago. What cannot be read is left out: it is no state.
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
