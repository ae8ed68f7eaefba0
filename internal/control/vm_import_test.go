package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/export"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// applianceJSON is a host's report on an appliance file with a disk of 1 MiB and an empty disk.
const applianceJSON = `"format":"ova","capacityBytes":70000,"allocBytes":70000,"appliance":{"name":"Web 01","cpus":2,"memoryMiB":256,"firmware":"bios",` +
	`"disks":[{"member":"disk.vmdk","format":"vmdk","sizeBytes":1048576,"fileBytes":65536,"controller":"pvscsi"},{"sizeBytes":2097152}],"nics":[{"network":"VM Network","model":"vmxnet3"}]}`

// addAppliance adds an appliance file to a pool of h1.
func (s *projectFixture) addAppliance(pool fleet.PoolID, name string) *control.ApplianceFile {
	s.t.Helper()
	s.addVolume(pool, s.h1, `{"name":"`+name+`","path":"/v/`+name+`",`+applianceJSON+`}`)
	return &control.ApplianceFile{PoolID: pool, Volume: name}
}

// A host imports a VM from a file: its disks are converted before the VM is defined, and empty disks are created with
// the VM.
func TestImportApplianceConvertsDisksFirst(t *testing.T) {
	s := newLibraryFixture(t)
	of := s.addAppliance(s.nfs, "web.ova")
	files, err := s.ListAppliances(t.Context(), chief)
	if err != nil || len(files) != 1 || files[0].Name != "web.ova" || len(files[0].Appliance.Disks) != 2 {
		t.Fatalf("%+v %v", files, err)
	}
	spec := files[0].Appliance.Spec(s.local)
	spec.NICs = nil
	vm, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web-1", Spec: spec, Start: true, From: &control.VMSource{Appliance: of}})
	if err != nil {
		t.Fatal(err)
	}
	if now := s.getVM(vm.ID); now.HostID != s.h1 || now.Spec.CPUs != 2 || now.Spec.Disks[0].SizeBytes != 1<<20 || now.Spec.Disks[1].SizeBytes != 2<<20 {
		t.Errorf("%+v", now.Spec)
	}
	w := s.claimOnlyJob(s.h1, fleet.VolumeConvert)
	ref, _ := w.Subject.Volume()
	if o := w.Args.Volume; ref != vm.Spec.Disks[0].Ref() || o.Source != "web.ova" || o.Member != "disk.vmdk" || o.SourcePool != s.nfs || len(w.Pools) != 1 || w.Pools[0].ID != s.nfs {
		t.Errorf("%s %+v %+v", w.Subject, o, w.Pools)
	}
	s.wantRefused("deleted while a disk is converted", fleet.Conflict, "is being copied", func() error { _, err := s.DeleteVM(t.Context(), chief, vm.ID, false, ""); return err })
	s.finishVolume(s.h1, w, `{}`)
	made := s.claimOnlyJob(s.h1, fleet.VMApply)
	if len(made.CreatedDisks) != 1 || made.CreatedDisks[0] != ref { // the empty disk is created with the VM
		t.Errorf("%+v", made.CreatedDisks)
	}
	s.auditActions("vm.create")

	// Without a spec, the VM gets the spec that the portal derives from the appliance file. Its disks are placed in the
	// file's pool. Its NICs use the network of the same name, or else the default network.
	other, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web-2", From: &control.VMSource{Appliance: of}})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.getVM(other.ID).Spec; len(d.Disks) != 2 || d.Disks[0].PoolID != s.nfs || len(d.NICs) != 1 || d.NICs[0].Network != "default" || d.MemoryMiB != 256 {
		t.Errorf("%+v", d)
	}
	w = s.claimOnlyJob(s.h1, fleet.VolumeConvert)
	s.failJob(s.h1, w, "The disk disk.vmdk refers to another disk")
	for _, w := range s.claimedWork(s.h1, fleet.VMApply) {
		s.failJob(s.h1, w, "disk 1 is not there")
	}
	s.addNetwork(fleet.NetworkLibvirt, "VM Network", `{"active":true}`)
	same, err := s.PreviewVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web-3", From: &control.VMSource{Appliance: of}})
	if err != nil || len(same.Spec.NICs) != 1 || same.Spec.NICs[0].Network != "VM Network" {
		t.Errorf("%+v %v", same.Spec.NICs, err)
	}
	tasks, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "target:vm:" + string(other.ID)})
	if err != nil || len(tasks.Items) != 1 || tasks.Items[0].State != fleet.JobFailed || !strings.Contains(tasks.Items[0].Error, "refers to another disk") {
		t.Errorf("%+v %v", tasks.Items, err)
	}
}

