package template_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/template"
)

func TestTemplateActionsRefusedWithReason(t *testing.T) {
	t.Parallel()
	now := time.Now()
	version := func(change func(*template.Version)) template.Version {
		v := template.Version{Number: 2, Disks: []template.Disk{{State: fleet.CopyReady}, {State: fleet.CopyUnverified}}}
		change(&v)
		return v
	}
	complete := version(func(*template.Version) {})
	coming := version(func(v *template.Version) { v.Disks[1].State = fleet.CopyInProgress })
	lost := version(func(v *template.Version) {
		v.Disks[0] = template.Disk{State: fleet.CopyMissing, Why: "It is gone."}
	})
	old := version(func(v *template.Version) { v.DeprecatedAt = &now })
	linked := version(func(v *template.Version) {
		v.VMs = []template.VM{{Name: "web-1", Linked: true}, {Name: "web-2"}}
		v.OthersLinked = 2
	})
	foreign := version(func(v *template.Version) { v.Others, v.OthersLinked = 1, 1 })
	for _, c := range []struct {
		name    string
		version template.Version
		act     fleet.Action
		why     string // empty: allowed
	}{
		{"complete", complete, fleet.ActNewVM, ""},
		{"complete", complete, fleet.ActDeprecate, ""},
		{"complete", complete, fleet.ActOffer, "The version is not deprecated."},
		{"complete", complete, fleet.ActDelete, ""},
		{"coming", coming, fleet.ActNewVM, "disk 2 is still being created"},
		{"coming", coming, fleet.ActDelete, "version 2 is still being created"},
		{"lost", lost, fleet.ActNewVM, "disk 1 cannot be read now. It is gone."},
		{"lost", lost, fleet.ActDelete, ""},
		{"deprecated", old, fleet.ActNewVM, "deprecated"},
		{"deprecated", old, fleet.ActDeprecate, "The version is already deprecated."},
		{"deprecated", old, fleet.ActOffer, ""},
		{"linked", linked, fleet.ActDelete, "VM web-1, 2 VMs of other projects"},
		{"linked", linked, fleet.ActDeprecate, ""},
		{"linked elsewhere", foreign, fleet.ActDelete, "of other projects are backed by version 2 and would be broken: 1 VM"},
		{"unknown action", complete, fleet.ActStart, "no action"},
	} {
		ok, why := c.version.Allows(c.act)
		if ok != (c.why == "") || !strings.Contains(why, c.why) || strings.Contains(why, "web-2") {
			t.Errorf("%s, %s: %v %q", c.name, c.act, ok, why)
		}
	}
	for _, c := range []struct {
		name     string
		versions []template.Version
		act      fleet.Action
		why      string
	}{
		{"none", nil, fleet.ActNewVM, "has no version"},
		{"none", nil, fleet.ActDelete, ""},
		{"all deprecated", []template.Version{old}, fleet.ActNewVM, "All versions are deprecated."},
		{"the newest deprecated", []template.Version{old, complete}, fleet.ActNewVM, ""},
		{"an old version with linked clones", []template.Version{complete, linked}, fleet.ActDelete, "web-1"},
		{"the newest coming", []template.Version{coming, complete}, fleet.ActNewVM, "being created"},
	} {
		if ok, why := (template.View{Versions: c.versions}).Allows(c.act); ok != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s, %s: %v %q", c.name, c.act, ok, why)
		}
	}
}
