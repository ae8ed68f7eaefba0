package control_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// adoptionFixture is a projectFixture with the agent of host h1.
type adoptionFixture struct {
	*projectFixture
	agent fleet.Actor
}

func newAdoptionFixture(t *testing.T) *adoptionFixture {
	s := newProjectFixture(t)
	return &adoptionFixture{s, s.agentSession(s.h1)}
}

const legacyStatus = `{"power":"running","cpus":2,"memoryMiB":2048,"disks":[{"target":"vda","path":"/srv/vm/legacy.qcow2"}],
	"nics":[{"mac":"52:54:00:00:00:07","source":"network default"}]}`

// legacySpec is the spec that the host reads for a domain with legacyStatus.
func (s *adoptionFixture) legacySpec() fleet.VMSpec {
	return fleet.VMSpec{
		Power: fleet.Running, CPUs: 2, MemoryMiB: 2048, Firmware: fleet.BIOS, Disks: []fleet.Disk{{PoolID: s.local, Volume: "legacy.qcow2", SizeBytes: 1 << 30}},
		NICs: []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:07"}},
	}
}

func (s *adoptionFixture) adopt(id fleet.VMID) fleet.Task {
	s.t.Helper()
	task, err := s.AdoptVM(s.t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

func (s *adoptionFixture) claim(kind fleet.JobKind) wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), s.agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil || len(claim.Jobs) != 1 || claim.Jobs[0].Kind != kind {
		s.t.Fatalf("claimed %+v %v, want one %s", claim.Jobs, err, kind)
	}
	return claim.Jobs[0]
}

func (s *adoptionFixture) finish(w wire.Work, f wire.Finish) {
	s.t.Helper()
	s.lastReportSeq++
	f.Epoch, f.Generation, f.Seq = w.Epoch, w.Generation, s.lastReportSeq
	if f.Outcome == "" {
		f.Outcome = wire.Done
	}
	if _, _, err := s.Finish(s.t.Context(), s.agent, w.ID, f); err != nil {
		s.t.Fatal(err)
	}
}

func (s *adoptionFixture) wantTaskState(id fleet.TaskID, want fleet.JobState, words string) {
	s.t.Helper()
	task, err := s.GetTask(s.t.Context(), chief, id)
	if err != nil || task.State != want || !strings.Contains(task.Error, words) {
		s.t.Errorf("the task is %s %q %v, want %s with %q", task.State, task.Error, err, want, words)
	}
}

func (s *adoptionFixture) report(state wire.State) {
	s.t.Helper()
	s.lastReportSeq++
	state.Host = fleet.HostStatus{Connected: true}
	if _, err := s.Report(s.t.Context(), s.agent, wire.Report{Seq: s.lastReportSeq, Digest: strconv.FormatInt(s.lastReportSeq, 10), State: &state}); err != nil {
		s.t.Fatal(err)
	}
}

