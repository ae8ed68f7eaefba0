package control_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/auth"
	"quantix/internal/notify"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// claimPlan claims the plan job that is queued for the agent's host.
func (s *projectFixture) claimPlan(agent fleet.Actor) wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, w := range claim.Jobs {
		if w.Kind == fleet.VMPlan {
			return w
		}
	}
	s.t.Fatalf("no plan job among %+v", claim.Jobs)
	return wire.Work{}
}

func (s *projectFixture) finishPlan(agent fleet.Actor, w wire.Work, f wire.Finish) {
	s.t.Helper()
	f.Epoch, f.Seq = w.Epoch, s.nextSeq()
	if _, _, err := s.Finish(s.t.Context(), agent, w.ID, f); err != nil {
		s.t.Fatal(err)
	}
}

func (s *projectFixture) nextSeq() int64 { s.lastReportSeq++; return s.lastReportSeq }

var planAnswer = fleet.DefinitionDiff{Lines: []fleet.DefinitionLine{
	{Op: fleet.LineGap},
	{Op: fleet.LineRemoved, Text: `  <vcpu>1</vcpu>`, At: "domain/vcpu"},
	{Op: fleet.LineAdded, Text: `  <vcpu>3</vcpu>`, At: "domain/vcpu"},
	{Op: fleet.LineSame, Text: `      <source file="/srv/secret/a.qcow2"></source>`, At: "domain/devices/disk/source"},
	{Op: fleet.LineSame, Text: `      <name>of somebody's tool</name>`, At: "domain/metadata/tool/name"},
}}

func TestPlanOfEditChangesNothing(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Running)
	agent := s.agentSession(s.h1)
	edit := editedSpec(v, func(to *fleet.VMSpec) { to.CPUs = 3 })
	edit.Labels = map[string]string{"env": "prod"}
	p, err := s.PlanVM(t.Context(), s.member, v.ID, edit)
	if err != nil || p.State != fleet.PlanRequested || p.HostName != "" || fmt.Sprint(p.Changes) != "[{labels labels now} {spec.cpus vCPUs 1 → 3 nextBoot}]" {
		t.Fatalf("the plan is %+v, %v", p, err)
	}
	s.execSQL(`DELETE FROM jobs WHERE kind <> 'vm.plan'`)
	w := s.claimPlan(agent)
	if w.VM == nil || w.VM.ID != v.ID || w.VM.Spec.CPUs != 3 || w.VM.Generation != v.Generation+1 || w.Project != "red" {
		t.Fatalf("the plan's job is %+v", w)
	}
	if got := s.getVM(v.ID); got.Spec.CPUs != 1 || got.Generation != v.Generation || len(got.Labels) != 0 {
		t.Errorf("the plan has changed the VM: %+v", got)
	}
	s.finishPlan(agent, w, wire.Finish{Outcome: wire.Done, Drawing: &planAnswer})
	p, err = s.GetPlan(t.Context(), s.member, p.ID)
	if err != nil || p.State != fleet.PlanReady || p.Drawing.Hidden != 2 || len(p.Drawing.Lines) != 4 {
		t.Fatalf("a member reads %+v, %v", p.Drawing, err)
	}
	if text := fmt.Sprint(p.Drawing); strings.Contains(text, "secret") || strings.Contains(text, "tool") || !strings.Contains(text, "<vcpu>3") {
		t.Errorf("a member reads %s", text)
	}

	if vm, err := s.ExecutePlan(t.Context(), s.member, p.ID); err != nil || vm != v.ID {
		t.Fatal(vm, err)
	}
	if got := s.getVM(v.ID); got.Spec.CPUs != 3 || got.Labels["env"] != "prod" || got.Generation != v.Generation+1 {
		t.Errorf("carried out, the VM is %+v", got)
	}
	s.wantRefused("carried out twice", fleet.NotFound, "There is no such plan", func() error { _, err := s.ExecutePlan(t.Context(), s.member, p.ID); return err })
}

