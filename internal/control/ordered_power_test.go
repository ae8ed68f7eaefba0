package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestRequestedPowerInSQLMatchesGo(t *testing.T) {
	r := newHostFixture(t)
	for _, k := range append(fleet.JobKindsWhere(func(fleet.JobKindInfo) bool { return true }), "", "vm.new") {
		if got := queryValue[*string](r, `SELECT ordered_power($1)`, k); (got == nil) != (k.Info().Power == "") || got != nil && *got != string(k.Info().Power) {
			t.Errorf("%s orders %q in Go, in SQL %v", k, k.Info().Power, got)
		}
	}
}

// appendPhase appends the VM's current phase to seen if it changed.
func (r *hostFixture) appendPhase(id fleet.VMID, seen *[]fleet.Phase) {
	r.t.Helper()
	vm, err := r.GetVM(r.t.Context(), fleet.SystemActor, id)
	if err != nil {
		r.t.Fatal(err)
	}
	if n := len(*seen); n == 0 || (*seen)[n-1] != vm.Phase {
		*seen = append(*seen, vm.Phase)
	}
}

// createAndFinishVM creates a VM that starts at once, and finishes the creation. It appends the phase after each step
// to seen.
func (r *hostFixture) createAndFinishVM(name string, seen *[]fleet.Phase) fleet.VMID {
	r.t.Helper()
	r.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '') ON CONFLICT DO NOTHING`)
	id := r.addVM(name)
	r.queueVMJob(id, fleet.VMStart)
	r.appendPhase(id, seen)
	make := r.claimJobs()
	if len(make) != 1 || make[0].Kind != fleet.VMApply {
		r.t.Fatalf("claimed %+v", make)
	}
	// The host reports the VM as stopped between its creation and its start.
	r.reportState("made", wire.VMReport{ID: id, Name: name, Status: fleet.VMStatus{Power: fleet.Stopped}})
	r.appendPhase(id, seen)
	if err := r.finishJob(make[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		r.t.Fatal(err)
	}
	r.appendPhase(id, seen)
	return id
}

func TestVMPhaseIsStartingUntilStartJobEnds(t *testing.T) {
	r := newHostFixture(t)
	var seen []fleet.Phase
	id := r.createAndFinishVM("web", &seen)
	start := r.claimJobs()[0]
	r.appendPhase(id, &seen)
	for _, by := range []fleet.Power{fleet.Stopped, fleet.Paused, fleet.Running} {
		r.reportState(string(by), wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: by}})
		r.appendPhase(id, &seen)
	}
	if err := r.finishJob(start, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Running}}); err != nil {
		t.Fatal(err)
	}
	r.appendPhase(id, &seen)
	if want := []fleet.Phase{fleet.PhaseCreating, fleet.PhaseStarting, fleet.PhaseRunning}; !slices.Equal(seen, want) {
		t.Fatalf("shown: %v, want %v", seen, want)
	}
}

func TestFailedStartClearsRequestedPower(t *testing.T) {
	r := newHostFixture(t)
	var seen []fleet.Phase
	id := r.createAndFinishVM("web", &seen)
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Failed, Error: "no firmware", VM: &fleet.VMStatus{Power: fleet.Stopped, Error: "no firmware", ErrorOf: fleet.VMStart}}); err != nil {
		t.Fatal(err)
	}
	r.appendPhase(id, &seen)
	if want := []fleet.Phase{fleet.PhaseCreating, fleet.PhaseStarting, fleet.PhaseStopped}; !slices.Equal(seen, want) || !r.vmNeedsAttention(id) {
		t.Fatalf("shown: %v, want %v, and in need", seen, want)
	}
}

func TestStartCancelledDuringCreation(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '')`)
	id := r.addVM("web")
	r.queueVMJob(id, fleet.VMStart)
	job := r.claimJobs()[0]
	if _, err := r.RequestPowerAction(t.Context(), chief, id, fleet.ActStop); err != nil {
		t.Fatalf("force off during the creation: %v", err)
	}
	r.reportState("")
	if err := r.finishJob(job, wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	next := r.claimJobs()
	if len(next) != 1 || next[0].Kind != fleet.VMStop || next[0].VM == nil {
		t.Fatalf("after the creation the host gets %+v", next)
	}
	if err := r.finishJob(next[0], wire.Finish{Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}); err != nil {
		t.Fatal(err)
	}
	vm, err := r.GetVM(t.Context(), fleet.SystemActor, id)
	if err != nil || vm.Phase != fleet.PhaseStopped || vm.Attention || vm.Spec.Power != fleet.Stopped || len(r.claimJobs()) != 0 {
		t.Fatalf("%+v %v", vm, err)
	}
}

func TestStartCancelledWhenCreationFails(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '')`)
	id := r.addVM("web")
	r.queueVMJob(id, fleet.VMStart)
	job := r.claimJobs()[0]
	if _, err := r.RequestPowerAction(t.Context(), chief, id, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	if err := r.finishJob(job, wire.Finish{Outcome: wire.Failed, Error: "no space", VM: &fleet.VMStatus{Power: fleet.Absent, Error: "no space", ErrorOf: fleet.VMApply}}); err != nil {
		t.Fatal(err)
	}
	for _, w := range r.claimJobs() {
		if w.Kind != fleet.VMApply {
			t.Fatalf("the host is asked to %s a missing object", w.Kind)
		}
	}
	if n := queryValue[int](r, `SELECT count(*) FROM jobs WHERE state = 'queued'`); n != 0 {
		t.Fatalf("%d orders wait on", n)
	}
}

func TestForceOffDuringCreationNeedsQueuedStart(t *testing.T) {
	s := newProjectFixture(t)
	v, err := s.CreateVM(t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: "web", Spec: smallSpec})
	if err != nil {
		t.Fatal(err)
	}
	s.wantRefused("force off", fleet.Conflict, "still being created", func() error {
		_, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActStop)
		return err
	})
}
