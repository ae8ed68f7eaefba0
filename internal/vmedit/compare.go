// Package vmedit has what portal and API offer for the specs of VMs beyond storing them, built on the field tables of
// package fleet: presets of the form of a new VM, comparison of VMs, merge of two edits, edits of many VMs and the names
// of bulk create.
package vmedit

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/internal/vmcopy"
)

// FieldComparison is the comparison of one field of two VMs, with both values as text.
type FieldComparison struct {
	Field string `json:"field"` // "name", or the name of a VMField
	Type  string `json:"noun"`
	Left  string `json:"left"`
	Right string `json:"right"`
	Same  bool   `json:"same"`
}

// editableField describes a field of a VM that users edit.
type editableField struct {
	name, typ string
	words     func(fleet.VM) string
	value     func(fleet.VM) string // comparable form of the value
	copy      func(to *fleet.VM, from fleet.VM)
}

// editables lists all editable fields, in form order.
var editables = func() []editableField {
	out := []editableField{
		{"name", "Name", func(v fleet.VM) string { return v.Name }, func(v fleet.VM) string { return v.Name }, func(to *fleet.VM, from fleet.VM) { to.Name = from.Name }},
		{"labels", "Labels", func(v fleet.VM) string { return cmp.Or(labelText(v.Labels), "none") }, func(v fleet.VM) string { return labelText(v.Labels) }, func(to *fleet.VM, from fleet.VM) { to.Labels = from.Labels }},
		{
			"description", "Description", func(v fleet.VM) string { return cmp.Or(v.Description, "none") }, func(v fleet.VM) string { return v.Description },
			func(to *fleet.VM, from fleet.VM) { to.Description = from.Description },
		},
	}
	for _, f := range fleet.VMFields {
		out = append(out, editableField{
			f.Name, fieldHeading(f.Type), func(v fleet.VM) string { return f.Words(v.Spec) },
			func(v fleet.VM) string { text, _ := json.Marshal(f.Value(v.Spec)); return string(text) }, // plain values
			func(to *fleet.VM, from fleet.VM) { f.Copy(&to.Spec, from.Spec) },
		})
	}
	return out
}()

// fieldHeading capitalizes a field's name for a heading: "Boot menu". A name such as vCPUs stays unchanged.
func fieldHeading(title string) string {
	if title == "" || len(title) > 1 && title[1] >= 'A' && title[1] <= 'Z' {
		return title
	}
	return strings.ToUpper(title[:1]) + title[1:]
}

func labelText(labels map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, k+"="+labels[k])
	}
	return strings.Join(all, ", ")
}

// CompareVMs returns every field of two VMs, different ones first.
func CompareVMs(left, right fleet.VM) []FieldComparison { return compareFields(editables, left, right) }

// CompareTemplate returns every field that a VM and a template version can have in common, different ones first. It
// ignores fields that a template does not define: name and labels, media, locations and sources of disks, and MAC
// addresses.
func CompareTemplate(vm fleet.VMView, t template.View, v template.Version) []FieldComparison {
	fields := slices.DeleteFunc(slices.Clone(editables), func(f editableField) bool {
		_, ofSpec := fleet.FieldByName(f.name)
		return !ofSpec || slices.Contains(vmcopy.IdentityFields, f.name)
	})
	left, right := vmcopy.WithoutIdentity(vm.Spec), vmcopy.WithoutIdentity(v.Spec)
	for i, d := range vm.Spec.Disks {
		left.Disks[i].PoolID, left.Disks[i].SizeBytes = "", vm.DiskBytes(d)
	}
	for i, d := range right.Disks {
		right.Disks[i].PoolID = ""
		if i < len(v.Disks) {
			right.Disks[i].SizeBytes = cmp.Or(d.SizeBytes, v.Disks[i].SizeBytes)
		}
	}
	for i := range right.NICs {
		if vm.ProjectID != t.ProjectID {
			right.NICs[i].SecurityGroups = nil // a VM created in another project gets none of the template's security groups
		}
		if i < len(left.NICs) && right.NICs[i].AntiSpoofing == nil {
			left.NICs[i].AntiSpoofing = nil // the default depends on the user who creates the VM
		}
	}
	return compareFields(fields, fleet.VM{Spec: left}, fleet.VM{Spec: right})
}

func compareFields(fields []editableField, left, right fleet.VM) []FieldComparison {
	out := make([]FieldComparison, 0, len(fields))
	for _, f := range fields {
		out = append(out, FieldComparison{f.name, f.typ, f.words(left), f.words(right), f.value(left) == f.value(right)})
	}
	slices.SortStableFunc(out, func(a, b FieldComparison) int {
		switch {
		case a.Same == b.Same:
			return 0
		case a.Same:
			return 1
		}
		return -1
	})
	return out
}

// MergeSide names the edit whose value of a field wins after two users changed the same VM.
type MergeSide string

const (
	Mine   MergeSide = "mine"
	Theirs MergeSide = "theirs"
)

// MergedField is a field that at least one of two users changed.
type MergedField struct {
	Field, Type       string
	Was, Mine, Theirs string    // as text
	Both              bool      // the two edits set different values: a user must choose
	Winner            MergeSide // the winning value; empty: not chosen yet
}

// MergeEdits combines two edits of the same VM. was is the VM before both edits, mine the edit being saved, and theirs
// the edit that is already stored. chosen is the winning side by field. A field that only one edit changed takes the
// changed value by default. In out, fields in conflict without a choice have the value of theirs.
func MergeEdits(was, mine, theirs fleet.VM, chosen map[string]MergeSide) (out fleet.VM, fields []MergedField) {
	out = theirs
	for _, f := range editables {
		w, m, t := f.value(was), f.value(mine), f.value(theirs)
		if m == t { // unchanged, or changed to the same value
			continue
		}
		one := MergedField{Field: f.name, Type: f.typ, Was: f.words(was), Mine: f.words(mine), Theirs: f.words(theirs), Both: w != m && w != t}
		switch one.Winner = chosen[f.name]; {
		case one.Winner == Mine || one.Winner == Theirs:
		case one.Both:
			one.Winner = ""
		case w != m:
			one.Winner = Mine
		default:
			one.Winner = Theirs
		}
		if one.Winner == Mine {
			f.copy(&out, mine)
		}
		fields = append(fields, one)
	}
	return out, fields
}