func TestAdoptionMakesVMAndMarksDomainInOneTask(t *testing.T) {
	s := newAdoptionFixture(t)
	id := s.addDiscoveredVM(legacyStatus)
	task := s.adopt(id)
	w := s.claim(fleet.DiscoveredAdopt)
	if got, ok := w.Subject.DiscoveredVM(); !ok || got != id || w.VM != nil || len(w.Pools) != 2 || !slices.ContainsFunc(w.Pools, func(p fleet.Pool) bool { return p.ID == s.local && p.Spec.Path == "/srv/vm" }) {
		t.Fatalf("the host gets %+v, want the domain and the pools of the host", w)
	}
	read := s.legacySpec()
	read.Policy.GuestExec, read.NICs[0].SecurityGroups = true, []fleet.SecurityGroupID{"of-others"} // a host must not choose these
	read.NICs = append(read.NICs, fleet.NIC{Network: "unknown", MAC: "52:54:00:00:00:08"})
	s.finish(w, wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "Legacy ERP_1", Description: strings.Repeat("x", 10_000), Spec: read, Verbatim: []string{"devices/sound: <sound model='ich9'>"}}})

	s.wantTaskState(task.ID, fleet.JobRunning, "")
	vm, err := s.GetVM(t.Context(), chief, id)
	if err != nil || vm.Name != "legacy" || vm.ProjectID != s.red || vm.HostID != s.h1 || vm.Phase != fleet.PhaseCreating || vm.Spec.Policy.GuestExec || len(vm.Spec.NICs) != 1 || vm.Spec.NICs[0].SecurityGroups != nil {
		t.Fatalf("the VM is %+v %v", vm, err)
	}
	if vm.Adoption.By != "chief" || vm.Adoption.HostName != vm.HostName || vm.HostName == "" {
		t.Errorf("the VM was adopted by %q from %q, want chief and the host's name", vm.Adoption.By, vm.Adoption.HostName)
	}
	s.createVM("made-here", fleet.Stopped)
	s.execSQL(`DELETE FROM jobs WHERE kind = 'vm.apply' AND subject <> $1`, fleet.SubjectVM(id))
	for filter, want := range map[string]string{"adopted:yes": "legacy", "adopted:no": "made-here"} {
		if page, err := s.ListVMs(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != 1 || page.Items[0].Name != want {
			t.Errorf("%s lists %+v %v, want %s", filter, page.Items, err, want)
		}
	}
	verbatim := strings.Join(vm.Adoption.Verbatim, "\n")
	for _, part := range []string{"NIC 52:54:00:00:00:08 on libvirt unknown", "<sound model='ich9'>", "description"} {
		if !strings.Contains(verbatim, part) {
			t.Errorf("the verbatim parts %q lack %q", vm.Adoption.Verbatim, part)
		}
	}
	if v, err := s.GetVM(t.Context(), s.member, id); err != nil || len(v.Adoption.Verbatim) != 0 || v.Adoption.HostName != "" {
		t.Errorf("a member of the project reads lines of the host's definition: %+v %v", v.Adoption, err)
	}
	s.report(wire.State{Discovered: []fleet.DiscoveredVM{{ID: id, Name: "legacy", Status: fleet.VMStatus{Power: fleet.Running}}}})
	if n := s.countRows("found_vms"); n != 0 {
		t.Errorf("%d discovered VMs before the domain is marked, want none beside the VM", n)
	}

	w = s.claim(fleet.VMApply)
	if !w.Adopted || w.VM == nil || w.VM.Generation != 1 || w.VM.Spec.NICs[0].Network != "default" || !slices.Equal(w.CreatedDisks, []fleet.Volref{{PoolID: s.local, Volume: "legacy.qcow2"}}) {
		t.Fatalf("the host gets %+v, want the adopted VM whose disk exists", w)
	}
	s.finish(w, wire.Finish{VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 2048}})
	s.wantTaskState(task.ID, fleet.JobDone, "")
	if vm, err = s.GetVM(t.Context(), chief, id); err != nil || vm.Phase != fleet.PhaseRunning {
		t.Errorf("the VM is %s %v, want it running", vm.Phase, err)
	}
	if n := s.countRows("audit WHERE action IN ('found.adopt', 'vm.adopt') AND actor = 'chief'"); n != 2 {
		t.Errorf("%d audit lines of the adoption, want the request and the VM", n)
	}
}

func TestAdoptionRefusedWhileAnotherHostHasTheDomain(t *testing.T) {
	s := newAdoptionFixture(t)
	id := s.addDiscoveredVM(`{"power":"stopped"}`)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy', '{"power":"running"}')`, s.h2, id)
	s.wantRefused("a domain of two hosts", fleet.Conflict, "the VM could run twice", func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
		return err
	})
}

