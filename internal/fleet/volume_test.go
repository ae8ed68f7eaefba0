package fleet_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestVolumeNamesAreValidated(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"data.raw": true, "Data_1.qcow2": true, "x": true, "": false, ".": false, "..": false, ".hidden": false, "a/b": false, "../a": false, "a b": false, "-a": false,
		"a.partial": false, "web-0123456789ab-1.qcow2": false, strings.Repeat("x", 200): true, strings.Repeat("x", 201): false, "a\n": false, "ä": false,
	} {
		var c fleet.Checks
		if fleet.CheckNewVolume(&c, "name", name); (c.Err() == nil) != ok {
			t.Errorf("a new volume %q: %v", name, c.Err())
		}
	}
	for name, ok := range map[string]bool{
		"data.raw": true, "my disk (1).img": true, "a.partial": true, "ä": true, "": false, ".": false, "..": false, ".quantix-pool": false, "a/b": false, "a\x00b": false, "\xff": false,
		strings.Repeat("x", 256): false,
	} {
		if fleet.IsVolumeName(name) != ok {
			t.Errorf("a volume %q: %v", name, !ok)
		}
	}
}

func TestVolumeSubjectRoundTrips(t *testing.T) {
	t.Parallel()
	a, b := fleet.Volref{PoolID: "p", Volume: "a"}, fleet.Volref{PoolID: "p", Volume: "a:b"}
	for _, ref := range []fleet.Volref{a, b} {
		if got, ok := fleet.SubjectVolume(ref).Volume(); !ok || got != ref {
			t.Errorf("%v comes back as %v", ref, got)
		}
	}
	if fleet.SubjectVolume(a) == fleet.SubjectVolume(b) {
		t.Error("two volumes share a subject")
	}
	if _, ok := fleet.SubjectPool("p").Volume(); ok {
		t.Error("a pool's subject parses as a volume")
	}
}

