package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
)

func TestPowerActionsChangeSpecAndQueueJobs(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	subject := fleet.SubjectVM(v.ID)
	job, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStart)
	if err != nil || job.Kind != fleet.VMStart || job.Generation != 2 || job.State != fleet.JobQueued || job.HostName != "" {
		t.Fatalf("start: %+v %v", job, err)
	}
	if got := s.getVM(v.ID); got.Phase != fleet.PhaseStarting || got.Spec.Power != fleet.Running || got.Generation != 2 {
		t.Errorf("after start: %s %s generation %d", got.Phase, got.Spec.Power, got.Generation)
	}
	s.wantRefused("start twice", fleet.Conflict, "Start is not possible", func() error { _, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActStart); return err })

	if _, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	if got := s.jobList(subject); got != "vm.apply done, vm.start cancelled, vm.stop queued" {
		t.Errorf("a stop leaves %s", got)
	}
	s.reportPower(v.ID, fleet.Running)
	s.execSQL(`UPDATE jobs SET state = 'done' WHERE state = 'queued'`)
	before := s.getVM(v.ID).Generation
	if job, err = s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActReboot); err != nil || job.Generation != before {
		t.Errorf("a reboot changes no intent: %+v %v", job, err)
	}
	second, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActReboot)
	if err != nil || second.ID != job.ID {
		t.Errorf("a second reboot does not wait behind the first: %v", err)
	}
}

