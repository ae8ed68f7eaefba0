package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

// The portal chooses names and pools of disks that an edit adds, as for a new VM, and the host creates them. The data
// of removed disks stays.
func TestEditAddsAndRemovesDisks(t *testing.T) {
	s := newProjectFixture(t)
	v, _ := s.vmWithMissingDisk("web")
	disks := func(change func([]fleet.Disk) []fleet.Disk) error {
		v = s.getVM(v.ID)
		spec := v.Spec
		spec.Disks = change(append([]fleet.Disk{}, spec.Disks...))
		got, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
		if err == nil {
			v = got
		}
		return err
	}
	bus := func(all []fleet.Disk) []fleet.Disk {
		return append(all, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 30, Bus: "scsi"})
	}
	s.wantRefused("a bus that the agent does not know", fleet.Invalid, "spec.disks[2].bus: An agent that is too old", func() error { return withFieldErrors(disks(bus)) })
	s.wantRefused("a cache that the agent does not know", fleet.Invalid, "spec.disks[1].cache: An agent that is too old", func() error {
		return withFieldErrors(disks(func(all []fleet.Disk) []fleet.Disk { all[1].Cache = "none"; return all }))
	})
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', $1)`, fleet.OptionalFieldNames())
	image, version := s.publishImage(s.nfs, []fleet.HostID{s.h1, s.h2}, "golden.qcow2", "qcow2", 1<<30)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.nfs, h, `{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1073741824,"sha256":"`+someSHA256+`"}`)
	}
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	err := disks(func(all []fleet.Disk) []fleet.Disk {
		return append(bus(all), fleet.Disk{PoolID: s.nfs, ImageID: image, Overlay: true})
	})
	if err != nil {
		t.Fatal(err)
	}
	blank, overlay := v.Spec.Disks[2], v.Spec.Disks[3]
	if !strings.HasPrefix(blank.Volume, "web-") || !strings.HasSuffix(blank.Volume, ".qcow2") || blank.Volume == overlay.Volume || blank.Volume == v.Spec.Disks[0].Volume {
		t.Errorf("the new disks are called %q and %q", blank.Volume, overlay.Volume)
	}
	if overlay.VersionID != version || overlay.Image == nil || overlay.Image.Volume != "golden.qcow2" {
		t.Errorf("the overlay is backed by %+v of version %q", overlay.Image, overlay.VersionID)
	}
	if n := s.countRows("jobs WHERE kind = 'vm.apply' AND state = 'queued' AND subject = '" + string(fleet.SubjectVM(v.ID)) + "'"); n != 1 {
		t.Errorf("%d jobs are queued for the host", n)
	}
	before := []string{blank.Volume, overlay.Volume}
	if err := disks(func(all []fleet.Disk) []fleet.Disk { return all[:3] }); err != nil || len(v.Spec.Disks) != 3 {
		t.Fatalf("without the overlay: %+v, %v", v.Spec.Disks, err)
	}
	if err := disks(func(all []fleet.Disk) []fleet.Disk { return append(all, fleet.Disk{PoolID: s.nfs, SizeBytes: 1 << 30}) }); err != nil {
		t.Fatal(err)
	}
	if again := v.Spec.Disks[3].Volume; again == before[0] || again == before[1] {
		t.Errorf("a new disk has the name %q of a removed disk", again)
	}
	if s.countRows("audit WHERE action = 'vm.edit' AND detail LIKE 'disk "+before[1]+" removed'") != 1 {
		t.Error("the audit line does not name the removed disk")
	}
}