func TestInvalidImportRefused(t *testing.T) {
	s := newLibraryFixture(t)
	of := s.addAppliance(s.local, "web.ova")
	s.addVolume(s.local, s.h1, `{"name":"bad.ova","path":"/v/bad.ova","format":"ova","capacityBytes":1,"appliance":{"error":"The archive holds a link."}}`)
	vm := s.stoppedVM("web")
	disks := func(d ...fleet.Disk) fleet.VMSpec {
		out := smallSpec
		out.Disks = d
		return out
	}
	plain := fleet.Disk{PoolID: s.local, SizeBytes: 1}
	for name, c := range map[string]struct {
		who  fleet.Actor
		in   control.CreateVM
		code fleet.ErrorCode
		says string
	}{
		"a member's":               {s.member, control.CreateVM{From: &control.VMSource{Appliance: of}}, fleet.Forbidden, ""},
		"two sources":              {chief, control.CreateVM{From: &control.VMSource{Appliance: of, VMID: vm.ID}}, fleet.Invalid, "Name a template"},
		"a file that is not there": {chief, control.CreateVM{From: &control.VMSource{Appliance: &control.ApplianceFile{PoolID: s.local, Volume: "other.ova"}}}, fleet.NotFound, ""},
		"what is none":             {chief, control.CreateVM{From: &control.VMSource{Appliance: &control.ApplianceFile{PoolID: s.local, Volume: vm.Spec.Disks[0].Volume}}}, fleet.NotFound, ""},
		"one that is refused":      {chief, control.CreateVM{From: &control.VMSource{Appliance: &control.ApplianceFile{PoolID: s.local, Volume: "bad.ova"}}}, fleet.Conflict, "holds a link"},
		"on another host":          {chief, control.CreateVM{HostID: s.h2, From: &control.VMSource{Appliance: of}}, fleet.Invalid, "that has its file"},
		"with a disk too few":      {chief, control.CreateVM{Spec: disks(plain), From: &control.VMSource{Appliance: of}}, fleet.Invalid, "has 2 disks"},
		"with another's disk":      {chief, control.CreateVM{Spec: disks(plain, fleet.Disk{PoolID: s.local, Image: &fleet.Volref{PoolID: s.local, Volume: "x"}}), From: &control.VMSource{Appliance: of}}, fleet.Invalid, "cannot have another source"},
	} {
		c.in.ProjectID, c.in.Name = s.red, "imported"
		s.wantRefused(name, c.code, c.says, func() error { _, err := s.CreateVM(t.Context(), c.who, c.in); return err })
	}
	if n := s.countRows("vms WHERE name = 'imported'"); n != 0 {
		t.Errorf("%d were made", n)
	}
	s.wantRefused("convert an archive", fleet.Conflict, "The volume is not a disk in a format", func() error {
		_, err := s.ConvertVolume(t.Context(), chief, storage.VolumeID{PoolID: s.local, Volume: "web.ova"}, "x.qcow2", false)
		return err
	})
}

