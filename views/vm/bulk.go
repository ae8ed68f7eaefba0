package vm

import (
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
	"quantix/views/kit"
)

// BulkEditData edits several VMs at once.
type BulkEditData struct {
	Form    Form
	IDs     []fleet.VMID
	Preview *BulkEditPreview // nil: the user has not requested a preview yet
}

// BulkEditPreview is the expected effect of a bulk edit.
type BulkEditPreview struct {
	Now, NextBoot, Same, Left int // numbers of VMs; Left: refused VMs that Refused does not list
	Refused                   []vmedit.RefusedVM
}

// changedVMCount counts the VMs that the edit would change.
func (p BulkEditPreview) changedVMCount() int { return p.Now + p.NextBoot }

func (p BulkEditPreview) refusedCount() int { return len(p.Refused) + p.Left }

func (p BulkEditData) title() string { return "Edit " + kit.CountText(len(p.IDs), "VM") }

// bulkEditSection is a section of the bulk edit form.
type bulkEditSection struct {
	title  string
	open   bool
	fields []fleet.VMField
}

// bulkEditSections are the fields that can have the same value in several VMs, by section. The first section has the
// fields that belong to none of fleet.VMSections.
func bulkEditSections() []bulkEditSection {
	out := []bulkEditSection{{title: "CPU and memory", open: true}}
	for _, s := range fleet.VMSections {
		out = append(out, bulkEditSection{title: string(s)})
	}
	for _, f := range vmedit.BulkFields() {
		for i := range out {
			if f.Input.Section == "" && i == 0 || f.Input.Section != "" && out[i].title == string(f.Input.Section) && i > 0 {
				out[i].fields = append(out[i].fields, f)
			}
		}
	}
	return out
}

// changesField reports whether the bulk edit changes the field.
func (p BulkEditData) changesField(name string) bool { return p.Form.Typed.Get("set."+name) != "" }

// countChanges counts the ticked fields of a section.
func (p BulkEditData) countChanges(f bulkEditSection) int {
	n := 0
	for _, v := range f.fields {
		if p.changesField(v.Name) {
			n++
		}
	}
	return n
}

func changeCountText(n int) string {
	if n == 0 {
		return "unchanged"
	}
	return kit.CountText(n, "change")
}
