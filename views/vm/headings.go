package vm

import (
	"cmp"
	"net/url"
	"slices"

	"quantix/internal/fleet"
)

// Sections of the form that fleet.VMSections does not list.
const (
	severalSection = "vm-several"
	firstSection   = "vm-first-boot"
	rulesSection   = "vm-rules"
	healthSection  = "vm-health"
)

// BeginHeadings is the request value that asks for the section headings only.
const BeginHeadings = "headings"

func headingID(section string) string { return section + "-now" }

// heading is the summary of the typed first-boot data; without data, it is "none".
func (f FirstForm) heading() string {
	return cmp.Or(f.now(), "none")
}

// headings returns the sections of the form with their summaries. sent holds the values under the row numbers of the
// page.
func (f Form) headings(sent url.Values) []fold {
	out := f.folds()
	out = append(out, fold{id: rulesSection, now: f.rowsNow("spec.rules", "rule")}, fold{id: healthSection, now: f.rowsNow("spec.health", "check")})
	if !f.Edits {
		out = append(out, fold{id: severalSection, now: f.several()}, fold{id: firstSection, now: f.firstForm().heading()})
	}
	f.Typed = sent
	for _, i := range f.rows("spec.disks") {
		at := "spec.disks[" + i + "]"
		out = append(out, rowFolds(f, at, fleet.DiskFields, f.keptDisk(at) != nil)...)
	}
	for _, i := range f.rows("spec.nics") {
		at := "spec.nics[" + i + "]"
		out = append(out, rowFolds(f, at, fleet.NICFields, f.keepsNIC(at))...)
	}
	return slices.DeleteFunc(out, func(s fold) bool { return len(s.fields) > 0 && !f.sent(s) })
}

// sent reports whether the page has the section. A removed row leaves a gap in the row numbers.
func (f Form) sent(s fold) bool {
	return slices.ContainsFunc(s.fields, func(p formPart) bool { return f.Typed.Has(p.name) })
}