func TestPlanOfNewVMIsPlacedAndExecuted(t *testing.T) {
	s := newProjectFixture(t)
	agent := s.agentSession(s.h1)
	want := control.CreateVM{ProjectID: s.red, Name: "web", Spec: fleet.VMSpec{CPUs: 1, MemoryMiB: 256, Disks: []fleet.Disk{{PoolID: s.local, SizeBytes: 1 << 30}}}}
	p, err := s.PlanNewVM(t.Context(), chief, want)
	if err != nil || p.VMID != "" || p.HostName != "h1" || s.countRows("vms") != 0 || s.countRows("tasks") != 0 {
		t.Fatalf("the plan is %+v, %v", p, err)
	}
	w := s.claimPlan(agent)
	if w.VM == nil || w.VM.Name != "web" || len(w.VM.Spec.Disks) != 1 || w.VM.Spec.Disks[0].Volume == "" || len(w.Pools) != 1 {
		t.Fatalf("the plan's job is %+v", w)
	}
	s.finishPlan(agent, w, wire.Finish{Outcome: wire.Failed, Error: "no room at /srv/vm", Retry: true})
	if p, err = s.GetPlan(t.Context(), chief, p.ID); err != nil || p.State != fleet.PlanFailed || p.Drawing.Error != "no room at /srv/vm" {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	vm, err := s.ExecutePlan(t.Context(), chief, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(vm); got.HostID != s.h1 || got.Name != "web" {
		t.Errorf("made is %+v", got)
	}
}

func TestPlanRefusedWhenEditWouldBeRefused(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	plan := func(a fleet.Actor, in control.UpdateVM) func() error {
		return func() error { _, err := s.PlanVM(t.Context(), a, v.ID, in); return err }
	}
	s.wantRefused("an invalid edit", fleet.Invalid, "vCPU", plan(s.member, editedSpec(v, func(to *fleet.VMSpec) { to.CPUs = 0 })))
	s.wantRefused("stale", fleet.Conflict, "Somebody changed", plan(s.member, control.UpdateVM{Labels: map[string]string{"a": "b"}, IfGeneration: 99}))
	s.wantRefused("another's", fleet.NotFound, "no such VM", plan(s.blueMember, control.UpdateVM{Labels: map[string]string{"a": "b"}}))
	s.wantRefused("a viewer", fleet.Forbidden, "", plan(s.viewer, control.UpdateVM{Labels: map[string]string{"a": "b"}}))
	s.wantRefused("reserved", fleet.Invalid, "Only those who may change infrastructure", plan(s.member, editedSpec(v, func(to *fleet.VMSpec) { to.Memory.Locked = true })))
	if p, err := s.PlanVM(t.Context(), s.member, v.ID, control.UpdateVM{}); err != nil || p.ID != "" || len(p.Changes) != 0 {
		t.Errorf("nothing to change: %+v, %v", p, err)
	}

	p, err := s.PlanVM(t.Context(), s.member, v.ID, control.UpdateVM{Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]fleet.Actor{"chief": chief, "user of another project": s.blueMember} {
		s.wantRefused("read by "+name, fleet.NotFound, "There is no such plan", func() error { _, err := s.GetPlan(t.Context(), a, p.ID); return err })
		s.wantRefused("done by "+name, fleet.NotFound, "There is no such plan", func() error { _, err := s.ExecutePlan(t.Context(), a, p.ID); return err })
	}
	s.wantRefused("no id", fleet.NotFound, "There is no such plan", func() error { _, err := s.GetPlan(t.Context(), s.member, "x\x00"); return err })

	if _, _, err := s.UpdateVM(t.Context(), chief, v.ID, control.UpdateVM{Labels: map[string]string{"c": "d"}}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("changed meanwhile", fleet.Conflict, "Somebody changed this VM meanwhile", func() error { _, err := s.ExecutePlan(t.Context(), s.member, p.ID); return err })
	if _, err := s.GetPlan(t.Context(), s.member, p.ID); err != nil {
		t.Errorf("a refused execution removed the plan: %v", err)
	}

	s.execSQL(`UPDATE vm_plans SET asked_at = now() - interval '21 seconds'`)
	if p, err := s.GetPlan(t.Context(), s.member, p.ID); err != nil || p.State != fleet.PlanTimedOut {
		t.Errorf("a plan without an answer: %+v, %v", p, err)
	}
	s.execSQL(`UPDATE vm_plans SET asked_at = now() - interval '61 minutes'`)
	s.wantRefused("too old", fleet.NotFound, "There is no such plan", func() error { _, err := s.GetPlan(t.Context(), s.member, p.ID); return err })
	if err := s.DeleteExpiredRows(t.Context(), fleet.SystemActor); err != nil || s.countRows("vm_plans") != 0 {
		t.Errorf("expired plans remain: %v", err)
	}
}

func TestPendingPlansAreLimited(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	last := error(nil)
	for i := range 9 {
		_, last = s.PlanVM(t.Context(), s.member, v.ID, control.UpdateVM{Labels: map[string]string{"n": strconv.Itoa(i)}})
	}
	wantCode(t, last, fleet.TooMany)
	if _, err := s.PlanVM(t.Context(), chief, v.ID, control.UpdateVM{Labels: map[string]string{"a": "b"}}); err != nil {
		t.Errorf("another's patience counts: %v", err)
	}
	for range 40 {
		s.execSQL(`UPDATE vm_plans SET asked_at = asked_at - interval '30 seconds'`)
		if _, err := s.PlanVM(t.Context(), s.member, v.ID, control.UpdateVM{Labels: map[string]string{"a": "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.countRows("vm_plans WHERE user_id = 'mia'"); n != 20 {
		t.Errorf("%d plans of one person are stored", n)
	}
}

// The portal cuts the host's answer to a plan to a maximum size, because a host may send anything.
func TestHostAnswerToPlanIsTruncated(t *testing.T) {
	s := newProjectFixture(t)
	v := s.createVM("web", fleet.Stopped)
	agent := s.agentSession(s.h1)
	p, err := s.PlanVM(t.Context(), chief, v.ID, control.UpdateVM{Labels: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	s.execSQL(`DELETE FROM jobs WHERE kind <> 'vm.plan'`)
	w := s.claimPlan(agent)
	var odd fleet.DefinitionDiff
	for range 3000 {
		odd.Lines = append(odd.Lines, fleet.DefinitionLine{Op: "<script>", Text: "\x00\xff" + strings.Repeat("x", 5000), At: strings.Repeat("a/", 500)})
	}
	s.finishPlan(agent, w, wire.Finish{Outcome: wire.Done, Drawing: &odd})
	got, err := s.GetPlan(t.Context(), chief, p.ID)
	if err != nil || len(got.Drawing.Lines) != fleet.MaxDiffLines || got.Drawing.Left != 3000-fleet.MaxDiffLines || len(got.Drawing.Lines[0].Text) > 1100 || got.Drawing.Lines[0].Op != fleet.LineSame {
		t.Errorf("%d lines of %d bytes are stored, %v", len(got.Drawing.Lines), len(got.Drawing.Lines[0].Text), err)
	}
}

// A plan is stored for an hour, and its first-boot data may contain secrets. The request of such a plan is therefore
// stored encrypted.
func TestPlanEncryptsFirstBootData(t *testing.T) {
	s := newProjectFixture(t)
	s.Control = control.New(s.pool, control.Options{Hub: notify.NewHub(), AgentURL: "https://portal.example:8444", Vault: auth.NewVault()})
	s.agentSession(s.h1)
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', $1)`, fleet.OptionalFieldNames())
	p, err := s.PlanNewVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, Name: "web", HostID: s.h1, Spec: smallSpec, FirstBoot: hostnameFirstBoot("violet-lantern")})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("vm_plans WHERE row_to_json(vm_plans)::text LIKE '%violet%'"); n != 0 {
		t.Error("the plan has first-boot data in plain text")
	}
	if order, err := s.PlannedRequest(t.Context(), chief, p.ID); err != nil || order.Create == nil || order.Create.FirstBoot == nil {
		t.Errorf("the plan's input for editing is %+v, %v", order, err)
	}
	vm, err := s.ExecutePlan(t.Context(), chief, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(vm); got.Spec.FirstBoot.Kind == "" {
		t.Errorf("made is %+v", got.Spec)
	}
}
