package vm

import (
	"strings"

	"quantix/internal/drift"
	"quantix/internal/fleet"
	"quantix/views/kit"
)

func (p Page) reapplyAction() kit.ActionButton {
	act := kit.ActionButton{Icon: "history", Word: "Reapply", Post: p.path("reapply"), Back: p.path()}
	return act.DisableFrom(p.Actions, fleet.ActEdit).DisableFor(p.whyNotResolveDrift(fleet.ActReapply))
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

// openDrift is the drift that nobody ignores.
func openDrift(vm *fleet.VMView) []fleet.Drift {
	if vm.Status == nil {
		return nil
	}
	return drift.Open(vm.Status.Drift)
}

// driftFieldsText lists the fields with drift that nobody ignores: "vCPUs, memory".
func driftFieldsText(vm *fleet.VMView) string {
	all := openDrift(vm)
	words := make([]string, len(all))
	for i, d := range all {
		words[i] = fieldLabel(d.Field)
	}
	return strings.Join(words, ", ")
}

// isOpenDrift reports whether the field has drift that nobody ignores.
func isOpenDrift(vm fleet.VMView, field string) bool {
	d := fieldDrift(vm, field)
	return d != nil && !d.Ignored
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

// reapplyAllAction reapplies all fields with drift.
func (p Page) reapplyAllAction() kit.ActionButton {
	a := p.reapplyAction()
	if len(p.VM.Status.Drift) > 1 {
		a.Word = "Reapply all"
	}
	return a
}

// driftRows are the fields with drift.
func (p Page) driftRows() []kit.DriftRow {
	rows := make([]kit.DriftRow, len(p.VM.Status.Drift))
	for i, d := range p.VM.Status.Drift {
		rows[i] = kit.DriftRow{ID: d.Field, Wanted: wantedValue(p.VM, d)}
		acts := kit.DriftActions{
			Base: p.path(), Back: p.path(), Field: d, Label: fieldLabel(d.Field), WhyNotAccept: p.whyNotResolveDrift(fleet.ActAcceptDrift),
			WhyNotReapply: p.whyNotResolveDrift(fleet.ActReapply), WhyNotIgnore: p.whyNotResolveDrift(fleet.ActIgnoreDrift),
		}
		if s := p.actionState(fleet.ActEdit); !s.Allowed {
			acts.WhyNotChange, acts.Absent = s.Reason, s.Absent
		}
		if d.Take == nil && acts.WhyNotAccept == "" {
			acts.WhyNotAccept = "Quantix has no setting for this value. Reapply, or ignore the drift."
		}
		acts.Fill(&rows[i])
	}
	return rows
}

// wantedValue is the spec's value of the field with drift.
func wantedValue(vm fleet.VMView, d fleet.Drift) string {
	if d.Field == "name" {
		return vm.Name
	}
	if f, ok := fleet.FieldByName(d.Field); ok {
		return f.Words(vm.Spec)
	}
	return d.Applied
}
