package control_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// vmNeedsAttention reports whether the VM needs attention. It checks that the list's filter and the VM's page agree.
func (r *hostFixture) vmNeedsAttention(id fleet.VMID) bool {
	r.t.Helper()
	page, err := r.ListVMs(r.t.Context(), fleet.SystemActor, fleet.Query{Filter: "attention:yes id:" + string(id)})
	if err != nil {
		r.t.Fatal(err)
	}
	vm, err := r.GetVM(r.t.Context(), fleet.SystemActor, id)
	if err != nil || vm.Attention != (len(page.Items) == 1) {
		r.t.Fatalf("attention is %t on the VM and %t in the list: %v", vm.Attention, len(page.Items) == 1, err)
	}
	return vm.Attention
}

func TestVMWithFailedStartNeedsAttention(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', '')`)
	id := r.addVM("web")
	off := &fleet.VMStatus{Power: fleet.Stopped}
	if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: wire.Done, VM: off}); err != nil {
		t.Fatal(err)
	}
	r.reportState("1", wire.VMReport{ID: id, Name: "web", Generation: 1, Status: *off})
	order := func(act fleet.Action, outcome wire.Outcome, status *fleet.VMStatus) {
		t.Helper()
		if _, err := r.RequestPowerAction(t.Context(), chief, id, act); err != nil {
			t.Fatal(err)
		}
		if r.vmNeedsAttention(id) {
			t.Fatalf("the VM needs attention while %s is queued", act)
		}
		errText := ""
		if status != nil {
			errText = status.Error
		}
		if err := r.finishJob(r.claimJobs()[0], wire.Finish{Outcome: outcome, Error: errText, VM: status}); err != nil {
			t.Fatal(err)
		}
	}
	failed := &fleet.VMStatus{Power: fleet.Stopped, Error: "no firmware", ErrorOf: fleet.VMStart}
	order(fleet.ActStart, wire.Failed, failed)
	if !r.vmNeedsAttention(id) {
		t.Fatal("a failed start raises no attention")
	}
	order(fleet.ActStart, wire.Done, &fleet.VMStatus{Power: fleet.Running})
	if r.vmNeedsAttention(id) {
		t.Fatal("attention remains after a successful start")
	}
	order(fleet.ActStop, wire.Done, off)
	order(fleet.ActStart, wire.Failed, failed)
	if !r.vmNeedsAttention(id) {
		t.Fatal("a second failed start raises no attention")
	}
	order(fleet.ActStop, wire.Done, off) // already off, so the start is cancelled
	if vm, err := r.GetVM(t.Context(), fleet.SystemActor, id); err != nil || r.vmNeedsAttention(id) || vm.Spec.Power != fleet.Stopped {
		t.Fatalf("the start cannot be cancelled: %+v %v", vm, err)
	}
	if _, err := r.RequestPowerAction(t.Context(), chief, id, fleet.ActStop); fleet.CodeOf(err) != fleet.Conflict {
		t.Fatalf("force off accepted for a VM that is off: %v", err)
	}
}
