package kit

import "quantix/internal/fleet"

// DriftRow is one field whose value on a host differs from the last applied one.
type DriftRow struct {
	ID                     string // unique on the page
	Host, HostHref         string // the host of a pool or network; empty for VMs
	Offline                string // the age of the host's last report, if the host is offline
	Label                  string
	Wanted, Applied        string // the values of the spec and of the last applied spec
	Actual                 string // the value on the host
	Ignored                bool
	Accept, Reapply, Unset ActionButton // Unset ignores the drift, or shows ignored drift again
}

// DriftActions are the actions on one field with drift. base is the address of the object on the host.
type DriftActions struct {
	Base, Back string
	Field      fleet.Drift
	Label      string // label of the field
	// reasons why an action is not possible; empty: possible
	WhyNotAccept, WhyNotReapply, WhyNotIgnore, WhyNotChange string
	Absent                                                  bool // no role of the person permits the actions
}

// Fill adds the actions to the row. The requests contain the value shown on the page, because the host's value may
// change before the click.
func (d DriftActions) Fill(r *DriftRow) {
	values := []FormValue{{Name: "field", Value: d.Field.Field}, {Name: "actual", Value: d.Field.Actual}}
	button := func(word, post, why string) ActionButton {
		return ActionButton{Word: word, Label: word + " drift: " + d.Label, Post: d.Base + "/" + post, PostValues: values, Back: d.Back, Why: why, Absent: d.Absent}
	}
	r.Label, r.Applied, r.Actual, r.Ignored = d.Label, d.Field.Applied, d.Field.Actual, d.Field.Ignored
	r.Accept, r.Reapply = button("Accept", "accept-drift", d.WhyNotAccept), button("Reapply", "reapply", d.WhyNotReapply)
	r.Unset = button("Ignore", "ignore-drift", d.WhyNotIgnore)
	if d.Field.Ignored {
		r.Unset = button("Show again", "show-drift", d.WhyNotChange)
	}
}

// splitDrift returns the rows that count as drift, and the ignored rows.
func splitDrift(rows []DriftRow) (open, ignored []DriftRow) {
	for _, r := range rows {
		if r.Ignored {
			ignored = append(ignored, r)
		} else {
			open = append(open, r)
		}
	}
	return open, ignored
}

// HostDriftActions are the actions on one field of a pool or network with drift. base is the address of the object on
// the host, and states those of the object there.
func HostDriftActions(base, back string, d fleet.Drift, label string, states []fleet.ActionState) DriftActions {
	why := func(act fleet.Action) string { return ActionButton{}.WithReasonFrom(states, act).Why }
	return DriftActions{
		Base: base, Back: back, Field: d, Label: label,
		WhyNotAccept: why(fleet.ActAcceptDrift), WhyNotReapply: why(fleet.ActReapply), WhyNotIgnore: why(fleet.ActIgnoreDrift), WhyNotChange: why(fleet.ActRelease),
	}
}