func TestVolumeActionsRefusedWithReason(t *testing.T) {
	t.Parallel()
	free := fleet.VolumeUse{Volume: fleet.Volume{Name: "a", Format: "raw"}, Online: true}
	with := func(f func(*fleet.VolumeUse)) fleet.VolumeUse { v := free; f(&v); return v }
	for name, c := range map[string]struct {
		of   fleet.VolumeUse
		says map[fleet.Action]string // reasons by action; all other actions are allowed
	}{
		"free":                      {free, nil},
		"host offline":              {with(func(v *fleet.VolumeUse) { v.Online = false }), map[fleet.Action]string{"download": "No online host", "rename": "No online host", "grow": "No online host", "clone": "No online host", "wipe": "No online host", "delete": "No online host"}},
		"task running":              {with(func(v *fleet.VolumeUse) { v.Work = "Grow volume" }), map[fleet.Action]string{"download": "grow volume", "rename": "grow volume", "grow": "grow volume", "clone": "grow volume", "wipe": "grow volume", "delete": "grow volume"}},
		"a disk":                    {with(func(v *fleet.VolumeUse) { v.Disk = "web" }), map[fleet.Action]string{"rename": "VM web", "grow": "VM's page", "wipe": "VM web", "delete": "VM web"}},
		"a disk in use":             {with(func(v *fleet.VolumeUse) { v.Disk, v.Busy = "web", "web" }), map[fleet.Action]string{"download": "uses the volume, so the download would be inconsistent.", "rename": "web", "grow": "web", "clone": "uses the volume, so a copy would be inconsistent.", "wipe": "web", "delete": "web"}},
		"in a drive":                {with(func(v *fleet.VolumeUse) { v.Drive = "web" }), map[fleet.Action]string{"rename": "in a drive", "grow": "in a drive", "wipe": "in a drive", "delete": "in a drive"}},
		"source of a new VM":        {with(func(v *fleet.VolumeUse) { v.CreatedVM = "web" }), map[fleet.Action]string{"rename": "created from the volume", "grow": "created from the volume", "wipe": "created from the volume", "delete": "created from the volume"}},
		"published":                 {with(func(v *fleet.VolumeUse) { v.Published = true }), map[fleet.Action]string{"rename": "Withdraw", "grow": "Withdraw", "wipe": "Withdraw", "delete": "Withdraw"}},
		"a backing file":            {with(func(v *fleet.VolumeUse) { v.BaseOf = []string{"top"} }), map[fleet.Action]string{"rename": "top", "grow": "top", "wipe": "top", "delete": "top"}},
		"with a backing file":       {with(func(v *fleet.VolumeUse) { v.Backing = "/v/base" }), map[fleet.Action]string{"download": "Create an image", "grow": "Create an image", "clone": "Create an image", "wipe": "Delete it"}},
		"an ISO":                    {with(func(v *fleet.VolumeUse) { v.Format = "iso" }), map[fleet.Action]string{"grow": "ISO"}},
		"of another format":         {with(func(v *fleet.VolumeUse) { v.Format = "vmdk" }), map[fleet.Action]string{"grow": "vmdk", "clone": "vmdk"}},
		"an appliance":              {with(func(v *fleet.VolumeUse) { v.Format, v.Appliance = fleet.FormatOVA, &fleet.Appliance{} }), map[fleet.Action]string{"grow": "ova", "clone": "ova", "convert": "not a disk"}},
		"a disk of another product": {with(func(v *fleet.VolumeUse) { v.Format, v.Appliance = "vmdk", &fleet.Appliance{} }), map[fleet.Action]string{"grow": "vmdk", "clone": "vmdk"}},
		"an unreadable one":         {with(func(v *fleet.VolumeUse) { v.Format, v.Appliance = "vmdk", &fleet.Appliance{Error: "It is cut off."} }), map[fleet.Action]string{"grow": "vmdk", "clone": "vmdk", "convert": "cut off", "import": "cut off"}},
		"an RBD image":              {with(func(v *fleet.VolumeUse) { v.Format = fleet.FormatRBD }), map[fleet.Action]string{"download": "its storage", "rename": "Clone it"}},
		"unfinished":                {with(func(v *fleet.VolumeUse) { v.Unfinished = true }), map[fleet.Action]string{"download": "The volume is incomplete, because its creation was interrupted.", "rename": "The volume is incomplete, because its creation was interrupted.", "grow": "The volume is incomplete, because its creation was interrupted.", "clone": "The volume is incomplete, because its creation was interrupted.", "wipe": "The volume is incomplete, because its creation was interrupted."}},
	} {
		for _, s := range c.of.Actions() {
			want := c.says[s.Action]
			if want == "" && c.of.Appliance == nil && (s.Action == fleet.ActConvert || s.Action == fleet.ActImport) {
				want = " " // any reason
			}
			if s.Allowed != (want == "") || !strings.Contains(s.Reason, want) || s.Reason != "" && !strings.HasSuffix(s.Reason, ".") {
				t.Errorf("%s: %s is %v with reason %q; want %q", name, s.Action, s.Allowed, s.Reason, want)
			}
		}
	}
}

func TestVolumeInUseRefusesDestructiveJobs(t *testing.T) {
	t.Parallel()
	for kind, held := range map[fleet.JobKind]fleet.VolumeUsers{
		fleet.VolumeDelete: {Disk: "web"}, fleet.VolumeWipe: {Drive: "web"}, fleet.VolumeGrow: {Published: true},
	} {
		if err := held.JobError(kind); fleet.CodeOf(err) != fleet.Conflict {
			t.Errorf("%s of a volume with %+v: %v", kind, held, err)
		}
		if err := (fleet.VolumeUsers{}).JobError(kind); err != nil {
			t.Errorf("%s of an unused volume: %v", kind, err)
		}
		if err := held.JobError(fleet.VolumeClone); err != nil {
			t.Errorf("a copy of a volume with %+v: %v", held, err)
		}
	}
}
