package control_test

import (
	"encoding/json"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// vmWithLocalDisk returns a running VM of project red on h1 with one disk in the local pool and no unfinished jobs.
func (s *projectFixture) vmWithLocalDisk(name string) (fleet.VMView, fleet.Volref) {
	s.t.Helper()
	spec := smallSpec
	spec.Disks = []fleet.Disk{{PoolID: s.local, SizeBytes: 1 << 30}}
	v, err := s.CreateVM(s.t.Context(), chief, control.CreateVM{ProjectID: s.red, HostID: s.h1, Name: name, Spec: spec})
	if err != nil {
		s.t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', epoch = 1, ended_at = now() WHERE subject = $1`, fleet.SubjectVM(v.ID))
	ref := v.Spec.Disks[0].Ref()
	status := fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256, Disks: []fleet.DiskState{{Target: "vda", Volume: &ref, SizeBytes: 1 << 30}}}
	s.execSQL(`UPDATE vms SET observed_generation = generation, status = $2 WHERE id = $1`, v.ID, status)
	return s.getVM(v.ID), ref
}

// moveFixture is a projectFixture with an agent session of h1.
type moveFixture struct {
	*projectFixture
	agent fleet.Actor
	seq   int64
}

func newMoveFixture(t *testing.T) *moveFixture {
	t.Helper()
	s := newProjectFixture(t)
	m := &moveFixture{projectFixture: s, agent: fleet.Actor{HostID: s.h1, Name: "host h1"}}
	answer, err := s.Hello(t.Context(), m.agent, wire.Hello{Instance: "one", Fingerprint: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	m.agent.Session, m.seq = answer.Session, answer.SeqBase
	return m
}

func (m *moveFixture) claimJobs() []wire.Work {
	m.t.Helper()
	got, err := m.Claim(m.t.Context(), m.agent, wire.ClaimRequest{Max: 8}, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	return got.Jobs
}

func (m *moveFixture) finishJob(w wire.Work, f wire.Finish) error {
	m.seq++
	f.Seq, f.Epoch, f.Generation = m.seq, w.Epoch, w.Generation
	_, _, err := m.Finish(m.t.Context(), m.agent, w.ID, f)
	return err
}

func (m *moveFixture) moveDisk(v fleet.VMView, disk fleet.Volref) fleet.Task {
	m.t.Helper()
	task, err := m.MoveDisk(m.t.Context(), chief, v.ID, disk, control.MoveDisk{PoolID: m.nfs, RateBytes: 10 << 20})
	if err != nil {
		m.t.Fatal(err)
	}
	return task
}

// claimMove claims the VM's disk migration job.
func (m *moveFixture) claimMove(v fleet.VMView) wire.Work {
	m.t.Helper()
	for _, w := range m.claimJobs() {
		if w.Kind == fleet.VMDiskMove && w.VM != nil && w.VM.ID == v.ID {
			return w
		}
	}
	m.t.Fatal("the host is given no move")
	return wire.Work{}
}

func TestDiskMigrationUpdatesSpecOnSuccess(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	task := s.moveDisk(v, disk)
	if task.Kind != fleet.VMDiskMove || task.HostID != s.h1 || s.getVM(v.ID).Spec.Disks[0].Ref() != disk {
		t.Fatalf("%+v", task)
	}
	w := s.claimMove(v)
	order := w.Args.Move
	if order == nil || order.Disk != disk || order.To.PoolID != s.nfs || order.To.Volume != disk.Volume || order.RateBytes != 10<<20 || order.TakesBytes != 1<<30 {
		t.Fatalf("the order is %+v", order)
	}
	pools := map[fleet.PoolID]bool{}
	for _, p := range w.Pools {
		pools[p.ID] = true
	}
	if !pools[s.nfs] || !pools[s.local] {
		t.Errorf("the host is notified of the pools %v", pools)
	}

	// Until the host reports success, other changes of the disk are refused, and neither the old nor the new volume name
	// is free.
	s.wantRefused("move it again", fleet.Conflict, "being moved", func() error {
		_, err := s.MoveDisk(t.Context(), chief, v.ID, disk, control.MoveDisk{PoolID: s.nfs})
		return err
	})
	for _, ref := range []fleet.Volref{disk, order.To} {
		s.addVolume(ref.PoolID, s.h1, `{"name":"`+ref.Volume+`","path":"/v/`+ref.Volume+`","format":"qcow2","capacityBytes":1073741824}`)
		s.wantRefused("clone a migrating disk", fleet.Conflict, "move disk", func() error {
			_, err := s.CloneVolume(t.Context(), chief, storage.VolumeID{PoolID: ref.PoolID, Volume: ref.Volume, HostID: s.h1}, "copy.qcow2", false)
			return err
		})
	}
	s.wantRefused("release the pool that it goes to", fleet.Conflict, "Disks of web are being moved to pool nfs", func() error {
		_, err := s.Release(t.Context(), chief, fleet.SubjectPool(s.nfs), s.h1)
		return err
	})
	s.wantRefused("delete it", fleet.Conflict, "being moved to pool", func() error { _, err := s.DeleteEverywhere(t.Context(), chief, fleet.SubjectPool(s.nfs)); return err })
	spec := s.getVM(v.ID).Spec
	spec.Disks = nil
	if _, _, err := s.UpdateVM(t.Context(), chief, v.ID, control.UpdateVM{Spec: &spec}); err == nil {
		t.Error("the disk was edited meanwhile")
	}
	s.execSQL(`UPDATE vms SET status = jsonb_set(status, '{faults}', $2) WHERE id = $1`, v.ID, json.RawMessage(`[{"code":"disk","disk":{"poolId":"`+string(disk.PoolID)+`","volume":"`+disk.Volume+`"},"text":"gone"}]`))
	s.wantRefused("detach it", fleet.Conflict, "being moved", func() error { _, _, err := s.DetachDisk(t.Context(), chief, v.ID, disk); return err })
	if _, _, err := s.UpdateVM(t.Context(), chief, v.ID, control.UpdateVM{Labels: map[string]string{"a": "b"}}); err != nil {
		t.Errorf("another edit: %v", err)
	}

	now := fleet.VMStatus{Power: fleet.Running, CPUs: 1, MemoryMiB: 256, Disks: []fleet.DiskState{{Target: "vda", Volume: &order.To, SizeBytes: 1 << 30}}}
	for range 2 {
		err := s.finishJob(w, wire.Finish{Outcome: wire.Done, VM: &now})
		got := s.getVM(v.ID)
		if got.Spec.Disks[0].Ref() != order.To || got.Spec.Disks[0].SizeBytes != 1<<30 || got.Generation != v.Generation+2 {
			t.Fatalf("the intent is %+v at generation %d: %v", got.Spec.Disks, got.Generation, err)
		}
	}
	if got := s.auditActions("vm.disk.move"); got != " web, d web" {
		t.Errorf("the audit tells of %q", got)
	}
	var kinds []string
	var deletion wire.Work
	for _, j := range s.claimJobs() {
		if kinds = append(kinds, string(j.Kind)); j.Kind == fleet.VolumeDelete {
			deletion = j
		}
		if ref, ok := j.Subject.Volume(); j.Kind == fleet.VolumeDelete && (!ok || ref != disk || !j.Args.DeleteDisks || j.VolumeUsers == nil || j.VolumeUsers.Disk != "") {
			t.Errorf("the old file's deletion is %+v, held by %+v", j, j.VolumeUsers)
		}
	}
	if got := strings.Join(kinds, " "); !strings.Contains(got, "volume.delete") || !strings.Contains(got, "vm.apply") {
		t.Errorf("afterwards the host is requested %s", got)
	}
	if err := s.finishJob(deletion, wire.Finish{Outcome: wire.Failed, Error: "Another domain uses it."}); err != nil {
		t.Fatal(err)
	}
	said := queryText(s.projectFixture, `SELECT note FROM tasks WHERE kind = 'vm.disk.move'`)
	if want := "The old volume " + disk.Volume + " is still in the pool "; !strings.HasPrefix(said, want) || !strings.HasSuffix(said, ": Another domain uses it.") {
		t.Errorf("the migration's task says %q", said)
	}
}

func TestCancelDiskMigrationKeepsOldDisk(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	waits := s.moveDisk(v, disk)
	if got, err := s.CancelTask(t.Context(), chief, waits.ID); err != nil || got.State != fleet.JobCancelled {
		t.Fatalf("the cancelled queued task: %+v %v", got, err)
	}
	task := s.moveDisk(v, disk)
	w := s.claimMove(v)
	if answer, err := s.Progress(t.Context(), s.agent, w.ID, wire.Progress{Epoch: w.Epoch, Percent: 10}); err != nil || answer.Stop != "" {
		t.Fatalf("%+v %v", answer, err)
	}
	s.wantRefused("a cancelled result without a cancellation", fleet.Malformed, "was not cancelled", func() error {
		return s.finishJob(w, wire.Finish{Outcome: wire.Cancelled})
	})
	if got, err := s.CancelTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobRunning {
		t.Fatalf("what runs: %+v %v", got, err)
	}
	s.wantRefused("twice", fleet.Conflict, "being cancelled already", func() error { _, err := s.CancelTask(t.Context(), chief, task.ID); return err })
	answer, err := s.Progress(t.Context(), s.agent, w.ID, wire.Progress{Epoch: w.Epoch, Percent: 20})
	if err != nil || !strings.Contains(answer.Stop, "Cancelled by") {
		t.Fatalf("the host gets %+v %v", answer, err)
	}

	// A restarted agent claims the job again and gets the cancellation with it.
	s.execSQL(`UPDATE jobs SET state = 'queued', lease_until = NULL WHERE id = $1`, w.ID)
	s.wantRefused("while it waits for its host", fleet.Conflict, "being cancelled already", func() error { _, err := s.CancelTask(t.Context(), chief, task.ID); return err })
	again := s.claimMove(v)
	if again.Stop != answer.Stop {
		t.Errorf("given again: %+v", again)
	}
	if err := s.finishJob(again, wire.Finish{Outcome: wire.Cancelled, Error: again.Stop, VM: v.Status}); err != nil {
		t.Fatal(err)
	}
	got, err := s.GetTask(t.Context(), chief, task.ID)
	if now := s.getVM(v.ID); err != nil || got.State != fleet.JobCancelled || now.Spec.Disks[0].Ref() != disk || now.Status.Error != "" || now.Attention {
		t.Errorf("%+v %v, the VM %+v", got, err, now.Status)
	}
}

func TestForceOffAbortsDiskMigration(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	s.moveDisk(v, disk)
	w := s.claimMove(v)
	if _, err := s.RequestPowerAction(t.Context(), chief, v.ID, fleet.ActStop); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Progress(t.Context(), s.agent, w.ID, wire.Progress{Epoch: w.Epoch})
	if err != nil || !strings.Contains(answer.Stop, "Force off") {
		t.Fatalf("%+v %v", answer, err)
	}
	if err := s.finishJob(w, wire.Finish{Outcome: wire.Cancelled, Error: answer.Stop, VM: v.Status}); err != nil {
		t.Fatal(err)
	}
	if next := s.claimJobs(); len(next) != 1 || next[0].Kind != fleet.VMStop {
		t.Errorf("then the host gets %+v", next)
	}
}

func TestInvalidDiskMigrationRefused(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	ask := func(in control.MoveDisk) func() error {
		return func() error { _, err := s.MoveDisk(t.Context(), chief, v.ID, disk, in); return err }
	}
	s.wantRefused("without a destination pool", fleet.Invalid, "Choose the pool", ask(control.MoveDisk{}))
	s.wantRefused("to the disk's own pool", fleet.Invalid, "in this pool already", ask(control.MoveDisk{PoolID: s.local}))
	s.wantRefused("a limit below the minimum", fleet.Invalid, "1 MiB/s", ask(control.MoveDisk{PoolID: s.nfs, RateBytes: 10}))
	s.wantRefused("no disk", fleet.NotFound, "no disk", func() error {
		_, err := s.MoveDisk(t.Context(), chief, v.ID, fleet.Volref{PoolID: s.local, Volume: "x"}, control.MoveDisk{PoolID: s.nfs})
		return err
	})
	for kind, of := range map[string]fleet.PoolID{"into file pools": s.nfs, "The disk is not a file": s.local} {
		s.execSQL(`UPDATE pools SET spec = spec || '{"kind":"rbd"}' WHERE id = $1`, of)
		s.wantRefused("to or from a block pool", fleet.Invalid, kind, ask(control.MoveDisk{PoolID: s.nfs}))
		s.execSQL(`UPDATE pools SET spec = spec || '{"kind":"dir"}' WHERE id = $1`, of)
	}
	s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{disks,0,overlay}', 'true') WHERE id = $1`, v.ID)
	s.wantRefused("an overlay disk", fleet.Invalid, "is backed by an image", ask(control.MoveDisk{PoolID: s.nfs}))
	s.execSQL(`UPDATE vms SET spec = spec #- '{disks,0,overlay}' WHERE id = $1`, v.ID)
	s.setPoolSizes(s.nfs, 512, 0, 0)
	s.wantRefused("without room", fleet.Invalid, "2 fields", ask(control.MoveDisk{PoolID: s.nfs}))
	targets, err := s.MoveTargets(t.Context(), chief, v.ID, disk)
	if err != nil || len(targets) != 2 {
		t.Fatalf("%+v %v", targets, err)
	}
	for _, p := range targets {
		if p.Allowed || p.Reason == "" || p.LacksOnlySpace != (p.PoolID == s.nfs) {
			t.Errorf("%+v", p)
		}
	}
	if err := ask(control.MoveDisk{PoolID: s.nfs, Overcommit: true})(); err != nil {
		t.Errorf("an administrator with overcommit: %v", err)
	}
	if _, err := s.CancelTask(t.Context(), chief, fleet.TaskID(queryText(s.projectFixture, `SELECT id FROM jobs WHERE kind = 'vm.disk.move'`))); err != nil {
		t.Fatal(err)
	}
	s.setPoolSizes(s.nfs, 1<<20, 0, 0)
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"failed","error":"mount.nfs: Connection refused"}' WHERE pool_id = $1`, s.nfs)
	s.wantRefused("to a pool that fails", fleet.Invalid, "Connection refused", ask(control.MoveDisk{PoolID: s.nfs}))
	s.execSQL(`UPDATE assignments SET status = status || '{"state":"active","error":""}' WHERE pool_id = $1`, s.nfs)
	s.execSQL(`UPDATE vms SET status = status || '{"drift":[{"field":"disks","applied":"a","actual":"b"}]}' WHERE id = $1`, v.ID)
	s.wantRefused("with disks that somebody changed", fleet.Conflict, "disks were changed on the host", ask(control.MoveDisk{PoolID: s.nfs}))
	s.execSQL(`UPDATE vms SET status = status - 'drift' WHERE id = $1`, v.ID)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 minute'`)
	s.wantRefused("on a host that is offline", fleet.Conflict, "offline", ask(control.MoveDisk{PoolID: s.nfs}))
}

// A disk migration reserves space in its destination pool.
func TestDiskMigrationReservesSpace(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	s.setPoolSizes(s.nfs, 1536, 0, 0)
	s.moveDisk(v, disk)
	s.wantRefused("space that is reserved already", fleet.Invalid, "2 fields", func() error {
		_, err := s.CreateVolume(t.Context(), chief, s.nfs, storage.NewVolume{Name: "most.raw", Format: "raw", SizeBytes: 1 << 30})
		return err
	})
}

func queryText(s *projectFixture, sql string) (out string) {
	s.t.Helper()
	if err := s.pool.QueryRow(s.t.Context(), sql).Scan(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// A disk migration has no attempt limit, because only the host knows which pool has the disk after an interruption.
func TestDiskMigrationHasNoAttemptLimit(t *testing.T) {
	s := newMoveFixture(t)
	v, disk := s.vmWithLocalDisk("web")
	s.moveDisk(v, disk)
	w := s.claimMove(v)
	for range 6 {
		s.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = $1`, w.ID)
		if err := s.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		w = s.claimMove(v)
	}
	if err := s.finishJob(w, wire.Finish{Outcome: wire.Done}); err != nil {
		t.Fatal(err)
	}
	if got := s.getVM(v.ID).Spec.Disks[0].Ref(); got != w.Args.Move.To {
		t.Errorf("the VM has its disk at %v", got)
	}
}
