package hypervisor_test

import (
	"reflect"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// For a merged list, an edit writes the user's changes and preserves changes made on the host; a reapply writes the
// whole list.
func TestListFieldsAreMergedThreeWay(t *testing.T) {
	t.Parallel()
	drives := func(all ...fleet.VMDrive) fleet.VMSpec { return fleet.VMSpec{Drives: all} }
	disc := func(slot, volume string) fleet.VMDrive {
		return fleet.VMDrive{Slot: slot, Medium: &fleet.Volref{PoolID: "p", Volume: volume}}
	}
	empty := func(slot string) fleet.VMDrive { return fleet.VMDrive{Slot: slot} }
	for name, c := range map[string]struct {
		was, is, want fleet.VMSpec
		putBack       bool
		written       []fleet.VMDrive
	}{
		"a new drive":                         {drives(), drives(), drives(empty("cdrom2")), false, []fleet.VMDrive{empty("cdrom2")}},
		"a medium":                            {drives(empty("cdrom2")), drives(empty("cdrom2")), drives(disc("cdrom2", "a")), false, []fleet.VMDrive{disc("cdrom2", "a")}},
		"host changed another drive's medium": {drives(empty("cdrom2"), empty("cdrom3")), drives(empty("cdrom2"), disc("cdrom3", "theirs")), drives(disc("cdrom2", "a"), empty("cdrom3")), false, []fleet.VMDrive{disc("cdrom2", "a"), disc("cdrom3", "theirs")}},
		"boot order only, medium kept":        {drives(empty("cdrom2")), drives(disc("cdrom2", "theirs")), drives(fleet.VMDrive{Slot: "cdrom2", BootOrder: 3}), false, []fleet.VMDrive{{Slot: "cdrom2", BootOrder: 3, Medium: disc("", "theirs").Medium}}},
		"drive removed on the host":           {drives(empty("cdrom2")), drives(), drives(empty("cdrom2"), empty("floppy1")), false, []fleet.VMDrive{empty("floppy1")}},
		"drive added on the host":             {drives(), drives(empty("cdrom4")), drives(empty("cdrom2")), false, []fleet.VMDrive{empty("cdrom2"), empty("cdrom4")}},
		"drive removed by the user":           {drives(empty("cdrom2"), empty("floppy1")), drives(empty("cdrom2"), empty("floppy1")), drives(empty("floppy1")), false, []fleet.VMDrive{empty("floppy1")}},
		"reapply overwrites all":              {drives(empty("cdrom2")), drives(disc("cdrom2", "theirs"), empty("cdrom4")), drives(empty("cdrom2")), true, []fleet.VMDrive{empty("cdrom2")}},
	} {
		plan := hypervisor.PlanEdit(hypervisor.AppliedRecord{Spec: c.was}, hypervisor.DefinedSpec{Spec: c.is}, fleet.VM{Spec: c.want}, hypervisor.ApplyWork{Reapply: c.putBack}.Overwrites)
		if got := plan.WithMergedLists(c.want).Drives; !plan.SetsField("drives") || !reflect.DeepEqual(got, c.written) {
			t.Errorf("%s: written are %+v, want %+v", name, got, c.written)
		}
	}
	if plan := hypervisor.PlanEdit(hypervisor.AppliedRecord{Spec: drives(empty("cdrom2"))}, hypervisor.DefinedSpec{Spec: drives(disc("cdrom2", "theirs"))}, fleet.VM{Spec: drives(empty("cdrom2"))}, hypervisor.OverwriteNothing); plan.SetsField("drives") {
		t.Error("an edit of another field writes the drives")
	}
}