// A volume in another format is converted to a volume that can become an image.
func TestConvertVolumeMakesUsableImage(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"disk.vhdx","path":"/v/disk.vhdx","format":"vhdx","capacityBytes":1048576,"appliance":{"disks":[{"format":"vhdx","sizeBytes":1048576}]}}`)
	task, err := s.ConvertVolume(t.Context(), chief, storage.VolumeID{PoolID: s.local, Volume: "disk.vhdx"}, "disk.qcow2", false)
	if err != nil || task.Kind != fleet.VolumeConvert {
		t.Fatalf("%+v %v", task, err)
	}
	w := s.claimOnlyJob(s.h1, fleet.VolumeConvert)
	if o := w.Args.Volume; o.Source != "disk.vhdx" || o.Member != "" || o.TakesBytes != 1<<20 {
		t.Errorf("%+v", o)
	}
	s.wantRefused("deleted while it is read", fleet.Conflict, "convert disk", func() error {
		_, err := s.DeleteVolume(t.Context(), chief, storage.VolumeID{PoolID: s.local, Volume: "disk.vhdx"}, "disk.vhdx")
		return err
	})
}

// Members export their VMs and download the files. Exports are invisible to other projects, and expired ones are
// deleted.
func TestExportVisibleOnlyToItsProject(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	e, err := s.ExportVM(t.Context(), s.member, vm.ID, control.NewExport{Format: "ova"})
	if err != nil {
		t.Fatal(err)
	}
	w := s.claimOnlyJob(s.h1, fleet.VolumeExport)
	x := w.Args.Volume.Export
	if ref, _ := w.Subject.Volume(); ref.PoolID != s.local || ref.Volume != e.Volume || len(x.Disks) != 2 || x.Disks[1] != vm.Spec.Disks[1].Ref() || len(w.Pools) != 2 || w.Pool == nil {
		t.Errorf("%s %+v %+v", w.Subject, x, w.Pools)
	}
	if a := x.Appliance; a.Name != "web" || len(a.Disks) != 2 || a.Disks[0].Member != "web-disk1.vmdk" {
		t.Errorf("%+v", a)
	}
	if e.HostID != "" {
		t.Error("the export names a host to a member")
	}
	s.auditActions("vm.export")
	member := s.member
	s.wantRefused("fetched before it exists", fleet.Conflict, "still being created", func() error { _, _, _, err := s.DownloadExport(t.Context(), member, e.ID); return err })
	s.wantRefused("deleted before it is there", fleet.Conflict, "being made", func() error { return s.DeleteExport(t.Context(), member, e.ID) })
	s.finishVolume(s.h1, w, `{"format":"ova"}`)

	outsider := s.blueMember
	for _, who := range []fleet.Actor{outsider, s.viewer} {
		s.wantRefused("seen by "+who.Name, fleet.CodeOf(func() error { _, err := s.GetExport(t.Context(), who, e.ID); return err }()), "", func() error { _, err := s.GetExport(t.Context(), who, e.ID); return err })
		s.wantRefused("fetched by "+who.Name, fleet.CodeOf(func() error { _, _, _, err := s.DownloadExport(t.Context(), who, e.ID); return err }()), "", func() error { _, _, _, err := s.DownloadExport(t.Context(), who, e.ID); return err })
		s.wantRefused("deleted by "+who.Name, fleet.CodeOf(s.DeleteExport(t.Context(), who, e.ID)), "", func() error { return s.DeleteExport(t.Context(), who, e.ID) })
	}
	s.wantRefused("made by a user of another project", fleet.NotFound, "", func() error {
		_, err := s.ExportVM(t.Context(), outsider, vm.ID, control.NewExport{Format: "ova"})
		return err
	})
	if all, err := s.ListExports(t.Context(), member, vm.ID); err != nil || len(all) != 1 || all[0].State != fleet.JobDone {
		t.Errorf("%+v %v", all, err)
	}
	_, host, name, err := s.DownloadExport(t.Context(), member, e.ID)
	if err != nil || name != e.Volume || host == "h1" {
		t.Errorf("%q of %q, %v", name, host, err)
	}
	s.execSQL(`DELETE FROM jobs WHERE kind = 'volume.read'`)

	// An exported disk is a copy without a backing file. The number of exports per project is limited.
	d, err := s.ExportVM(t.Context(), s.member, vm.ID, control.NewExport{Format: "qcow2", Disk: 2, PoolID: s.local})
	if err != nil {
		t.Fatal(err)
	}
	w = s.claimOnlyJob(s.h1, fleet.VolumeCopy)
	if o := w.Args.Volume; !o.Flatten || o.Source != vm.Spec.Disks[1].Volume || o.SourcePool != s.nfs || !strings.HasPrefix(d.Volume, "web-disk2-") {
		t.Errorf("%s: %+v", d.Volume, o)
	}
	s.failJob(s.h1, w, "No space left on device")
	for range export.MaxPerProject - 2 {
		if _, err := s.ExportVM(t.Context(), s.member, vm.ID, control.NewExport{Format: "ova"}); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("one too many", fleet.TooMany, "10 exports", func() error {
		_, err := s.ExportVM(t.Context(), s.member, vm.ID, control.NewExport{Format: "ova"})
		return err
	})
	for _, w := range s.claimedWork(s.h1, fleet.VolumeExport) {
		s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Failed, Error: "x"})
	}
	s.execSQL(`UPDATE exports SET expires_at = now() - interval '1 second' WHERE id = $1`, e.ID)
	if err := s.DeleteStaleExports(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetExport(t.Context(), member, e.ID); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("an expired export remains: %v", err)
	}
	gone := s.claimOnlyJob(s.h1, fleet.VolumeDelete)
	if ref, _ := gone.Subject.Volume(); ref.Volume != e.Volume || ref.PoolID != s.local {
		t.Errorf("%s is deleted, not %s", gone.Subject, e.Volume)
	}
}

func TestInvalidExportRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	for name, c := range map[string]struct {
		vm   fleet.VMID
		in   control.NewExport
		code fleet.ErrorCode
		says string
	}{
		"as something else":          {vm.ID, control.NewExport{Format: "iso"}, fleet.Invalid, "as ova"},
		"a disk that there is not":   {vm.ID, control.NewExport{Format: "qcow2", Disk: 2}, fleet.Invalid, "has 1 disks"},
		"a disk of no number":        {vm.ID, control.NewExport{Format: "qcow2", Disk: -1}, fleet.Invalid, "has 1 disks"},
		"an archive of one disk":     {vm.ID, control.NewExport{Format: "ova", Disk: 1}, fleet.Invalid, "all disks"},
		"into a pool of others":      {vm.ID, control.NewExport{Format: "ova", PoolID: s.nfs}, fleet.Invalid, "that the VM uses"},
		"a VM that nobody has":       {fleet.NewID[fleet.VMID](), control.NewExport{Format: "ova"}, fleet.NotFound, ""},
		"into a pool that is not id": {vm.ID, control.NewExport{Format: "ova", PoolID: "x"}, fleet.Invalid, ""},
	} {
		s.wantRefused(name, c.code, c.says, func() error { _, err := s.ExportVM(t.Context(), s.member, c.vm, c.in); return err })
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{power}', '"running"') WHERE id = $1`, vm.ID)
	s.wantRefused("while it runs", fleet.Conflict, "The VM is on", func() error {
		_, err := s.ExportVM(t.Context(), s.member, vm.ID, control.NewExport{Format: "ova"})
		return err
	})
	if s.countRows("exports") != 0 {
		t.Error("a refused export was stored")
	}
}
