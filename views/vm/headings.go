package vm

import (
	"cmp"
	"net/url"
	"slices"

	"quantix/internal/fleet"
)

// Sections of the form that fleet.VMSections does not list.
const (
	countSectionID     = "vm-several"
	firstBootSectionID = "vm-first-boot"
	rulesSectionID     = "vm-rules"
	healthSectionID    = "vm-health"
)

// PrefillSectionHeadings is the value of the request that gets only the section headings.
const PrefillSectionHeadings = "headings"

func summaryID(section string) string { return section + "-now" }

// summaryOrNone is the summary of the typed first-boot data; without data, it is "none".
func (f FirstBootForm) summaryOrNone() string {
	return cmp.Or(f.summary(), "none")
}

// sectionSummaries returns the sections of the form with their summaries. sent holds the form's values with the row
// numbers of the page, before the server has renumbered the rows.
func (f Form) sectionSummaries(sent url.Values) []formSection {
	out := f.sections()
	out = append(out, formSection{id: rulesSectionID, summary: f.rowsSummary("spec.rules", "rule")}, formSection{id: healthSectionID, summary: f.rowsSummary("spec.health", "check")})
	if !f.Edits {
		out = append(out, formSection{id: countSectionID, summary: f.vmCountText()}, formSection{id: firstBootSectionID, summary: f.firstBootForm().summaryOrNone()})
	}
	f.Typed = sent
	for _, i := range f.rowIndexes("spec.disks") {
		at := "spec.disks[" + i + "]"
		out = append(out, rowSections(f, at, fleet.DiskFields, f.existingDisk(at) != nil)...)
	}
	for _, i := range f.rowIndexes("spec.nics") {
		at := "spec.nics[" + i + "]"
		out = append(out, rowSections(f, at, fleet.NICFields, f.isExistingNIC(at))...)
	}
	return slices.DeleteFunc(out, func(s formSection) bool { return len(s.fields) > 0 && !f.hasSection(s) })
}

// hasSection reports whether the page has the section. The section of a row that the user removed has no fields on the
// page.
func (f Form) hasSection(s formSection) bool {
	return slices.ContainsFunc(s.fields, func(p formField) bool { return f.Typed.Has(p.name) })
}
