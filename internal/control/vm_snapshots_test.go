package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// reportTwoSnapshots adds two reported snapshots to the VM: base, and its child tip, which is the current one.
func (s *projectFixture) reportTwoSnapshots(v fleet.VMView) (base, tip fleet.SnapshotID) {
	s.t.Helper()
	base, tip = fleet.NewID[fleet.SnapshotID](), fleet.NewID[fleet.SnapshotID]()
	disks := []fleet.Volref{v.Spec.Disks[0].Ref()}
	tree := fleet.SnapshotTree{Current: tip, Depth: 3, Snapshots: []fleet.Snapshot{
		{ID: base, Name: "base", Disks: disks}, {ID: tip, Parent: base, Name: "tip", Memory: true, Disks: disks, Bytes: 5 << 30},
	}}
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('snapshots', $2::jsonb) WHERE id = $1`, v.ID, tree)
	return base, tip
}

// claimOnlySnapshotJob returns the host's only snapshot job.
func (m *moveFixture) claimOnlySnapshotJob(kind fleet.JobKind) wire.Work {
	m.t.Helper()
	for _, w := range m.claimJobs() {
		if w.Kind == kind && w.VM != nil && w.Args.Snapshot != nil {
			return w
		}
	}
	m.t.Fatalf("the host is given no %s", kind)
	return wire.Work{}
}

func TestTakeSnapshotRefusedWhileSnapshotJobRuns(t *testing.T) {
	s := newMoveFixture(t)
	v, _ := s.vmWithLocalDisk("web")
	for what, in := range map[string]control.NewSnapshot{
		"no name": {}, "two lines": {Name: "a\nb"}, "a name that turns the line": {Name: "a\u202eb"}, "a long name": {Name: strings.Repeat("a", 81)},
		"a description of two lines": {Name: "a", Description: "two\nlines"},
		"a long description":         {Name: "a", Description: strings.Repeat("a", 1025)}, "memory at rest": {Name: "a", Memory: true, Quiesce: true},
	} {
		s.wantRefused(what, fleet.Invalid, "", func() error { _, err := s.TakeSnapshot(t.Context(), chief, v.ID, in); return err })
	}
	task, err := s.TakeSnapshot(t.Context(), chief, v.ID, control.NewSnapshot{Name: " before the upgrade ", Description: "one line", Memory: true})
	if err != nil || task.Kind != fleet.VMSnapshot || task.Title() != "Take snapshot" {
		t.Fatalf("%+v %v", task, err)
	}
	s.wantRefused("another meanwhile", fleet.Conflict, "under way", func() error {
		_, err := s.TakeSnapshot(t.Context(), chief, v.ID, control.NewSnapshot{Name: "second"})
		return err
	})
	w := s.claimOnlySnapshotJob(fleet.VMSnapshot)
	if o := w.Args.Snapshot; o.ID == "" || o.Name != "before the upgrade" || o.By != chief.Name || !o.Memory || o.Description != "one line" {
		t.Fatalf("the order is %+v", w.Args.Snapshot)
	}
	status := *s.getVM(v.ID).Status
	if err := s.finishJob(w, wire.Finish{Outcome: wire.Failed, Error: "No space left on device", VM: &status}); err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(v.ID); got.Attention || got.Status.Error != "" {
		t.Errorf("a snapshot that could not be taken leaves a mark: %+v", got.Status)
	}
	if _, err := s.TakeSnapshot(t.Context(), chief, v.ID, control.NewSnapshot{Name: "again"}); err != nil {
		t.Errorf("after it has failed: %v", err)
	}
}

func TestSnapshotRefusedWhenNameTaken(t *testing.T) {
	s := newMoveFixture(t)
	v, _ := s.vmWithLocalDisk("web")
	base, _ := s.reportTwoSnapshots(v)
	take := func() error {
		_, err := s.TakeSnapshot(t.Context(), chief, v.ID, control.NewSnapshot{Name: " base"})
		return err
	}
	s.wantRefused("the name of another snapshot", fleet.Invalid, `has a snapshot named "base" already`, take)
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{snapshots,snapshots,0,deleted}', 'true') WHERE id = $1 AND status #>> '{snapshots,snapshots,0,id}' = $2`, v.ID, base)
	if err := take(); err != nil {
		t.Errorf("the name of a deleted one: %v", err)
	}
}

func TestRevertAndDeleteSnapshotsQueueJobs(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	base, tip := s.reportTwoSnapshots(v)
	s.wantRefused("revert to an unknown snapshot", fleet.NotFound, "", func() error {
		_, err := s.RevertSnapshot(t.Context(), chief, v.ID, fleet.NewID[fleet.SnapshotID](), control.RevertSnapshot{})
		return err
	})
	if _, err := s.RevertSnapshot(t.Context(), chief, v.ID, tip, control.RevertSnapshot{Start: true}); err != nil {
		t.Fatal(err)
	}
	w := s.claimOnlySnapshotJob(fleet.VMRevert)
	if o := w.Args.Snapshot; o.ID != tip || o.Start {
		t.Errorf("to a snapshot with memory: %+v", o)
	}
	status := *s.getVM(v.ID).Status
	if err := s.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &status}); err != nil {
		t.Fatal(err)
	}
	// Changes that would separate disks from their snapshots are refused, and no job is queued.
	for what, do := range map[string]func() error{
		"move": func() error {
			_, err := s.MoveDisk(t.Context(), chief, v.ID, disk, control.MoveDisk{PoolID: s.nfs})
			return err
		},
		"delete it alone": func() error { _, err := s.DeleteVM(t.Context(), chief, v.ID, false, ""); return err },
		"merge nothing":   func() error { _, err := s.ConsolidateVM(t.Context(), chief, v.ID); return err },
	} {
		s.wantRefused(what, fleet.Conflict, "", do)
	}
	task, err := s.DeleteSnapshot(t.Context(), chief, v.ID, base, true)
	if err != nil {
		t.Fatal(err)
	}
	w = s.claimOnlySnapshotJob(fleet.VMSnapshotDelete)
	if o := w.Args.Snapshot; o.ID != base || !o.Subtree {
		t.Errorf("with all after it: %+v", o)
	}
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Errorf("a merge that has begun cannot be cancelled: %v", err)
	}
	if err := s.finishJob(w, wire.Finish{Outcome: wire.Cancelled, Error: "cancelled", VM: &status}); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{snapshots,merges}', '1') WHERE id = $1`, v.ID)
	if _, err := s.ConsolidateVM(t.Context(), chief, v.ID); err != nil {
		t.Errorf("merge what is left: %v", err)
	}
	s.claimOnlySnapshotJob(fleet.VMConsolidate)
	if _, err := s.DeleteVM(t.Context(), chief, v.ID, true, "web"); err != nil {
		t.Errorf("delete with its data while it merges: %v", err)
	}
	if stop := queryText(s.projectFixture, `SELECT stop FROM jobs WHERE kind = 'vm.consolidate'`); stop == "" {
		t.Error("the merge is not told to end")
	}
}
