package vm

import (
	"strconv"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// Actions that exist only for several VMs.
const (
	ManySnapshot fleet.Action = "snapshot"
	ManyMigrate  fleet.Action = "migrate"
	ManyCompare  fleet.Action = "compare"
)

// OpensDialog reports whether the action on several VMs opens a dialog first.
func OpensDialog(a fleet.Action) bool {
	return a == fleet.ActDelete || a == ManySnapshot || a == ManyMigrate || a.Job().Info().InterruptsWaits
}

// ManyPage is the dialog of an action on several VMs: forced power off, delete, migrate or take snapshots.
type ManyPage struct {
	Action fleet.Action
	VMs    []fleet.VMView
	Back   string
	Hosts  kit.Choices
	In     ManyForm
	Errors kit.Errors
}

// ManyForm holds the values that a person chose in the dialog of an action on several VMs.
type ManyForm struct {
	Disks, Name, Description, Host, Rate string
	Memory, Quiesce                      bool
}

// shownNames is how many VMs a dialog names.
const shownNames = 12

func (p ManyPage) count() string { return kit.Count(len(p.VMs), "VM") }

func (p ManyPage) verb() string {
	switch p.Action {
	case ManySnapshot:
		return "Take snapshots of"
	case ManyMigrate:
		return "Migrate"
	}
	return p.Action.Label()
}

func (p ManyPage) dialog() kit.Dialog {
	d := kit.Dialog{
		Title: p.verb() + " " + p.count() + "?", Action: "/vms/bulk", Button: p.verb() + " " + p.count(), Danger: p.Action == fleet.ActDelete || p.Action.Job().Info().InterruptsWaits, Back: p.Back,
	}
	if p.Action == fleet.ActDelete {
		d.Face = deleteLabel(p.count())
	}
	return d
}

// firstVMs are the first VMs, and the number of VMs beyond them.
func (p ManyPage) firstVMs() (first []fleet.VMView, more int) {
	n := min(len(p.VMs), shownNames)
	return p.VMs[:n], len(p.VMs) - n
}

// Running counts the VMs that are running.
func (p ManyPage) Running() int {
	n := 0
	for _, vm := range p.VMs {
		if vm.HasGuest() {
			n++
		}
	}
	return n
}

// Number is the text to type as confirmation.
func (p ManyPage) Number() string { return strconv.Itoa(len(p.VMs)) }

// deletionText describes the deletion, and how many VMs are powered off before it.
func (p ManyPage) deletionText() (text, off string) {
	switch n := p.Running(); {
	case len(p.VMs) == 1 && n == 0:
		return "The VM is deleted from its host permanently.", ""
	case len(p.VMs) == 1:
		return "The VM is deleted from its host permanently.", "The VM is running and will be powered off first."
	case n == 0:
		return "The VMs are deleted from their hosts permanently.", ""
	case n == 1:
		return "The VMs are deleted from their hosts permanently.", "1 of them is running and will be powered off first."
	default:
		return "The VMs are deleted from their hosts permanently.", strconv.Itoa(n) + " of them are running and will be powered off first."
	}
}

// manyAct is a button for the selected rows. It sends the list's form; actions that ask first open a dialog.
type manyAct struct {
	action fleet.Action
	word   string
}

// manyPowers are the power submenu for the selected VMs, in the order of one VM's menu.
func manyPowers() (out []manyAct) {
	for _, a := range powers {
		m := manyAct{a, a.Label()}
		if OpensDialog(a) {
			m.word += "…"
		}
		out = append(out, m)
	}
	return out
}

// manyActs are the other actions on the selected VMs.
func (p *ListPage) manyActs() (out []manyAct) {
	if p.Create {
		out = append(out, manyAct{ManySnapshot, "Snapshot…"})
	}
	if p.RunsHosts {
		out = append(out, manyAct{ManyMigrate, "Migrate…"})
	}
	return out
}

func (m manyAct) attrs() templ.Attributes {
	if !OpensDialog(m.action) {
		return nil
	}
	return templ.Attributes{"hx-post": "/vms/bulk", "hx-target": "#dialog", "hx-swap": "innerHTML"}
}
