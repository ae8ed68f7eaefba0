package vm

import (
	"strings"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

func (p Page) reapplyAction() kit.ActionButton {
	return kit.ActionButton{Icon: "history", Word: "Reapply", Post: p.path("reapply"), Back: p.path()}.DisableFor(p.whyNotResolveDrift(fleet.ActReapply))
}

// whyNotResolveDrift is the reason why drift cannot be accepted or reapplied now; empty: possible.
func (p Page) whyNotResolveDrift(a fleet.Action) string {
	if s := p.actionState(fleet.ActEdit); !s.Allowed {
		return s.Reason
	}
	_, why := p.VM.Allows(a)
	return why
}

// actualValue is the value of a field on the host. Without drift, that is the value in the spec (wanted).
func actualValue(vm fleet.VMView, field, wanted string) string {
	if d := fieldDrift(vm, field); d != nil {
		return d.Actual
	}
	return wanted
}

// driftFieldsText lists the fields with drift: "vCPUs, memory".
func driftFieldsText(vm *fleet.VMView) string {
	words := make([]string, len(vm.Status.Drift))
	for i, d := range vm.Status.Drift {
		words[i] = fieldLabel(d.Field)
	}
	return strings.Join(words, ", ")
}

func fieldDrift(vm fleet.VMView, field string) *fleet.Drift {
	if vm.Status == nil {
		return nil
	}
	for i, d := range vm.Status.Drift {
		if d.Field == field {
			return &vm.Status.Drift[i]
		}
	}
	return nil
}

// acceptDriftAction is the action that accepts the drift of one field. The request contains the value shown on the
// page, because the host's value may change before the click.
func (p Page) acceptDriftAction(d fleet.Drift) kit.ActionButton {
	a := kit.ActionButton{
		Word: "Accept drift", Label: "Accept drift " + fieldLabel(d.Field), Post: p.path("accept-drift"), Why: p.whyNotResolveDrift(fleet.ActAcceptDrift),
		PostValues: []kit.FormValue{{Name: "field", Value: d.Field}, {Name: "actual", Value: d.Actual}},
	}
	if d.Take == nil {
		a = a.DisableFor("Quantix has no setting for this value. Reapply, or leave the drift.")
	}
	return a
}
