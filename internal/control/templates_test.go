package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/internal/wire"
)

// stoppedVM returns a VM of project red with a disk in the local pool, created and reported as off.
func (s *libraryFixture) stoppedVM(name string, disks ...fleet.Disk) fleet.VMView {
	s.t.Helper()
	in := control.CreateVM{ProjectID: s.red, Name: name, HostID: s.h1, Spec: smallSpec}
	if in.Spec.Disks = disks; disks == nil {
		in.Spec.Disks = []fleet.Disk{{PoolID: s.local, SizeBytes: 1 << 20}}
	}
	vm, err := s.CreateVM(s.t.Context(), chief, in)
	if err != nil {
		s.t.Fatal(err)
	}
	s.finishCreation(vm)
	return s.getVM(vm.ID)
}

// finishCreation finishes the VM's creation. The VM is then off.
func (s *libraryFixture) finishCreation(vm fleet.VMView) {
	s.t.Helper()
	for _, w := range s.claimedWork(vm.HostID, fleet.VMApply) {
		s.finishJobWith(vm.HostID, w, wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	}
}

func (s *libraryFixture) getTemplate(a fleet.Actor, id fleet.TemplateID) template.View {
	s.t.Helper()
	v, err := s.GetTemplate(s.t.Context(), a, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// newTemplate returns a template of the VM with complete images.
func (s *libraryFixture) newTemplate(name string, vm fleet.VMView) template.View {
	s.t.Helper()
	id, _, err := s.AddTemplate(s.t.Context(), s.member, control.NewTemplate{Name: name, TemplateSource: control.TemplateSource{VMID: vm.ID}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.finishCopies(vm.HostID, someSHA256)
	return s.getTemplate(s.member, id)
}

// finishCopies finishes all queued copies on the host.
func (s *libraryFixture) finishCopies(host fleet.HostID, sum string) {
	s.t.Helper()
	for _, w := range s.claimedWork(host, fleet.VolumeCopy) {
		s.finishVolume(host, w, `{"sha256":"`+sum+`"}`)
	}
}

// A member makes a template from a VM that is off. Each disk is copied to an image of the template. The template's spec
// lacks the VM's name and addresses.
func TestMembersCreateTemplates(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20}, fleet.Disk{PoolID: s.nfs, SizeBytes: 2 << 20})
	id, task, err := s.AddTemplate(t.Context(), s.member, control.NewTemplate{Name: "Web base", OS: fleet.OSFacts{Family: "linux"}, TemplateSource: control.TemplateSource{VMID: vm.ID, Note: "with nginx"}})
	if err != nil || task.ProjectID != s.red || task.HostName != "" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("template.create")
	v := s.getTemplate(s.member, id)
	if why := v.Versions[0].WhyUnusable(); !strings.Contains(why, "is still being created.") || v.ProjectID != s.red || v.PublishedToText() != "red" {
		t.Errorf("%q %+v", why, v)
	}
	works := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(works) != 2 || queryWithArgs[int](s.projectFixture, `SELECT count(DISTINCT task_id) FROM jobs WHERE kind = 'volume.copy'`) != 1 {
		t.Fatalf("%+v", works)
	}
	for i, w := range works {
		ref, _ := w.Subject.Volume()
		if o := w.Args.Volume; !o.Flatten || o.Source != vm.Spec.Disks[i].Volume || ref.Volume != fmt.Sprintf("Web-base-disk-%d-v1.qcow2", i+1) || ref.PoolID != vm.Spec.Disks[i].PoolID {
			t.Errorf("%s %+v", w.Subject, o)
		}
		s.finishVolume(s.h1, w, `{"sha256":"`+someSHA256+`"}`)
	}
	v = s.getTemplate(s.member, id)
	x := v.Versions[0]
	if x.WhyUnusable() != "" || x.Number != 1 || x.Note != "with nginx" || x.Spec.Power != "" || x.Spec.Disks[0].Volume != "" || x.Spec.Disks[0].ImageID == "" || !x.Disks[1].Own || x.Disks[0].Where != nil {
		t.Errorf("%+v", x)
	}
	image := s.getImage(chief, x.Spec.Disks[0].ImageID)
	if image.Template != "Web base" || image.Name != "Web base disk 1" || image.PublishedToText() != "red" || image.ProjectID != s.red {
		t.Errorf("%+v", image)
	}
	if all, err := s.UsableImages(t.Context(), s.member, s.red); err != nil || strings.Contains(fmt.Sprint(all), "Web base") {
		t.Errorf("the disk of a template is offered alone: %v %v", all, err)
	}

	// The disks of a second version become new versions of the same images. The images are named after the template.
	if _, err := s.AddTemplateVersion(t.Context(), s.member, id, control.TemplateSource{VMID: vm.ID}); err != nil {
		t.Fatal(err)
	}
	s.finishCopies(s.h1, strings.Repeat("1", 64))
	name := "Web"
	if err := s.EditTemplate(t.Context(), s.member, id, control.EditTemplate{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if v = s.getTemplate(s.member, id); len(v.Versions) != 2 || v.Versions[0].Number != 2 || v.Versions[0].Spec.Disks[0].ImageID != x.Spec.Disks[0].ImageID || v.Versions[0].Spec.Disks[0].VersionID == x.Spec.Disks[0].VersionID {
		t.Errorf("%+v", v.Versions)
	}
	if image = s.getImage(chief, image.ID); image.Name != "Web disk 1" || len(image.Versions) != 2 {
		t.Errorf("%+v", image)
	}
}

func TestTemplatesUsableOnlyByGrantedProjects(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	v := s.newTemplate("Web", vm)
	elsewhere := s.addProjectMember("eve", s.blue, fleet.RoleMember)
	elsewhere.Projects[s.red] = fleet.RoleViewer
	of := control.TemplateVersion{TemplateID: v.ID, VersionID: v.Versions[0].ID}
	use := func(a fleet.Actor, project fleet.ProjectID, name string) func() error {
		return func() error {
			_, err := s.CreateVM(t.Context(), a, control.CreateVM{ProjectID: project, Name: name, From: &control.VMSource{TemplateID: v.ID}})
			return err
		}
	}
	edit := func(a fleet.Actor) func() error {
		return func() error {
			return s.EditTemplate(t.Context(), a, v.ID, control.EditTemplate{Name: new("Other")})
		}
	}
	remove := func(a fleet.Actor) func() error {
		return func() error { _, err := s.DeleteTemplate(t.Context(), a, v.ID, "Web"); return err }
	}
	grant := func(a fleet.Actor) func() error {
		return func() error { return s.GrantTemplate(t.Context(), a, v.ID, s.blue) }
	}
	version := func(a fleet.Actor, vm fleet.VMID) func() error {
		return func() error {
			_, err := s.AddTemplateVersion(t.Context(), a, v.ID, control.TemplateSource{VMID: vm})
			return err
		}
	}
	alien := s.stoppedVM("alien")
	s.execSQL(`UPDATE vms SET project_id = $2 WHERE id = $1`, alien.ID, s.blue)
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		do   func() error
	}{
		{"a user of another project looks", fleet.NotFound, "no such template", func() error { _, err := s.GetTemplate(t.Context(), s.blueMember, v.ID); return err }},
		{"a user of another project looks at its image", fleet.NotFound, "no such image", func() error {
			_, err := s.GetImage(t.Context(), s.blueMember, v.Versions[0].Spec.Disks[0].ImageID)
			return err
		}},
		{"a user of another project uses it", fleet.Invalid, "no such template", use(s.blueMember, s.blue, "w")},
		{"who sees it uses it in another project", fleet.Invalid, "no such template, or none that is published to the project", use(elsewhere, s.blue, "w")},
		{"a viewer uses it", fleet.Forbidden, "do not have permission", use(s.viewer, s.red, "w")},
		{"a user of another project edits it", fleet.NotFound, "no such template", edit(s.blueMember)},
		{"a viewer edits it", fleet.Forbidden, "do not have permission", edit(s.viewer)},
		{"a member of another project edits it", fleet.Forbidden, "do not have permission", edit(elsewhere)},
		{"a user of another project deletes it", fleet.NotFound, "no such template", remove(s.blueMember)},
		{"a viewer deletes it", fleet.Forbidden, "do not have permission", remove(s.viewer)},
		{"a user of another project adds a version", fleet.NotFound, "no such template", version(s.blueMember, alien.ID)},
		{"of another project's VM", fleet.NotFound, "no such VM", version(s.member, alien.ID)},
		{"of another project's VM, by who runs hosts", fleet.Conflict, "The template belongs to the project red, and the VM alien to another project.", version(chief, alien.ID)},
		{"a member publishes it", fleet.Forbidden, "do not have permission", grant(s.member)},
		{"a viewer deprecates a version", fleet.Forbidden, "do not have permission", func() error { return s.DeprecateTemplateVersion(t.Context(), s.viewer, of, true) }},
		{"another project's user deletes a version", fleet.NotFound, "no such template", func() error { _, err := s.DeleteTemplateVersion(t.Context(), s.blueMember, of, "Web"); return err }},
		{"a template of another project's VM", fleet.NotFound, "no such VM", func() error {
			_, _, err := s.AddTemplate(t.Context(), s.member, control.NewTemplate{Name: "Theirs", TemplateSource: control.TemplateSource{VMID: alien.ID}})
			return err
		}},
		{"its image alone is published", fleet.Conflict, "belongs to a template", func() error {
			return s.GrantImage(t.Context(), chief, v.Versions[0].Spec.Disks[0].ImageID, s.blue)
		}},
		{"its image alone is renamed", fleet.Conflict, "belongs to a template", func() error {
			return s.EditImage(t.Context(), chief, v.Versions[0].Spec.Disks[0].ImageID, control.EditImage{Name: new("Mine")})
		}},
		{"its image alone is deleted", fleet.Conflict, "which is deleted with all its disks", func() error {
			_, err := s.DeleteImage(t.Context(), chief, v.Versions[0].Spec.Disks[0].ImageID, "Web disk 1", true)
			return err
		}},
	} {
		s.wantRefused(c.name, c.code, c.says, c.do)
	}
	if err := grant(chief)(); err != nil {
		t.Fatal(err)
	}
	s.auditActions("template.grant")
	if err := use(s.blueMember, s.blue, "w")(); err != nil {
		t.Errorf("it is published to the project: %v", err)
	}
	told := s.getTemplate(s.blueMember, v.ID)
	if text := fmt.Sprintf("%+v", told); strings.Contains(text, "mia") || strings.Contains(text, "VM web") || strings.Contains(text, string(s.red)) || told.PublishedToText() != "blue" {
		t.Errorf("another project gets %+v", told)
	}
	for actor, want := range map[*fleet.Actor]int{&s.blueMember: 0, &chief: 1} { // the name of the template's project is redacted for the first
		if all, err := s.ListTemplates(t.Context(), *actor, fleet.Query{Filter: "project:red"}); err != nil || len(all.Items) != want {
			t.Errorf("%s filters by the project: %+v, %v", actor.Name, all.Items, err)
		}
	}
	if all, err := s.ListTemplates(t.Context(), s.blueMember, fleet.Query{}); err != nil || len(all.Items) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	if err := s.RevokeTemplate(t.Context(), chief, v.ID, s.blue); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("withdrawn", fleet.Invalid, "no such template", use(s.blueMember, s.blue, "w2"))
	if text := s.getTemplate(s.member, v.ID).Versions[0]; text.Others != 1 || text.OthersLinked != 1 || len(text.VMs) != 0 {
		t.Errorf("the template's project sees VMs of another project: %+v", text)
	}
	s.wantRefused("deleted while another project is backed by it", fleet.Conflict, "of other projects are backed by version 1", remove(s.member))
	if err := remove(s.member)(); strings.Contains(err.Error(), "VM w") {
		t.Errorf("a member gets whose disks: %v", err)
	}
}

func TestInvalidTemplateSourceRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web")
	ask := func(in control.NewTemplate) func() error {
		return func() error { _, _, err := s.AddTemplate(t.Context(), s.member, in); return err }
	}
	of := control.TemplateSource{VMID: vm.ID}
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		in   control.NewTemplate
	}{
		{"no name", fleet.Invalid, "Enter a name: one line", control.NewTemplate{TemplateSource: of}},
		{"two lines", fleet.Invalid, "one line", control.NewTemplate{Name: "a\nb", TemplateSource: of}},
		{"spaces around", fleet.Invalid, "one line", control.NewTemplate{Name: " a", TemplateSource: of}},
		{"NUL", fleet.Invalid, "The name of the template", control.NewTemplate{Name: "a\x00", TemplateSource: of}},
		{"no UTF-8", fleet.Invalid, "The name of the template", control.NewTemplate{Name: "a\xff", TemplateSource: of}},
		{"text turned round", fleet.Invalid, "invisible characters", control.NewTemplate{Name: "a\u202eb", TemplateSource: of}},
		{"too long", fleet.Invalid, "200 bytes", control.NewTemplate{Name: strings.Repeat("a", 201), TemplateSource: of}},
		{"a long description", fleet.Invalid, "description", control.NewTemplate{Name: "A", Description: strings.Repeat("a", 5000), TemplateSource: of}},
		{"no family", fleet.Invalid, "family", control.NewTemplate{Name: "A", OS: fleet.OSFacts{Family: "plan9"}, TemplateSource: of}},
		{"a long note", fleet.Invalid, "500 bytes", control.NewTemplate{Name: "A", TemplateSource: control.TemplateSource{VMID: vm.ID, Note: strings.Repeat("a", 501)}}},
		{"no VM", fleet.Invalid, "Choose the source VM", control.NewTemplate{Name: "A"}},
		{"no id", fleet.NotFound, "no such VM", control.NewTemplate{Name: "A", TemplateSource: control.TemplateSource{VMID: "'; DROP TABLE vms"}}},
		{"of images that there are not", fleet.Conflict, "was not created from a library image.", control.NewTemplate{Name: "A", TemplateSource: control.TemplateSource{VMID: vm.ID, OfImages: true}}},
	} {
		s.wantRefused(c.name, c.code, c.says, ask(c.in))
	}
	for status, says := range map[string]string{
		`{"power":"absent"}`: "not on its host",
		`{"power":"stopped","drift":[{"field":"disks","applied":"a","actual":"b"}]}`: "disks were changed on the host",
	} {
		s.execSQL(`UPDATE vms SET status = $2 WHERE id = $1`, vm.ID, status)
		s.wantRefused(status, fleet.Conflict, says, ask(control.NewTemplate{Name: "A", TemplateSource: of}))
	}
	s.execSQL(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, vm.ID)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	s.wantRefused("its host is offline", fleet.Conflict, "offline", ask(control.NewTemplate{Name: "A", TemplateSource: of}))
	s.markOnline()
	if err := ask(control.NewTemplate{Name: "A", TemplateSource: of})(); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("its name again", fleet.Conflict, "exists in red already", ask(control.NewTemplate{Name: "A", TemplateSource: of}))
	s.wantRefused("while its disk is read", fleet.Conflict, "in use", ask(control.NewTemplate{Name: "B", TemplateSource: of}))
	s.execSQL(`INSERT INTO templates (id, project_id, name, created_by) SELECT 'id-' || n, $1, 'n' || n, 'mia' FROM generate_series(1, $2::integer) n`, s.red, template.MaxPerProject)
	s.wantRefused("more than a project may have", fleet.Conflict, "which is the maximum", ask(control.NewTemplate{Name: "Last", TemplateSource: of}))
}

// A template can refer to the library images that the VM's disks were created from. Such a template is ready at once,
// even if the VM is running. The images stay when the template is deleted.
func TestTemplateCanReferToExistingImages(t *testing.T) {
	s := newLibraryFixture(t)
	image, version := s.publishImage(s.nfs, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', status->'volumes' || '[{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1048576}]') WHERE pool_id = $1`, s.nfs)
	vm, err := s.createFromImage(s.member, s.red, "web", fleet.Disk{PoolID: s.nfs, ImageID: image, Overlay: true})
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE vms SET status = '{"power":"running"}', observed_generation = 1 WHERE id = $1`, vm.ID)
	id, task, err := s.AddTemplate(t.Context(), s.member, control.NewTemplate{Name: "Web", TemplateSource: control.TemplateSource{VMID: vm.ID, OfImages: true}})
	if err != nil || task.ID != "" {
		t.Fatalf("%+v %v", task, err)
	}
	v := s.getTemplate(s.member, id)
	if x := v.Versions[0]; x.WhyUnusable() != "" || x.Disks[0].Own || x.Spec.Disks[0].VersionID != version || x.VMs[0].Name != "web" {
		t.Errorf("%+v", x)
	}
	s.wantRefused("deleted, while linked clones are backed by the image", fleet.Conflict, "VM web", func() error { _, err := s.DeleteTemplate(t.Context(), s.member, id, "Web"); return err })
	s.execSQL(`DELETE FROM vms`)
	if tasks, err := s.DeleteTemplate(t.Context(), s.member, id, "Web"); err != nil || len(tasks) != 0 {
		t.Fatalf("%v %v", tasks, err)
	}
	s.getImage(chief, image)
}