func TestPowerActionRefusedWithReason(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	for name, c := range map[string]struct {
		actor fleet.Actor
		id    fleet.VMID
		act   fleet.Action
		code  fleet.ErrorCode
		says  string
	}{
		"viewer":                  {s.viewer, v.ID, fleet.ActStart, fleet.Forbidden, "do not have permission"},
		"user of another project": {s.blueMember, v.ID, fleet.ActStart, fleet.NotFound, "There is no such VM."},
		"missing":                 {s.member, fleet.NewID[fleet.VMID](), fleet.ActStart, fleet.NotFound, "There is no such VM."},
		"malformed id":            {s.member, "x\x00y", fleet.ActStart, fleet.NotFound, "There is no such VM."},
		"not running":             {s.member, v.ID, fleet.ActPause, fleet.Conflict, "Only a running VM can be paused."},
		"no action":               {s.member, v.ID, "fly", fleet.Invalid, `no power action "fly". Use start, shutdown, stop, reboot, restart, reset, pause or resume.`},
		"no power":                {s.member, v.ID, fleet.ActDelete, fleet.Invalid, "no power action"},
		"console is not":          {s.member, v.ID, fleet.ActConsole, fleet.Invalid, "no power action"},
	} {
		s.wantRefused(name, c.code, c.says, func() error { _, err := s.RequestPowerAction(t.Context(), c.actor, c.id, c.act); return err })
	}
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '31 seconds'`)
	s.wantRefused("offline host", fleet.Conflict, "offline", func() error { _, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActStart); return err })
}

func TestUpdateVMRaisesGenerationOnce(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	name, text := "www", "the shop"
	iso := fleet.Volref{PoolID: s.nfs, Volume: "cd.iso"}
	edit := editedSpec(v, func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB, s.ISO = 4, 512, &iso })
	edit.Name, edit.Description, edit.Labels, edit.IfGeneration = &name, &text, map[string]string{"env": "prod"}, 1
	got, job, err := s.UpdateVM(t.Context(), s.member, v.ID, edit)
	if err != nil || job == "" || got.Generation != 2 || got.Name != "www" || got.Spec.CPUs != 4 || got.Spec.MemoryMiB != 512 ||
		got.Description != text || got.Labels["env"] != "prod" || *got.Spec.ISO != iso || got.Phase != fleet.PhaseUpdating {
		t.Fatalf("%+v %s %v", got, job, err)
	}
	again, none, err := s.UpdateVM(t.Context(), s.member, v.ID, control.UpdateVM{Name: &name, Spec: &got.Spec})
	if err != nil || none != "" || again.Generation != 2 {
		t.Errorf("nothing changed, but generation %d, job %q, %v", again.Generation, none, err)
	}
	if s.countRows("audit WHERE action = 'vm.edit' AND detail = 'name web → www, labels, description, vCPUs 1 → 4, memory 256 → 512 MiB, CD-ROM none → cd.iso'") != 1 {
		t.Error("the audit does not say what was changed")
	}
	got, same, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(got, func(s *fleet.VMSpec) { s.ISO = nil }))
	if err != nil || got.Spec.ISO != nil || got.Generation != 3 || same != job {
		t.Errorf("ISO out: %+v, job %s (the waiting one is %s), %v", got.Spec.ISO, same, job, err)
	}
	if got := s.jobList(fleet.SubjectVM(v.ID)); got != "vm.apply done, vm.apply queued" {
		t.Errorf("edits do not coalesce: %s", got)
	}
}

func TestInvalidUpdateVMRefused(t *testing.T) {
	s := newProjectFixture(t)
	v, taken := s.createVM("web", fleet.Running), s.createVM("taken", fleet.Running)
	edit := func(f func(*fleet.VMSpec)) control.UpdateVM { return editedSpec(v, f) }
	two := edit(func(s *fleet.VMSpec) { s.CPUs = 2 })
	stale := two
	stale.IfGeneration = 7
	for name, c := range map[string]struct {
		actor fleet.Actor
		in    control.UpdateVM
		code  fleet.ErrorCode
		says  string
	}{
		"viewer":                  {s.viewer, two, fleet.Forbidden, "do not have permission"},
		"user of another project": {s.blueMember, two, fleet.NotFound, "There is no such VM."},
		"stale":                   {s.member, stale, fleet.Conflict, "(generation 1, you had 7)"},
		"no CPU":                  {s.member, edit(func(s *fleet.VMSpec) { s.CPUs = 0 }), fleet.Invalid, "1 to 768"},
		"too much":                {s.member, edit(func(s *fleet.VMSpec) { s.MemoryMiB = 17000 }), fleet.Invalid, "Not enough memory"},
		"taken name":              {s.member, control.UpdateVM{Name: &taken.Name}, fleet.Conflict, `"taken" exists in red`},
		"image as CD":             {s.member, edit(func(to *fleet.VMSpec) { to.ISO = &fleet.Volref{PoolID: s.nfs, Volume: "debian.qcow2"} }), fleet.Invalid, "No ISO image"},
		"power":                   {s.member, edit(func(s *fleet.VMSpec) { s.Power = fleet.Stopped }), fleet.Invalid, "The power state cannot be edited"},
		"an image": {s.member, edit(func(to *fleet.VMSpec) {
			to.Disks = []fleet.Disk{{PoolID: s.nfs, SizeBytes: 1, Image: &fleet.Volref{PoolID: s.nfs, Volume: "none.qcow2"}}}
		}), fleet.Invalid, "No volume"},
		"firmware":   {s.member, edit(func(s *fleet.VMSpec) { s.Firmware = fleet.UEFI }), fleet.Invalid, "only while the VM is off: firmware BIOS → UEFI"},
		"bad labels": {s.member, control.UpdateVM{Labels: map[string]string{"A": ""}}, fleet.Invalid, "Label key"},
	} {
		s.wantRefused(name, c.code, c.says, func() error { _, _, err := s.UpdateVM(t.Context(), c.actor, v.ID, c.in); return err })
	}
}

func TestDeleteVMQueuesDeletionOnce(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	s.wantRefused("viewer", fleet.Forbidden, "do not have permission", func() error { _, err := s.DeleteVM(t.Context(), s.viewer, v.ID, false, ""); return err })
	s.wantRefused("another project's user", fleet.NotFound, "There is no such VM.", func() error { _, err := s.DeleteVM(t.Context(), s.blueMember, v.ID, false, ""); return err })
	s.wantRefused("name not typed", fleet.Invalid, "Type the VM's name, web", func() error { _, err := s.DeleteVM(t.Context(), s.member, v.ID, true, "wbe"); return err })
	if _, err := s.RequestPowerAction(t.Context(), s.member, v.ID, fleet.ActPause); err != nil {
		t.Fatal(err)
	}
	job, err := s.DeleteVM(t.Context(), s.member, v.ID, true, "web")
	if err != nil || job.Kind != fleet.VMDelete || job.State != fleet.JobQueued {
		t.Fatalf("%+v %v", job, err)
	}
	if got := s.jobList(fleet.SubjectVM(v.ID)); got != "vm.apply done, vm.pause cancelled, vm.delete queued" {
		t.Errorf("jobs: %s", got)
	}
	if got := s.getVM(v.ID); got.Phase != fleet.PhaseDeleting {
		t.Errorf("phase %s", got.Phase)
	}
	s.wantRefused("edit", fleet.Conflict, "being deleted", func() error {
		_, _, err := s.UpdateVM(t.Context(), chief, v.ID, editedSpec(v, func(s *fleet.VMSpec) { s.CPUs = 2 }))
		return err
	})
	s.wantRefused("delete twice", fleet.Conflict, "being deleted", func() error { _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); return err })

	if got, err := s.CancelTask(t.Context(), s.member, job.ID); err != nil || got.State != fleet.JobCancelled {
		t.Fatalf("%+v %v", got, err)
	}
	if got := s.getVM(v.ID); got.DeletedAt != nil {
		t.Error("the VM is still being deleted after the cancellation")
	}
}

func TestDeleteVMUnknownToHostIsImmediate(t *testing.T) {
	s := newProjectFixture(t)
	create := func(name string) fleet.VMID {
		v, err := s.CreateVM(t.Context(), s.member, control.CreateVM{ProjectID: s.red, Name: name, Spec: smallSpec, Start: true})
		if err != nil {
			t.Fatal(err)
		}
		return v.ID
	}
	fresh := create("fresh")
	job, err := s.DeleteVM(t.Context(), s.member, fresh, false, "")
	if err != nil || job.State != fleet.JobDone {
		t.Fatalf("%+v %v", job, err)
	}
	if _, err := s.GetVM(t.Context(), chief, fresh); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("still there: %v", err)
	}
	if got := s.jobList(fleet.SubjectVM(fresh)); got != "vm.apply cancelled, vm.start cancelled, vm.delete done" {
		t.Errorf("jobs: %s", got)
	}
	claimed := create("claimed")
	s.execSQL(`UPDATE jobs SET state = 'running', epoch = 1 WHERE subject = $1 AND kind = 'vm.apply'`, fleet.SubjectVM(claimed))
	if job, err = s.DeleteVM(t.Context(), s.member, claimed, false, ""); err != nil || job.State != fleet.JobQueued {
		t.Errorf("a VM whose creation was claimed: %+v %v", job, err)
	}
}

// A VM with an optional field needs a host whose agent knows the field and that supports it: an older agent would
// ignore the field.
func TestVMFieldNeedsHostSupport(t *testing.T) {
	s := newProjectFixture(t)
	v, admin := s.createVM("web", fleet.Running), s.addUser("ada", fleet.RoleAdmin)
	inventory := func(fields, gaps string) {
		s.execSQL(`UPDATE hosts SET status = jsonb_set(jsonb_set(status, '{inventory,vmFields}', $2::text::jsonb), '{inventory,vmGaps}', $3::text::jsonb) WHERE id = $1`, v.HostID, fields, gaps)
	}
	with := func(tpm bool) control.UpdateVM {
		return editedSpec(v, func(s *fleet.VMSpec) { s.Security.TPM, s.Boot.Menu = tpm, tpm })
	}
	try := func() error {
		vm, _, err := s.UpdateVM(t.Context(), admin, v.ID, with(true))
		if err == nil {
			v = vm
		}
		return err
	}
	s.wantRefused("an older agent", fleet.Invalid, "2 fields", try)
	inventory(`["security.tpm"]`, `[]`)
	s.wantRefused("an agent that supports one of two fields", fleet.Invalid, "too old for this: boot menu", try)
	inventory(`["security.tpm","boot.menu"]`, `[{"field":"security.tpm","why":"swtpm is missing."}]`)
	s.wantRefused("a host without swtpm", fleet.Invalid, "TPM. swtpm is missing.", try)
	inventory(`["security.tpm","boot.menu"]`, `[]`)
	if err := try(); err != nil || !v.Spec.Security.TPM {
		t.Fatalf("%+v, %v", v.Spec.Security, err)
	}
	// After the host reports no supported fields, an edit may still keep or remove the VM's existing settings.
	inventory(`[]`, `[]`)
	var err error
	if v, _, err = s.UpdateVM(t.Context(), admin, v.ID, editedSpec(v, func(s *fleet.VMSpec) { s.CPUs = 2 })); err != nil {
		t.Errorf("another edit: %v", err)
	}
	if v, _, err = s.UpdateVM(t.Context(), admin, v.ID, with(false)); err != nil || v.Spec.Security.TPM {
		t.Errorf("back to the usual: %+v, %v", v.Spec.Security, err)
	}
}

// Only administrators may set fields that affect other VMs or expose the host. Tenants can remove such settings.
func TestReservedFieldsNeedAdministrator(t *testing.T) {
	s := newProjectFixture(t)
	v, admin := s.createVM("web", fleet.Stopped), s.addUser("ada", fleet.RoleAdmin)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["memory.locked","memory.shared","devices.vsock","memory.hugePageKiB","cpu.shares"]')`)
	locked := func(on bool) func(*fleet.VMSpec) { return func(s *fleet.VMSpec) { s.Memory.Locked = on } }
	for name, change := range map[string]func(*fleet.VMSpec){
		"locked memory": locked(true), "vsock": func(s *fleet.VMSpec) { s.Devices.VSOCK = true }, "huge pages": func(s *fleet.VMSpec) { s.Memory.HugePageKiB = 2048 },
		"CPU reservation": func(s *fleet.VMSpec) { s.CPU.Reserved = 10 }, "this value of CPU shares": func(s *fleet.VMSpec) { s.CPU.Shares = 1025 },
	} {
		s.wantRefused(name, fleet.Invalid, "Only those who may change infrastructure may choose "+name, func() error {
			_, _, err := s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, change))
			return err
		})
	}
	s.wantRefused("in a new VM", fleet.Invalid, "Only those who may change infrastructure", func() error {
		in := control.CreateVM{ProjectID: s.red, Name: "fresh", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256}}
		locked(true)(&in.Spec)
		_, err := s.CreateVM(t.Context(), s.member, in)
		return err
	})
	shares := func(n int) func(*fleet.VMSpec) { return func(s *fleet.VMSpec) { s.CPU.Shares = n } }
	var err error
	if v, _, err = s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, shares(1024))); err != nil {
		t.Errorf("a member's usual shares: %v", err)
	}
	if v, _, err = s.UpdateVM(t.Context(), admin, v.ID, editedSpec(v, func(s *fleet.VMSpec) { shares(2048)(s); locked(true)(s) })); err != nil {
		t.Fatal(err)
	}
	if v, _, err = s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, func(s *fleet.VMSpec) { s.Memory.Shared = true })); err != nil || !v.Spec.Memory.Locked {
		t.Errorf("a member's other edit: %+v, %v", v.Spec.Memory, err)
	}
	if v, _, err = s.UpdateVM(t.Context(), s.member, v.ID, editedSpec(v, locked(false))); err != nil || v.Spec.Memory.Locked {
		t.Errorf("a member removes the field: %+v, %v", v.Spec.Memory, err)
	}
}
