package vm

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DeletePage asks what is to go.
type DeletePage struct {
	VM     fleet.VMView
	Pools  map[fleet.PoolID]string
	Disks  string // what was chosen of the disks: keep or delete; empty: nothing yet
	Errors kit.Errors
}

func (p DeletePage) dialog() kit.Dialog {
	d := kit.Dialog{Title: "Delete " + p.VM.Name + "?", Action: views.VMPath(p.VM.ID, "delete"), Danger: true, Back: views.VMPath(p.VM.ID)}
	if len(p.VM.Spec.Disks) == 0 {
		d.Button = "Delete VM"
	} else {
		d.Face = deleteWords("VM")
	}
	if fate := p.fate(); len(p.VM.Spec.Disks) > 0 && fate.WhyKeep != "" && fate.WhyDelete != "" {
		d.Button, d.Why = "Delete VM", fate.WhyKeep
	}
	return d
}

// Fate is the choice of what becomes of disks, each way with the reason why it is not possible.
type Fate struct {
	Chosen             string
	WhyKeep, WhyDelete string
}

func (p DeletePage) fate() Fate {
	return Fate{Chosen: p.Disks, WhyKeep: p.VM.HeldBySnapshots(), WhyDelete: p.VM.DisksHeld()}
}

// deletes reports whether disks are deleted as the form stands: they are kept unless they cannot be.
func (f Fate) deletes() bool {
	return f.WhyDelete == "" && (f.Chosen == "delete" || f.WhyKeep != "")
}

// crumbsTo is the way to a dialog about a VM.
func crumbsTo(vm fleet.VMView) []kit.Crumb {
	return []kit.Crumb{{Text: "Virtual machines", Href: "/vms"}, {Text: vm.Name, Href: views.VMPath(vm.ID)}}
}