func TestAdoptionRefusedBeforeTheHostIsAsked(t *testing.T) {
	s := newAdoptionFixture(t)
	taken := s.createVM("taken", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks}', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'legacy.qcow2'))) WHERE id = $2`, s.local, taken.ID)
	for words, status := range map[string]string{
		"belongs to another VM of Quantix": legacyStatus,
		"pool with the path /data first":   `{"power":"running","disks":[{"target":"vda","path":"/data/a.img"}]}`,
		"is an image of the library":       `{"power":"running","disks":[{"target":"vda","path":"/srv/vm/debian.qcow2"}]}`,
		"no persistent definition":         `{"power":"running","transient":true}`,
	} {
		id := s.addDiscoveredVM(status)
		s.wantRefused(words, fleet.Conflict, words, func() error {
			_, err := s.AdoptVM(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
			return err
		})
		plan, err := s.PlanAdoption(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
		if err != nil || !strings.Contains(strings.Join(plan.Refusals, " "), words) {
			t.Errorf("the plan refuses %q %v, want %q", plan.Refusals, err, words)
		}
	}
	off := s.addDiscoveredVM(`{"power":"stopped"}`)
	for words, name := range map[string]string{`"taken" exists in red already`: "taken", "lower-case letters": "Legacy ERP"} {
		s.wantRefused(words, fleet.Conflict, words, func() error {
			_, err := s.AdoptVM(t.Context(), chief, s.h1, off, control.AdoptVM{ProjectID: s.red, Name: name})
			return err
		})
	}
	s.execSQL(`UPDATE found_vms SET id = $1 WHERE id = $2`, taken.ID, off)
	s.wantRefused("UUID of a VM", fleet.Conflict, "has the UUID of this VM already", func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, taken.ID, control.AdoptVM{ProjectID: s.red})
		return err
	})
	s.execSQL(`DELETE FROM vms`)
	s.wantRefused("no project", fleet.Invalid, "Choose the project", func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, taken.ID, control.AdoptVM{})
		return err
	})
	s.execSQL(`DELETE FROM found_vms`)
	plan, err := s.PlanAdoption(t.Context(), chief, s.h1, s.addDiscoveredVM(legacyStatus), control.AdoptVM{ProjectID: s.red})
	if err != nil || len(plan.Refusals) != 0 || plan.Disks[0].PoolName != "local" || plan.NICs[0].NetworkID == "" || plan.Name != "legacy" {
		t.Errorf("the plan is %+v %v, want the pool and the network of the devices", plan, err)
	}
}

// A host's definition is not believed about volumes of others, and no failed adoption leaves a VM.
func TestAdoptionRefusedByTheDefinition(t *testing.T) {
	s := newAdoptionFixture(t)
	owner := s.createVM("owner", fleet.Stopped)
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks}', jsonb_build_array(jsonb_build_object('poolId', $1::text, 'volume', 'theirs.qcow2'))) WHERE id = $2`, s.local, owner.ID)
	s.execSQL(`DELETE FROM jobs`)
	for words, change := range map[string]func(*fleet.AdoptableVM){
		"no pool of Quantix has it":       func(v *fleet.AdoptableVM) { v.Refusals = []string{"Disk vda: no pool of Quantix has it."} },
		"theirs.qcow2 belongs to another": func(v *fleet.AdoptableVM) { v.Spec.Disks[0].Volume = "theirs.qcow2" },
		"base.qcow2 is in no pool":        func(v *fleet.AdoptableVM) { v.Backing = []fleet.Volref{{PoolID: "elsewhere", Volume: "base.qcow2"}} },
		"theirs.qcow2 belongs to":         func(v *fleet.AdoptableVM) { v.Backing = []fleet.Volref{{PoolID: s.local, Volume: "theirs.qcow2"}} },
		"cannot express the definition":   func(v *fleet.AdoptableVM) { v.Spec.CPUs = 9999 },
		"has the MAC address 52:54:00:00": func(v *fleet.AdoptableVM) { s.addDiscoveredVM(strings.Replace(legacyStatus, "legacy.qcow2", "x", 1)) },
		"The project was deleted": func(*fleet.AdoptableVM) {
			s.execSQL(`UPDATE jobs SET args = jsonb_set(args, '{adopt,projectId}', '"gone"')`)
		},
		`named "legacy" exists in red`: func(*fleet.AdoptableVM) { s.execSQL(`UPDATE vms SET name = 'legacy'`) },
		"The host's agent is too old":  nil,
	} {
		s.execSQL(`DELETE FROM found_vms`)
		s.execSQL(`UPDATE vms SET name = 'owner'`)
		task := s.adopt(s.addDiscoveredVM(legacyStatus))
		w := s.claim(fleet.DiscoveredAdopt)
		var read *fleet.AdoptableVM
		if change != nil {
			read = &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}
			change(read)
		}
		s.finish(w, wire.Finish{Adoptable: read})
		s.wantTaskState(task.ID, fleet.JobFailed, words)
		if n := s.countRows("vms"); n != 1 {
			t.Fatalf("%s: %d VMs, want only the owner", words, n)
		}
	}
}

