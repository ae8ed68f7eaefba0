package control_test

import (
	"testing"

	"quantix/internal/bin"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// The dialog of several VMs says that they go into the recycle bin. A VM whose project has none, or whose recycle bin is
// switched off meanwhile, keeps its disks.
func TestBulkDeletionIntoRecycleBinNeverDeletesPermanently(t *testing.T) {
	s := newBinFixture(t)
	vm := s.createdVM("precious")
	if _, err := s.SetProjectBin(t.Context(), chief, s.red, bin.Overrides{Days: new(0)}); err != nil {
		t.Fatal(err)
	}
	task, err := s.DeleteVMs(t.Context(), chief, []fleet.VMID{vm.ID}, control.VMDeletion{Disks: true, Recycle: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.BeginTasks(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows(`jobs WHERE kind = 'vm.delete' AND host_id IS NOT NULL`); n != 0 {
		t.Errorf("%d jobs delete the VM", n)
	}
	children, err := s.ListTasks(t.Context(), chief, fleet.Query{Filter: "parent:" + string(task.ID)})
	if err != nil || len(children.Items) != 1 || children.Items[0].State != fleet.JobFailed {
		t.Errorf("%+v %v", children.Items, err)
	}
}
