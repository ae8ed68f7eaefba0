package control_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/schedules"
	"quantix/internal/wire"
)

// scheduleFixture is a VM with a snapshot schedule, and the agent session of the VM's host.
type scheduleFixture struct {
	*moveFixture
	vm   fleet.VMView
	id   schedules.ScheduleID
	tree fleet.SnapshotTree
}

var hourlySchedule = schedules.SnapshotSchedule{
	Name: "hourly", Enabled: true, Times: schedules.SnapshotTimes{EveryHours: 1, At: "00:00", Zone: farHourZone.zone}, Keep: schedules.SnapshotRetention{Last: 2},
}

// farHourZone is a time zone where the next full hour is at least a quarter of an hour away, so that hourly schedules
// do not become due during the tests.
var farHourZone = func() (far struct {
	zone    string
	minutes int
},
) {
	if now := time.Now().Minute(); now < 15 || now >= 45 {
		far.zone, far.minutes = "Asia/Kolkata", 30
	}
	return far
}()

func newScheduleFixture(t *testing.T, spec schedules.SnapshotSchedule) *scheduleFixture {
	t.Helper()
	s := &scheduleFixture{moveFixture: newMoveFixture(t)}
	s.vm, _ = s.vmWithLocalDisk("web")
	var err error
	if s.id, err = s.AddSnapshotSchedule(t.Context(), s.member, s.vm.ID, spec); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scheduleFixture) runSchedulePass() {
	s.t.Helper()
	if err := s.RunSnapshotSchedules(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// makeScheduleDue moves the schedule's next due time into the past.
func (s *scheduleFixture) makeScheduleDue() {
	s.t.Helper()
	s.execSQL(`UPDATE snapshot_runs SET due = due - interval '1 hour' WHERE schedule_id = $1`, s.id)
	s.execSQL(`UPDATE snapshot_schedules SET next_at = date_trunc('hour', now() - make_interval(mins => $1)) + make_interval(mins => $1), look_at = now()`, farHourZone.minutes)
	s.runSchedulePass()
}

// rerunSchedulePass makes the schedule's next check due and runs the pass again.
func (s *scheduleFixture) rerunSchedulePass() {
	s.t.Helper()
	s.execSQL(`UPDATE snapshot_schedules SET look_at = now()`)
	s.runSchedulePass()
}

func (s *scheduleFixture) scheduleView() schedules.ScheduleView {
	s.t.Helper()
	all, err := s.SnapshotSchedules(s.t.Context(), s.member, s.vm.ID)
	if err != nil || len(all) == 0 {
		s.t.Fatalf("%+v %v", all, err)
	}
	return all[0]
}

// reportSnapshotTree sends a host report with the VM's snapshots.
func (s *scheduleFixture) reportSnapshotTree() {
	s.t.Helper()
	s.tree.Depth = len(s.tree.Snapshots) + 1
	s.execSQL(`UPDATE vms SET status = status || jsonb_build_object('snapshots', $2::jsonb) WHERE id = $1`, s.vm.ID, s.tree)
}

// finishJobs finishes all snapshot jobs of the host with the error text, or successfully if it is empty. It returns the
// jobs' kinds and snapshots.
func (s *scheduleFixture) finishJobs(errText string) string {
	s.t.Helper()
	var did strings.Builder
	for _, w := range s.claimJobs() {
		o := w.Args.Snapshot
		if o == nil {
			continue
		}
		out := wire.Finish{Outcome: wire.Done}
		switch {
		case errText != "":
			out = wire.Finish{Outcome: wire.Failed, Error: errText}
		case w.Kind == fleet.VMSnapshot:
			s.tree.Snapshots = append(s.tree.Snapshots, fleet.Snapshot{ID: o.ID, Name: o.Name, By: o.By, Parent: s.tree.Current, Disks: []fleet.Volref{s.vm.Spec.Disks[0].Ref()}})
			s.tree.Current = o.ID
		default:
			for i, x := range s.tree.Snapshots {
				if x.ID == o.ID {
					s.tree.Snapshots = append(s.tree.Snapshots[:i:i], s.tree.Snapshots[i+1:]...)
					break
				}
			}
		}
		s.reportSnapshotTree()
		status := *s.getVM(s.vm.ID).Status
		status.Faults = nil
		out.VM = &status
		if err := s.finishJob(w, out); err != nil {
			s.t.Fatal(err)
		}
		did.WriteString(string(w.Kind) + " " + o.Name + "; ")
	}
	return did.String()
}

// A schedule requests snapshots with the checks that apply to a person. It retains the configured number and deletes
// only its own snapshots.
func TestScheduleTakesAndRetainsSnapshots(t *testing.T) {
	s := newScheduleFixture(t, hourlySchedule)
	if v := s.scheduleView(); v.NextAt == nil || v.LastAt != nil || v.Trouble != "" || v.NextAt.Minute() != farHourZone.minutes || v.CreatedBy != s.member.Name {
		t.Fatalf("at first it is %+v", v)
	}
	s.rerunSchedulePass()
	if did := s.finishJobs(""); did != "" {
		t.Fatalf("before its time: %s", did)
	}
	if _, err := s.TakeSnapshot(t.Context(), s.member, s.vm.ID, control.NewSnapshot{Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	s.finishJobs("")
	for n := range 4 {
		s.makeScheduleDue()
		did := s.finishJobs("")
		if !strings.HasPrefix(did, "vm.snapshot hourly 20") || strings.Count(did, ";") != 1 {
			t.Fatalf("due the %d. time: %s", n+1, did)
		}
		s.rerunSchedulePass()
		if did := s.finishJobs(""); (did == "") != (n < 2) || strings.Count(did, "vm.snapshot.delete") > 1 || strings.Contains(did, "mine") {
			t.Fatalf("after the %d. time: %s", n+1, did)
		}
		s.rerunSchedulePass()
		if did := s.finishJobs(""); did != "" {
			t.Fatalf("and then: %s", did)
		}
	}
	if v := s.scheduleView(); v.Snapshots != 2 || v.LastAt == nil || v.LastTask == "" || v.Trouble != "" || v.NextAt == nil || !v.NextAt.After(*v.LastAt) {
		t.Errorf("afterwards it is %+v", v)
	}
	if len(s.tree.Snapshots) != 3 || s.tree.Snapshots[0].Name != "mine" || s.tree.Snapshots[1].By != "schedule hourly" {
		t.Errorf("the VM has %+v", s.tree.Snapshots)
	}
	if err := s.DeleteSnapshotSchedule(t.Context(), s.member, s.vm.ID, s.id); err != nil {
		t.Fatal(err)
	}
	s.runSchedulePass()
	if did := s.finishJobs(""); did != "" || len(s.tree.Snapshots) != 3 {
		t.Errorf("with the schedule goes %s", did)
	}
}

// If a schedule has missed several due times, one snapshot is taken and the number of missed times is shown. A
// concurrent pass of another portal requests no snapshot.
func TestMissedSnapshotScheduleRunsOnce(t *testing.T) {
	s := newScheduleFixture(t, hourlySchedule)
	s.execSQL(`UPDATE snapshot_schedules SET next_at = date_trunc('hour', now() - make_interval(mins => $1)) + make_interval(mins => $1) - interval '5 hours', look_at = now()`, farHourZone.minutes)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := s.RunSnapshotSchedules(t.Context(), fleet.SystemActor); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.runSchedulePass()
	if did := s.finishJobs(""); strings.Count(did, ";") != 1 {
		t.Fatalf("it was requested %s", did)
	}
	v := s.scheduleView()
	if v.Missed != 5 || v.LastAt == nil || time.Since(*v.LastAt) > time.Hour || !v.NextAt.After(time.Now()) {
		t.Errorf("it is %+v", v)
	}
}

// A schedule that must wait shows the reason, and continues when the reason no longer applies. The VM needs attention
// only if a person must act.
func TestSnapshotScheduleShowsReasonForDelay(t *testing.T) {
	s := newScheduleFixture(t, hourlySchedule)
	waits := func(when, says string, attention bool) {
		t.Helper()
		v, vm := s.scheduleView(), s.getVM(s.vm.ID)
		if !strings.Contains(v.Trouble, says) || (says == "") != (v.Trouble == "") || v.Attention != attention || vm.Attention != attention || (vm.ScheduleTrouble != "") != attention {
			t.Fatalf("%s: %+v; the VM: %v %q", when, v, vm.Attention, vm.ScheduleTrouble)
		}
		if queryText(s.projectFixture, `SELECT attention::text FROM vms`) != strconv.FormatBool(attention) {
			t.Errorf("%s: its row has another attention", when)
		}
		if i := len(vm.Status.Faults); attention && (i == 0 || vm.Status.Faults[i-1].Code != fleet.FaultSchedule) {
			t.Errorf("%s: its faults are %+v", when, vm.Status.Faults)
		}
	}
	if _, err := s.TakeSnapshot(t.Context(), s.member, s.vm.ID, control.NewSnapshot{Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	s.makeScheduleDue()
	waits("while another is taken", "under way", false)
	s.finishJobs("")
	if err := s.protectRequest(s.member, s.vm.ID, control.ProtectVM{Locked: true, Reason: "migration"})(); err != nil {
		t.Fatal(err)
	}
	s.rerunSchedulePass()
	waits("while it is locked", "migration", false)
	if err := s.protectRequest(s.member, s.vm.ID, control.ProtectVM{})(); err != nil {
		t.Fatal(err)
	}
	deep := s.tree
	for range fleet.DeepChain {
		s.tree.Snapshots = append(s.tree.Snapshots, fleet.Snapshot{ID: fleet.NewID[fleet.SnapshotID](), Name: "theirs"})
	}
	s.reportSnapshotTree()
	s.rerunSchedulePass()
	waits("while the chain is deep", "The schedule is paused", true)
	if did := s.finishJobs(""); did != "" {
		t.Fatalf("paused, it requested %s", did)
	}
	s.tree = deep
	s.reportSnapshotTree()
	s.rerunSchedulePass()
	waits("when the chain is short again", "", false)
	if did := s.finishJobs("No space left on device"); !strings.Contains(did, "vm.snapshot ") {
		t.Fatalf("then it requested %s", did)
	}
	s.rerunSchedulePass()
	waits("when the host has no room", "No space left on device", true)
	s.makeScheduleDue()
	if did := s.finishJobs(""); !strings.Contains(did, "vm.snapshot ") {
		t.Fatalf("after a failure it requested %s", did)
	}
	s.rerunSchedulePass()
	waits("after a success", "", false)
	for range 2 { // the first snapshot is beyond the retention
		s.makeScheduleDue()
		s.finishJobs("")
	}
	s.rerunSchedulePass()
	if did := s.finishJobs("QEMU gave up"); !strings.Contains(did, "vm.snapshot.delete") {
		t.Fatalf("of three it deletes %s", did)
	}
	s.rerunSchedulePass()
	waits("when an expired snapshot cannot be deleted", "could not be deleted: QEMU gave up", true)
	if did := s.finishJobs(""); did != "" {
		t.Fatalf("at once again: %s", did)
	}
	s.execSQL(`UPDATE snapshot_runs SET tidy_at = now() WHERE tidy_at IS NOT NULL`)
	s.rerunSchedulePass()
	if did := s.finishJobs(""); !strings.Contains(did, "vm.snapshot.delete") {
		t.Fatalf("later again: %s", did)
	}
	s.rerunSchedulePass()
	waits("when the snapshot is deleted", "", false)
	off := hourlySchedule
	off.Enabled = false
	if err := s.EditSnapshotSchedule(t.Context(), s.member, s.vm.ID, s.id, off); err != nil {
		t.Fatal(err)
	}
	s.runSchedulePass()
	if v := s.scheduleView(); v.NextAt != nil || v.Enabled || s.finishJobs("") != "" {
		t.Errorf("disabled, it is %+v", v)
	}
}

func TestInvalidSnapshotScheduleRefused(t *testing.T) {
	s := newScheduleFixture(t, hourlySchedule)
	add := func(change func(*schedules.SnapshotSchedule)) func() error {
		in := schedules.SnapshotSchedule{Name: "other", Enabled: true, Times: schedules.SnapshotTimes{At: "01:00"}, Keep: schedules.SnapshotRetention{Daily: 1}}
		change(&in)
		return func() error { _, err := s.AddSnapshotSchedule(t.Context(), s.member, s.vm.ID, in); return err }
	}
	s.wantRefused("a name in use", fleet.Invalid, "of that name", add(func(in *schedules.SnapshotSchedule) { in.Name = " hourly " }))
	s.wantRefused("a retention that is too large", fleet.Invalid, "The VM's other schedules keep", add(func(in *schedules.SnapshotSchedule) { in.Keep.Weekly = 4 }))
	s.wantRefused("an invalid time", fleet.Invalid, "HH:MM", add(func(in *schedules.SnapshotSchedule) { in.Times.At = "noon" }))
	for i := range schedules.MaxSchedules - 1 {
		if err := add(func(in *schedules.SnapshotSchedule) { in.Name = fmt.Sprint("other", i) })(); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRefused("one more", fleet.Conflict, "which is the maximum", add(func(*schedules.SnapshotSchedule) {}))
	in := hourlySchedule
	in.Keep = schedules.SnapshotRetention{Last: 4}
	s.wantRefused("an edit to a retention that is too large", fleet.Invalid, "The VM's other schedules keep", func() error {
		return s.EditSnapshotSchedule(t.Context(), s.member, s.vm.ID, s.id, in)
	})
	in.Keep = schedules.SnapshotRetention{Last: 3}
	next := s.scheduleView().NextAt
	if err := s.EditSnapshotSchedule(t.Context(), s.member, s.vm.ID, s.id, in); err != nil {
		t.Fatal(err)
	}
	if v := s.scheduleView(); v.Keep.Last != 3 || !v.NextAt.Equal(*next) {
		t.Errorf("after the edit it is %+v", v)
	}
	gone := fleet.NewID[schedules.ScheduleID]()
	s.wantRefused("an edit of an unknown schedule", fleet.NotFound, "no such schedule", func() error { return s.EditSnapshotSchedule(t.Context(), s.member, s.vm.ID, gone, in) })
	s.wantRefused("deletion of an unknown schedule", fleet.NotFound, "no such schedule", func() error { return s.DeleteSnapshotSchedule(t.Context(), s.member, s.vm.ID, gone) })
	other, _ := s.vmWithLocalDisk("db")
	s.wantRefused("deletion through another VM", fleet.NotFound, "no such schedule", func() error { return s.DeleteSnapshotSchedule(t.Context(), s.member, other.ID, s.id) })
}