func TestRepeatedAdoptionMakesOneVM(t *testing.T) {
	s := newAdoptionFixture(t)
	id := s.addDiscoveredVM(legacyStatus)
	first := s.adopt(id)
	w := s.claim(fleet.DiscoveredAdopt)
	second := s.adopt(id) // while the host runs the first job
	s.finish(w, wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}})
	claim, err := s.Claim(t.Context(), s.agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil || len(claim.Jobs) != 2 {
		t.Fatalf("%+v %v", claim.Jobs, err)
	}
	for _, w := range claim.Jobs {
		s.finish(w, wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}, VM: &fleet.VMStatus{Power: fleet.Running}})
	}
	s.wantTaskState(first.ID, fleet.JobDone, "")
	s.wantTaskState(second.ID, fleet.JobFailed, "has the UUID of this VM already")
	if n := s.countRows("vms"); n != 1 {
		t.Errorf("%d VMs, want one", n)
	}

	// The portal lost the VM, as after a restore of its database: the marked domain is discovered and can be adopted again.
	s.execSQL(`DELETE FROM vms`)
	s.report(wire.State{VMs: []wire.VMReport{{ID: id, Name: "legacy", Generation: 1, Stamped: 1, Status: fleet.VMStatus{Power: fleet.Running}}}})
	again := s.adopt(id)
	s.finish(s.claim(fleet.DiscoveredAdopt), wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}})
	s.finish(s.claim(fleet.VMApply), wire.Finish{VM: &fleet.VMStatus{Power: fleet.Running}})
	s.wantTaskState(again.ID, fleet.JobDone, "")
}

func TestManyVMsAdoptedWithResultEach(t *testing.T) {
	s := newAdoptionFixture(t)
	good, bad := s.addDiscoveredVM(legacyStatus), s.addDiscoveredVM(`{"power":"running","disks":[{"target":"vda","path":"/data/a.img"}]}`)
	transient := s.addDiscoveredVM(`{"power":"running","transient":true}`)
	refs := []control.DiscoveredVMRef{{HostID: s.h1, ID: good}, {HostID: s.h1, ID: bad}, {HostID: s.h1, ID: transient}, {HostID: s.h1, ID: fleet.NewID[fleet.VMID]()}, {HostID: s.h1, ID: good}}
	task, err := s.AdoptVMs(t.Context(), chief, refs, s.red)
	if err != nil || task.SubjectName != "4 VMs" {
		t.Fatalf("%+v %v", task, err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.finish(s.claim(fleet.DiscoveredAdopt), wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}})
	s.finish(s.claim(fleet.VMApply), wire.Finish{VM: &fleet.VMStatus{Power: fleet.Running}})
	got, err := s.GetTask(t.Context(), chief, task.ID)
	if err != nil || got.Steps == nil || got.Steps.Done != 1 || got.Steps.Failed+got.Steps.Refused != 3 || got.State != fleet.JobFailed {
		t.Errorf("the task is %+v %+v %v, want one VM adopted and three refused", got, got.Steps, err)
	}
	for words, want := range map[string]int{"pool with the path /data first": 1, "no persistent definition": 1, "There is no such VM": 1} {
		if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error LIKE '%" + words + "%'"); n != want {
			t.Errorf("%d children with the error %q, want %d", n, words, want)
		}
	}
}