// The name of a raw file ends in .raw, for created and for replaced disks. In a block pool every disk is raw, and names
// have no suffix.
func TestRawDiskFileNamesEndInRaw(t *testing.T) {
	s := newProjectFixture(t)
	s.supportAllFields(someDevicesJSON)
	raw := fleet.Disk{PoolID: s.nfs, SizeBytes: 1 << 30, Format: fleet.Raw}
	made, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: "plain", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{raw, {PoolID: s.nfs, SizeBytes: 1 << 30}}}})
	if err != nil {
		t.Fatal(err)
	}
	if d := made.Spec.Disks; !strings.HasSuffix(d[0].Volume, "-1.raw") || d[0].Format != fleet.Raw || !strings.HasSuffix(d[1].Volume, "-2.qcow2") {
		t.Errorf("the disks are %+v", d)
	}
	v, missing := s.vmWithMissingDisk("web")
	spec := v.Spec
	spec.Disks = append(slices.Clone(spec.Disks), raw)
	got, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
	if err != nil || !strings.HasSuffix(got.Spec.Disks[2].Volume, ".raw") {
		t.Fatalf("an edit gives %+v, %v", got.Spec.Disks, err)
	}
	spec = got.Spec
	spec.Disks = slices.Clone(spec.Disks)
	spec.Disks[2].Format = ""
	s.wantRefused("another format", fleet.Invalid, "This cannot be changed by an edit", func() error {
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
		return err
	})
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,format}', '"raw"') WHERE id = $1`, v.ID)
	s.wantRefused("a replacement with another suffix", fleet.Invalid, "ends in .raw", func() error {
		_, _, err := s.ReplaceDisk(t.Context(), s.member, v.ID, missing, control.NewDisk{Volume: "x.qcow2", SizeBytes: 1 << 30})
		return err
	})
	now, _, err := s.ReplaceDisk(t.Context(), s.member, v.ID, missing, control.NewDisk{Volume: control.NewDiskName(v, fleet.Disk{Volume: "old.raw"}), SizeBytes: 1 << 30})
	if err != nil || !strings.HasSuffix(now.Spec.Disks[0].Volume, ".raw") || now.Spec.Disks[0].Format != fleet.Raw {
		t.Errorf("in its place is %+v, %v", now.Spec.Disks, err)
	}
	s.execSQL(`UPDATE pools SET spec = spec || jsonb_build_object('kind', $2::text) WHERE id = $1`, s.nfs, string(fleet.PoolRBD))
	spec = now.Spec
	spec.Disks = append(slices.Clone(spec.Disks), raw)
	got, _, err = s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Spec: &spec})
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Spec.Disks[3]; !strings.HasSuffix(d.Volume, ".raw") || d.Format != "" {
		t.Errorf("in a pool without files: %+v", d)
	}
}

func TestInvalidNewDisksRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, disk := s.vmWithMissingDisk("web")
	foreign, _ := s.publishImage(s.nfs, []fleet.HostID{s.h1}, "secret.qcow2", "qcow2", 1<<30)
	s.addVolume(s.nfs, s.h1, `{"name":"secret.qcow2","path":"/v/secret.qcow2","format":"qcow2","capacityBytes":1073741824}`)
	s.execSQL(`DELETE FROM image_grants WHERE image_id = $1`, foreign)
	other, _ := s.vmWithMissingDisk("other")
	s.setPoolSizes(s.local, 10<<10, 0, 0)
	spec := func(d ...fleet.Disk) control.UpdateVM {
		return editedSpec(s.getVM(v.ID), func(to *fleet.VMSpec) { to.Disks = append(append([]fleet.Disk{}, to.Disks...), d...) })
	}
	big := spec(fleet.Disk{PoolID: s.local, SizeBytes: 20 << 30})
	big.Overcommit = true
	for name, c := range map[string]struct {
		actor fleet.Actor
		in    control.UpdateVM
		code  fleet.ErrorCode
		says  string
	}{
		"a viewer":                  {s.viewer, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1}), fleet.Forbidden, ""},
		"a user of another project": {s.blueMember, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1}), fleet.NotFound, ""},
		"no pool":                   {s.member, spec(fleet.Disk{PoolID: "x", SizeBytes: 1}), fleet.Invalid, "spec.disks[2].poolId: There is no such pool, or none that is published"},
		"no size":                   {s.member, spec(fleet.Disk{PoolID: s.nfs}), fleet.Invalid, "spec.disks[2].sizeBytes"},
		"a name":                    {s.member, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1, Volume: "mine.qcow2"}), fleet.Invalid, "spec.disks[2].volume"},
		"another's disk":            {s.member, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1, Volume: other.Spec.Disks[0].Volume}), fleet.Invalid, "spec.disks[2].volume"},
		"another's disk as it is":   {s.member, spec(fleet.Disk{PoolID: s.nfs, Existing: true, Volume: other.Spec.Disks[0].Volume}), fleet.Invalid, "spec.disks[2].existing"},
		"the same disk twice":       {s.member, spec(fleet.Disk{PoolID: disk.PoolID, Volume: disk.Volume, SizeBytes: 1 << 30}), fleet.Invalid, "spec.disks[2].volume"},
		"an image of nobody's":      {s.member, spec(fleet.Disk{PoolID: s.nfs, ImageID: fleet.NewID[fleet.ImageID]()}), fleet.Invalid, "spec.disks[2].imageId: There is no such image"},
		"an image of others":        {s.member, spec(fleet.Disk{PoolID: s.nfs, ImageID: foreign}), fleet.Invalid, "spec.disks[2].imageId: There is no such image"},
		"a file that is not theirs": {s.member, spec(fleet.Disk{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "secret.qcow2"}}), fleet.Invalid, "spec.disks[2].image.volume"},
		"too large":                 {s.member, spec(fleet.Disk{PoolID: s.local, SizeBytes: 20 << 30}), fleet.Invalid, "spec.disks[2].sizeBytes: No room"},
		"too large, all the same":   {s.member, big, fleet.Invalid, "Only those who may change infrastructure"},
		"a bus that is none":        {s.member, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1, Bus: "ide"}), fleet.Invalid, "spec.disks[2].bus"},
		"too many": {s.member, spec(func() (all []fleet.Disk) {
			for range fleet.MaxDisks {
				all = append(all, fleet.Disk{PoolID: s.nfs, SizeBytes: 1})
			}
			return all
		}()...), fleet.Invalid, "spec.disks: A VM has at most"},
	} {
		s.wantRefused(name, c.code, c.says, func() error { _, _, err := s.UpdateVM(t.Context(), c.actor, v.ID, c.in); return withFieldErrors(err) })
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	s.wantRefused("an offline host", fleet.Invalid, "", func() error {
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, spec(fleet.Disk{PoolID: s.nfs, SizeBytes: 1}))
		return err
	})
}

// A disk in a snapshot cannot be removed from the VM. A disk that the host has not created yet can be removed.
func TestRemovalRefusedForDiskInSnapshot(t *testing.T) {
	s := newProjectFixture(t)
	v, _ := s.vmWithMissingDisk("web")
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{snapshots}', '{"snapshots":[{"id":"x","name":"before"}]}') WHERE id = $1`, v.ID)
	without := func(i int) func() error {
		return func() error {
			_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), func(to *fleet.VMSpec) {
				to.Disks = slices.Delete(slices.Clone(to.Disks), i, i+1)
			}))
			return err
		}
	}
	s.wantRefused("a disk that the host has created", fleet.Conflict, "cannot be detached: ", without(1))
	if err := without(0)(); err != nil {
		t.Errorf("a disk that the host has not created: %v", err)
	}
}

// The space for an edit's new disks is reserved when the edit is requested, as for new VMs.
func TestNewDisksReservePoolSpace(t *testing.T) {
	s := newProjectFixture(t)
	v, _ := s.vmWithMissingDisk("web")
	s.setPoolSizes(s.local, 10<<10, 0, 0)
	add := func(size int64) error {
		_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(s.getVM(v.ID), func(to *fleet.VMSpec) {
			to.Disks = append(append([]fleet.Disk{}, to.Disks...), fleet.Disk{PoolID: s.local, SizeBytes: size})
		}))
		return err
	}
	if err := add(6 << 30); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("the same space again", fleet.Invalid, "", func() error { return add(6 << 30) })
	if err := add(4 << 30); err != nil {
		t.Fatal(err)
	}
}
