package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/template"
)

// Disks of VMs from a template are overlays backed by the template's images, or full copies. A version cannot be
// deleted while overlays are backed by its images.
func TestVMsFromTemplateUseOverlaysOrCopies(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	group := s.addSecurityGroup(chief, s.red, "only-red")
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{nics}', jsonb_build_array(jsonb_build_object('networkId', (SELECT id FROM networks), 'mac', '52:54:00:00:00:09', 'securityGroups', jsonb_build_array($2::text), 'antiSpoofing', true))) WHERE id = $1`, vm.ID, group.ID)
	v := s.newTemplate("Web", vm)
	first := v.Versions[0]
	use := func(in control.VMSource, name string, project fleet.ProjectID) fleet.VMView {
		t.Helper()
		in.TemplateID = v.ID
		made, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: project, Name: name, From: &in})
		if err != nil {
			t.Fatal(err)
		}
		return s.getVM(made.ID)
	}
	linked := use(control.VMSource{}, "linked", s.red)
	if d := linked.Spec.Disks[0]; !d.Overlay || d.VersionID != first.Spec.Disks[0].VersionID || d.PoolID != s.local || d.Image == nil || d.Image.Volume != "Web-disk-1-v1.qcow2" || d.ImageSHA256 != someSHA256 {
		t.Errorf("%+v", d)
	}
	if n := linked.Spec.NICs[0]; n.MAC == "" || n.MAC == "52:54:00:00:00:09" || len(n.SecurityGroups) != 1 || !n.HasAntiSpoofing() {
		t.Errorf("its NIC: %+v", n)
	}
	full := use(control.VMSource{VersionID: first.ID, Full: true, PoolID: s.nfs}, "full", s.red)
	if d := full.Spec.Disks[0]; d.Overlay || d.PoolID != s.nfs || d.Image == nil {
		t.Errorf("%+v", d)
	}
	if other := use(control.VMSource{}, "other", s.blue); len(other.Spec.NICs[0].SecurityGroups) != 0 {
		t.Errorf("a group of another project is kept: %+v", other.Spec.NICs[0])
	}
	if x := s.getTemplate(chief, v.ID).Versions[0]; len(x.VMs) != 3 || x.VMs[1] != (template.VM{ID: linked.ID, Name: "linked", Linked: true}) || x.VMs[0].Linked {
		t.Errorf("%+v", x.VMs)
	}
	of := control.TemplateVersion{TemplateID: v.ID, VersionID: first.ID}
	remove := func() error { _, err := s.DeleteTemplateVersion(t.Context(), chief, of, "Web"); return err }
	s.wantRefused("delete a version that backs clones", fleet.Conflict, "VM linked, VM other", remove)
	s.execSQL(`DELETE FROM vms WHERE id <> ALL ($1::text[])`, []string{string(vm.ID), string(full.ID)})
	s.wantRefused("delete a volume that a VM is created from", fleet.Conflict, "The VM full is being created from the volume.", remove)
	s.finishCreation(full)
	s.execSQL(`UPDATE vms SET observed_generation = generation WHERE id = $1`, full.ID)
	s.wantRefused("without its name", fleet.Invalid, "Type the template's name", func() error { _, err := s.DeleteTemplateVersion(t.Context(), chief, of, "web"); return err })
	images := s.countRows("images")
	tasks, err := s.DeleteTemplateVersion(t.Context(), chief, of, "Web")
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v %v", tasks, err)
	}
	if s.countRows("images") != images-1 || len(s.getTemplate(chief, v.ID).Versions) != 0 {
		t.Errorf("%d images are left of %d", s.countRows("images"), images)
	}
	s.wantRefused("use it", fleet.Conflict, "has no version", func() error {
		_, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "late", From: &control.VMSource{TemplateID: v.ID}})
		return err
	})
}

func TestInvalidTemplateAsVMSourceRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	v := s.newTemplate("Web", vm)
	other := s.newTemplate("Other", vm)
	ask := func(in control.CreateVM) func() error {
		if in.Name == "" {
			in.Name = "new"
		}
		in.ProjectID = s.red
		return func() error { _, err := s.CreateVM(t.Context(), s.member, in); return err }
	}
	with := func(from control.VMSource) func() error { return ask(control.CreateVM{From: &from}) }
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		do   func() error
	}{
		{"neither", fleet.Invalid, "a template, a VM or an appliance", with(control.VMSource{})},
		{"both", fleet.Invalid, "a template, a VM or an appliance", with(control.VMSource{TemplateID: v.ID, VMID: vm.ID})},
		{"none that there is", fleet.Invalid, "no such template", with(control.VMSource{TemplateID: fleet.NewID[fleet.TemplateID]()})},
		{"no id", fleet.Invalid, "no such template", with(control.VMSource{TemplateID: "../x"})},
		{"a version of another", fleet.Invalid, "no such version", with(control.VMSource{TemplateID: v.ID, VersionID: other.Versions[0].ID})},
		{"no such pool", fleet.Invalid, "", with(control.VMSource{TemplateID: v.ID, PoolID: fleet.NewID[fleet.PoolID]()})},
		{"a name of another VM", fleet.Conflict, "exists in red already", ask(control.CreateVM{Name: "web", From: &control.VMSource{TemplateID: v.ID}})},
		{"a bad name", fleet.Invalid, "lower-case", ask(control.CreateVM{Name: "New VM", From: &control.VMSource{TemplateID: v.ID}})},
		{"a spec without a CPU", fleet.Invalid, "vCPUs", ask(control.CreateVM{Spec: fleet.VMSpec{MemoryMiB: 256}, From: &control.VMSource{TemplateID: v.ID}})},
		{"no such VM", fleet.Invalid, "no such VM", with(control.VMSource{VMID: fleet.NewID[fleet.VMID]()})},
	} {
		s.wantRefused(c.name, c.code, c.says, c.do)
	}
	of := control.TemplateVersion{TemplateID: v.ID, VersionID: v.Versions[0].ID}
	if err := s.DeprecateTemplateVersion(t.Context(), s.member, of, true); err != nil {
		t.Fatal(err)
	}
	s.auditActions("template.deprecate")
	s.wantRefused("deprecated twice", fleet.Conflict, "The version is already deprecated.", func() error { return s.DeprecateTemplateVersion(t.Context(), s.member, of, true) })
	s.wantRefused("from a deprecated version", fleet.Conflict, "deprecated", with(control.VMSource{TemplateID: v.ID, VersionID: of.VersionID}))
	s.wantRefused("when all are deprecated", fleet.Conflict, "All versions are deprecated.", with(control.VMSource{TemplateID: v.ID}))
	if err := s.DeprecateTemplateVersion(t.Context(), s.member, of, false); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("offered twice", fleet.Conflict, "The version is not deprecated.", func() error { return s.DeprecateTemplateVersion(t.Context(), s.member, of, false) })
	if err := with(control.VMSource{TemplateID: v.ID})(); err != nil {
		t.Error(err)
	}

	// A failed copy leaves a version that is unusable and can be deleted.
	if _, err := s.AddTemplateVersion(t.Context(), s.member, other.ID, control.TemplateSource{VMID: vm.ID}); err != nil {
		t.Fatal(err)
	}
	for _, w := range s.claimedWork(s.h1, fleet.VolumeCopy) {
		s.failJob(s.h1, w, "No space left on device")
	}
	told := s.getTemplate(s.member, other.ID).Versions[0]
	if why := told.WhyUnusable(); !strings.Contains(why, "disk 1 cannot be read now") || strings.Contains(why, "local") {
		t.Errorf("a member gets %q", why)
	}
	if tasks, err := s.DeleteTemplateVersion(t.Context(), s.member, control.TemplateVersion{TemplateID: other.ID, VersionID: told.ID}, "Other"); err != nil || len(tasks) != 0 {
		t.Errorf("%v %v", tasks, err)
	}
	// The older version is the newest again. The request is refused only because the VM's name is in use.
	if err := with(control.VMSource{TemplateID: other.ID})(); fleet.CodeOf(err) != fleet.Conflict {
		t.Error(err)
	}
}