func TestSecondAdoptionNamesTheVMOfTheFirst(t *testing.T) {
	s := newAdoptionFixture(t)
	id := s.addDiscoveredVM(legacyStatus)
	s.adopt(id)
	s.wantRefused("other name", fleet.Conflict, "legacy is being adopted already", func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red, Name: "crm"})
		return err
	})
	s.adopt(id) // the same request joins the task
	s.finish(s.claim(fleet.DiscoveredAdopt), wire.Finish{Adoptable: &fleet.AdoptableVM{Name: "legacy", Spec: s.legacySpec()}})
	adopt := func() error {
		_, err := s.AdoptVM(t.Context(), chief, s.h1, id, control.AdoptVM{ProjectID: s.red})
		return err
	}
	s.wantRefused("adopted", fleet.Conflict, "legacy is adopted already, in project red (ID "+string(id)+")", adopt)
	s.wantRefused("power", fleet.Conflict, "legacy is adopted already", func() error {
		_, err := s.RequestDiscoveredVMAction(t.Context(), chief, s.h1, id, fleet.ActPause)
		return err
	})
	task, err := s.AdoptVMs(t.Context(), chief, []control.DiscoveredVMRef{{HostID: s.h1, ID: id}}, s.red)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("tasks WHERE parent_id = '" + string(task.ID) + "' AND error LIKE 'legacy is adopted already%' AND subject = 'vm:" + string(id) + "'"); n != 1 {
		t.Errorf("%d children lead to the adopted VM, want one", n)
	}
	s.execSQL(`UPDATE vms SET adoption = NULL`)
	s.wantRefused("VM of Quantix", fleet.Conflict, "legacy is a VM of Quantix already, in project red", adopt)
	s.execSQL(`DELETE FROM vms`)
	s.wantRefused("gone", fleet.NotFound, "There is no such VM", adopt)
}

// A host with 1,000 discovered VMs adopts 100 of them. The test acts as the host's agent.
func TestHundredOfThousandDiscoveredVMsAdoptedWithinTenSeconds(t *testing.T) {
	s := newAdoptionFixture(t)
	s.execSQL(`INSERT INTO found_vms (host_id, id, name, status)
		SELECT $1, '00000000-0000-4000-8000-' || lpad(i::text, 12, '0'), 'legacy-' || i, jsonb_build_object('power', 'running', 'cpus', 1, 'memoryMiB', 128,
			'disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'path', '/srv/vm/legacy-' || i || '.qcow2')),
			'nics', jsonb_build_array(jsonb_build_object('mac', '52:54:00:01:' || to_hex(16 + i / 100) || ':' || to_hex(16 + i % 100), 'source', 'network default')))
		FROM generate_series(1, 1000) i`, s.h1)
	var refs []control.DiscoveredVMRef
	for i := range 100 {
		refs = append(refs, control.DiscoveredVMRef{HostID: s.h1, ID: fleet.VMID(fmt.Sprintf("00000000-0000-4000-8000-%012d", 1+10*i))})
	}
	begun := time.Now()
	task, err := s.AdoptVMs(t.Context(), chief, refs, s.red)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		claim, err := s.Claim(t.Context(), s.agent, wire.ClaimRequest{Max: 32}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(claim.Jobs) == 0 {
			break
		}
		var results []wire.Result
		for _, w := range claim.Jobs {
			f := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 128}}
			if id, ok := w.Subject.DiscoveredVM(); ok {
				name := "legacy-" + strings.TrimLeft(string(id[24:]), "0")
				spec := s.legacySpec()
				spec.Disks[0].Volume, spec.NICs[0].MAC = name+".qcow2", fmt.Sprintf("52:54:00:02:%s:%s", id[32:34], id[34:36])
				f.Adoptable, f.VM = &fleet.AdoptableVM{Name: name, Spec: spec}, nil
			}
			s.lastReportSeq++
			f.Seq = s.lastReportSeq
			results = append(results, wire.Result{Job: w.ID, Finish: f})
		}
		if _, err := s.FinishAll(t.Context(), s.agent, results); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(begun)
	got, err := s.GetTask(t.Context(), chief, task.ID)
	if err != nil || got.State != fleet.JobDone || got.Steps.Done != 100 {
		t.Errorf("the task is %s %+v %v, want 100 VMs adopted", got.State, got.Steps, err)
	}
	t.Logf("100 of 1,000 discovered VMs were adopted in %s", took.Round(10*time.Millisecond))
	if took > 10*time.Second {
		t.Errorf("the adoption took %s, more than 10 s", took)
	}
}
