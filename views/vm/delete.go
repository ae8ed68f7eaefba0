package vm

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// DeletePage is the dialog that deletes a VM.
type DeletePage struct {
	VM     fleet.VMView
	Pools  map[fleet.PoolID]string
	Disks  string // choice for the disks: "keep" or "delete"; empty: not chosen yet
	Bin    DeletionBin
	Errors kit.Errors
}

func (p DeletePage) dialog() kit.Dialog {
	d := kit.Dialog{Title: "Delete " + p.VM.Name + "?", Action: views.VMPath(p.VM.ID, "delete"), Danger: true, Back: views.VMPath(p.VM.ID)}
	if len(p.VM.Spec.Disks) == 0 {
		d.Button = "Delete VM"
	} else {
		d.ButtonContent = DeleteButtonLabel("VM", p.Bin)
	}
	if fate := p.diskDeletionChoice(); len(p.VM.Spec.Disks) > 0 && fate.WhyKeep != "" && fate.WhyDelete != "" {
		d.Button, d.Why = "Delete VM", fate.WhyKeep
	}
	return d
}

// DiskDeletionChoice is the choice between keeping and deleting disks, with the reason if one of them is not possible.
type DiskDeletionChoice struct {
	Chosen             string
	WhyKeep, WhyDelete string
	Bin                DeletionBin
}

// DeletionBin is the recycle bin in a deletion dialog. Days is for how many days the VMs stay in it; 0: the bin is off.
type DeletionBin struct {
	Days      int
	Permanent bool // the form deletes past the bin
}

// deleteText describes what happens to deleted disks.
func (b DeletionBin) deleteText() string {
	if b.Days == 0 {
		return "All data on the disks is lost."
	}
	return "The VM moves to the recycle bin for " + kit.CountText(b.Days, "day") + ", and can be restored."
}

func (p DeletePage) diskDeletionChoice() DiskDeletionChoice {
	return DiskDeletionChoice{Bin: p.Bin, Chosen: p.Disks, WhyKeep: p.VM.WhySnapshotsBlockDiskJobs(), WhyDelete: p.VM.WhyDisksInUse()}
}

// deletesDisks reports whether the form deletes the disks. Without a choice, the form keeps the disks, unless that is
// not possible.
func (f DiskDeletionChoice) deletesDisks() bool {
	return f.WhyDelete == "" && (f.Chosen == "delete" || f.WhyKeep != "")
}

// dialogBreadcrumbs are the breadcrumbs of a dialog about a VM.
func dialogBreadcrumbs(vm fleet.VMView) []kit.Breadcrumb {
	return []kit.Breadcrumb{{Text: "Virtual machines", Href: "/vms"}, {Text: vm.Name, Href: views.VMPath(vm.ID)}}
}
