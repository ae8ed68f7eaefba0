package agent

import (
	"context"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// guestReportTimes holds, for each guest, the time of the guest agent's values that were reported last. Only the reporter's
// loop uses it.
type guestReportTimes struct{ lastReported map[fleet.VMID]time.Time }

// unsentGuestReadings returns the values that guest agents have answered since the last host report, starting with the
// guest whose values were reported longest ago. A guest whose agent did not answer is left out.
func (r *reporter) unsentGuestReadings(ctx context.Context) []fleet.GuestReading {
	ctx, cancel := context.WithTimeout(ctx, r.a.timing.hostReadLimit/2)
	defer cancel()
	all, err := r.a.hypervisor.GuestReadings(ctx)
	if err != nil {
		return nil
	}
	reported := make(map[fleet.VMID]time.Time, len(all))
	news := all[:0:0]
	for _, g := range all {
		if reported[g.ID] = r.guestReports.lastReported[g.ID]; g.At.After(reported[g.ID]) {
			news = append(news, g)
		}
	}
	slices.SortStableFunc(news, func(a, b hypervisor.GuestReading) int { return reported[a.ID].Compare(reported[b.ID]) })
	var out []fleet.GuestReading
	for _, g := range news[:min(len(news), wire.MaxGuests)] {
		reported[g.ID] = g.At
		g.AgoMs = max(0, time.Since(g.At).Milliseconds())
		out = append(out, g.GuestReading)
	}
	r.guestReports.lastReported = reported
	return out
}
