package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// BulkPage edits several VMs at once.
type BulkPage struct {
	Form    Form
	IDs     []fleet.VMID
	Preview *BulkPreview // nil: the user has not requested a preview yet
}

// BulkPreview is the expected effect of a bulk edit.
type BulkPreview struct {
	Now, NextBoot, Same, Left int // numbers of VMs; Left: refused VMs that Refused does not list
	Refused                   []fleet.Refused
}

// changing counts the VMs that the edit would change.
func (p BulkPreview) changing() int { return p.Now + p.NextBoot }

func (p BulkPreview) refused() int { return len(p.Refused) + p.Left }

func (p BulkPage) title() string { return "Edit " + kit.Count(len(p.IDs), "VM") }

// bulkSection is a section of the bulk edit form.
type bulkSection struct {
	title  string
	open   bool
	fields []fleet.VMField
}

// bulkSections are the fields that several VMs can share, by section. Fields with an input of their own come first.
func bulkSections() []bulkSection {
	out := []bulkSection{{title: "CPU and memory", open: true}}
	for _, s := range fleet.VMSections {
		out = append(out, bulkSection{title: string(s)})
	}
	for _, f := range fleet.BulkFields() {
		for i := range out {
			if f.Input.Section == "" && i == 0 || f.Input.Section != "" && out[i].title == string(f.Input.Section) && i > 0 {
				out[i].fields = append(out[i].fields, f)
			}
		}
	}
	return out
}

// changes reports whether the bulk edit changes the field.
func (p BulkPage) changes(name string) bool { return p.Form.Typed.Get("set."+name) != "" }

// countChanges counts the ticked fields of a section.
func (p BulkPage) countChanges(f bulkSection) int {
	n := 0
	for _, v := range f.fields {
		if p.changes(v.Name) {
			n++
		}
	}
	return n
}

func changesText(n int) string {
	if n == 0 {
		return "unchanged"
	}
	return kit.Count(n, "change")
}

func moreText(n int) string { return "and " + strconv.Itoa(n) + " more" }
