package pool

import (
	"strings"

	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// driftRows are the fields that differ between hosts' definitions of the pool and the spec.
func (p Page) driftRows() []kit.DriftRow {
	var rows []kit.DriftRow
	for _, h := range p.Drifted {
		base := p.path("hosts", string(h.HostID))
		states := assignedObject(p.Actor, p.Pool).HostStates(h.Actions())
		for _, d := range h.Status.Drift {
			// The kind and the location of a pool are fixed, so the wanted value is the last applied one.
			r := kit.DriftRow{ID: string(h.HostID) + "-" + d.Field, Host: h.HostName, HostHref: views.HostPath(h.HostID), Wanted: d.Applied}
			if h.State == fleet.PoolUnknown {
				r.Offline = kit.AgeText(h.SeenAt.Instant(), p.Now)
			}
			kit.HostDriftActions(base, p.path(), d, drift.Label(d.Field), states).Fill(&r)
			rows = append(rows, r)
		}
	}
	return rows
}

// driftText lists the fields with drift that nobody ignores: "Path, Server". It is empty without drift.
func driftText(s *fleet.PoolStatus) string {
	if s == nil {
		return ""
	}
	var out []string
	for _, d := range drift.Open(s.Drift) {
		out = append(out, drift.Label(d.Field))
	}
	return strings.Join(out, ", ")
}
