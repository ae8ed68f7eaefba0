package network

import (
	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// driftRows are the fields that differ between hosts' definitions of the network and the spec.
func (p Page) driftRows() []kit.DriftRow {
	var rows []kit.DriftRow
	path := views.NetworkPath(p.Network.ID)
	for _, h := range p.Drifted {
		states := assignedObject(p.Actor, p.Network).HostStates(h.Actions())
		for _, d := range h.Status.Drift {
			r := kit.DriftRow{ID: string(h.HostID) + "-" + d.Field, Host: h.HostName, HostHref: views.HostPath(h.HostID), Wanted: d.Applied}
			if p.Network.Spec != nil {
				r.Wanted = drift.WantedOfNetwork(*p.Network.Spec, d)
			}
			if h.State == fleet.NetworkUnknown {
				r.Offline = kit.AgeText(h.SeenAt.Instant(), p.Now)
			}
			acts := kit.HostDriftActions(path+"/hosts/"+string(h.HostID), path, d, drift.Label(d.Field), states)
			if acts.WhyNotAccept == "" {
				acts.WhyNotAccept = p.whyNotAcceptable(h.HostID, d)
			}
			acts.Fill(&r)
			rows = append(rows, r)
		}
	}
	return rows
}

// whyNotAcceptable is the reason why the network's spec cannot take the host's value; empty: it can.
func (p Page) whyNotAcceptable(host fleet.HostID, d fleet.Drift) string {
	if why := drift.WhyNotAcceptable(d); why != "" {
		return why
	}
	for _, other := range p.Drifted {
		if o := drift.Find(other.Status.Drift, d.Field); other.HostID != host && o != nil && o.Actual != d.Actual {
			return drift.OtherHostText(d.Field, other.HostName)
		}
	}
	return ""
}
