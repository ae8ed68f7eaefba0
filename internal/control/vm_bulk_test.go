package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/vmedit"
	"quantix/internal/wire"
)

// A bulk creation is one task with a child per VM. The child shows the result for its VM.
func TestBulkCreateIsOneTaskWithChildPerVM(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	v := s.newTemplate("Web", s.stoppedVM("web"))
	ask := control.CreateVMs{
		CreateVM:  control.CreateVM{ProjectID: s.red, Name: "w-{nn}", From: &control.VMSource{TemplateID: v.ID}, Start: true, Labels: map[string]string{"env": "prod"}},
		BulkNames: vmedit.BulkNames{Count: 25, First: 8},
	}
	task, err := s.CreateVMs(t.Context(), s.member, ask)
	if err != nil || task.SubjectName != "w-08 – w-32" || task.Title() != "Create" || task.Steps == nil || task.Steps.Queued != 25 {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("vms.create")
	if n := s.countRows("vms"); n != 1 {
		t.Errorf("%d VMs exist before their children ran", n)
	}
	// Another user creates a VM named w-10 before the child task for w-10 runs.
	s.execSQL(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ('x', $1, $2, 'w-10', '{"power":"stopped","cpus":1,"memoryMiB":128,"firmware":"bios"}')`, s.red, s.h1)
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("vms WHERE name LIKE 'w-%' AND labels = '{\"env\":\"prod\"}' AND spec->>'power' = 'running'"); n != 24 {
		t.Errorf("%d VMs were made", n)
	}
	if n := s.countRows("vm_orders"); n != 0 {
		t.Errorf("the stored request remains")
	}
	children, err := s.ListTasks(t.Context(), s.member, fleet.Query{Filter: "parent:" + string(task.ID), Limit: 50})
	if err != nil || len(children.Items) != 25 {
		t.Fatalf("%d %v", len(children.Items), err)
	}
	for _, c := range children.Items {
		if (c.SubjectName == "w-10") != (c.State == fleet.JobFailed) || c.SubjectName == "w-10" && !strings.Contains(c.Error, "exists in red already") || c.Title() != "Create" {
			t.Errorf("%s: %s %q", c.SubjectName, c.State, c.Error)
		}
	}
	// A child task ends only after its VM has been created and started.
	first := queryWithArgs[string](s.projectFixture, `SELECT id FROM vms WHERE name = 'w-08'`)
	subject := fleet.SubjectVM(fleet.VMID(first))
	if jobs := queryWithArgs[string](s.projectFixture, `SELECT string_agg(kind, ' ' ORDER BY id) FROM jobs WHERE subject = $1`, subject); jobs != "vm.apply vm.start" {
		t.Errorf("its jobs are %s", jobs)
	}
	for range 2 {
		claim, err := s.Claim(t.Context(), s.agents[s.h1], wire.ClaimRequest{Max: 64}, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range claim.Jobs {
			if w.Subject == subject {
				if state := queryWithArgs[string](s.projectFixture, `SELECT state FROM tasks WHERE subject = $1`, subject); state != "running" {
					t.Errorf("the child is %s while %s is at work", state, w.Kind)
				}
				s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Running}})
			}
		}
	}
	if state := queryWithArgs[string](s.projectFixture, `SELECT string_agg(state, ' ') FROM tasks WHERE subject = $1`, subject); state != "done" {
		t.Errorf("the child is %s", state)
	}
}

// Settings that several VMs cannot share are refused, and nothing is written.
func TestInvalidBulkCreateRefused(t *testing.T) {
	s := newLibraryFixture(t)
	vm := s.stoppedVM("web-2")
	v := s.newTemplate("Web", vm)
	ask := func(a fleet.Actor, name string, series vmedit.BulkNames, change func(*control.CreateVM)) func() error {
		in := control.CreateVMs{CreateVM: control.CreateVM{ProjectID: s.red, Name: name, From: &control.VMSource{TemplateID: v.ID}}, BulkNames: series}
		if change != nil {
			change(&in.CreateVM)
		}
		return func() error { _, err := s.CreateVMs(t.Context(), a, in); return err }
	}
	three := vmedit.BulkNames{Count: 3}
	token := fleet.Actor{Name: "a host", Projects: s.member.Projects}
	with := func(change func(*fleet.VMSpec)) func(*control.CreateVM) {
		return func(in *control.CreateVM) {
			in.From, in.Spec = nil, smallSpec
			change(&in.Spec)
		}
	}
	for _, c := range []struct {
		name string
		code fleet.ErrorCode
		says string
		do   func() error
	}{
		{"no counter", fleet.Invalid, "VMs need a counter in their name:", ask(s.member, "web", three, nil)},
		{"too many", fleet.Invalid, "1 to 100", ask(s.member, "web-{n}", vmedit.BulkNames{Count: 1000}, nil)},
		{"a name that there is", fleet.Conflict, `"web-2" exists`, ask(s.member, "web-{n}", three, nil)},
		{"one that there is, alone", fleet.Conflict, `"web-2" exists`, ask(s.member, "web-{n}", vmedit.BulkNames{First: 2}, nil)},
		{"a name that is none", fleet.Invalid, "lower-case", ask(s.member, "Web-{n}", three, nil)},
		{"by a user of another project", fleet.NotFound, "no such", ask(s.blueMember, "w-{n}", three, nil)},
		{"by a viewer", fleet.Forbidden, "do not have permission", ask(s.viewer, "w-{n}", three, nil)},
		{"by nobody", fleet.Unauthorized, "Sign in", ask(token, "w-{n}", three, nil)},
		{"one address", fleet.Invalid, "cannot have the same address", ask(chief, "w-{n}", three, with(func(spec *fleet.VMSpec) { spec.NICs = []fleet.NIC{{Network: "default", MAC: "52:54:00:12:34:56"}} }))},
		{"one LUN", fleet.Invalid, "cannot have the same LUN", ask(chief, "w-{n}", three, with(func(spec *fleet.VMSpec) { spec.Disks = []fleet.Disk{{PoolID: s.nfs, Volume: "a", Existing: true}} }))},
		{"no memory", fleet.Invalid, "MiB of memory", ask(chief, "w-{n}", three, with(func(spec *fleet.VMSpec) { spec.MemoryMiB = 1 }))},
		{"no host is large enough", fleet.Invalid, "memory", ask(s.member, "w-{n}", three, with(func(spec *fleet.VMSpec) { spec.MemoryMiB = 1 << 20 }))},
		{"a version that does not exist", fleet.Invalid, "no such version", ask(s.member, "w-{n}", three, func(in *control.CreateVM) { in.From.VersionID = "x" })},
		{"no project", fleet.Invalid, "Choose the project", ask(s.member, "w-{n}", three, func(in *control.CreateVM) { in.ProjectID = "" })},
	} {
		tasks := s.countRows("tasks")
		s.wantRefused(c.name, c.code, c.says, c.do)
		if s.countRows("tasks") != tasks || s.countRows("vm_orders") != 0 {
			t.Errorf("%s left a task", c.name)
		}
	}
}

// No further VM is created after the person has lost the permission. All VMs are created from the template version that
// was the newest at the time of the request.
func TestBulkCreateUsesRequestedVersionAndCurrentPermissions(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')`, s.red, s.member.UserID)
	vm := s.stoppedVM("web")
	v := s.newTemplate("Web", vm)
	ask := control.CreateVMs{CreateVM: control.CreateVM{ProjectID: s.red, Name: "w-{n}", From: &control.VMSource{TemplateID: v.ID}}, BulkNames: vmedit.BulkNames{Count: 2}}
	if _, err := s.CreateVMs(t.Context(), s.member, ask); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddTemplateVersion(t.Context(), s.member, v.ID, control.TemplateSource{VMID: vm.ID}); err != nil {
		t.Fatal(err)
	}
	s.finishCopies(s.h1, strings.Repeat("2", 64))
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := queryWithArgs[int](s.projectFixture, `SELECT count(*) FROM vms WHERE spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('versionId', $1::text)))`, v.Versions[0].Spec.Disks[0].VersionID); n != 2 {
		t.Errorf("%d are of the version that was requested: %s", n, queryWithArgs[string](s.projectFixture, `SELECT string_agg(state || error, ' ') FROM tasks WHERE parent_id IS NOT NULL`))
	}
	ask.Name = "x-{n}"
	if _, err := s.CreateVMs(t.Context(), s.member, ask); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`DELETE FROM project_members WHERE user_id = $1`, s.member.UserID)
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("tasks WHERE parent_id IS NOT NULL AND state = 'failed' AND error LIKE '%There is no such object, or you may not see it.%' AND subject_name LIKE 'x-%'"); n != 2 {
		t.Errorf("%d were refused", n)
	}
}
