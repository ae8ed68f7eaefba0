package control_test

import (
	"testing"

	"quantix/internal/control/storage"
	"quantix/internal/fleet"
)

func TestRenameVolumeReservesBothNames(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("old.raw")
	other := s.unusedVolume("other.raw")
	for name, to := range map[string]string{"a path": "../up", "half made": "x.partial", "a VM's disk": "web-0123456789ab-1.qcow2", "nothing": "", "its own": "old.raw", "another's": "other.raw"} {
		s.wantRefused("to "+name, fleet.Invalid, "", func() error { _, err := s.RenameVolume(t.Context(), chief, of, to); return err })
	}
	task, err := s.RenameVolume(t.Context(), chief, of, "new.raw")
	if err != nil || task.Kind != fleet.VolumeRename || task.SubjectName != "new.raw" || task.HostName == "" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("volume.rename")
	// Until the job ends, other jobs, new volumes and VMs cannot use the old or the new name.
	for act, ask := range s.volumeRequests(of) {
		s.wantRefused(string(act)+" what is being renamed", fleet.Conflict, "rename volume", ask)
	}
	s.wantRefused("a VM of a volume that is being renamed", fleet.Conflict, "rename volume", s.cloneRequest(chief, s.nfs, of.Volume))
	for _, name := range []string{"old.raw", "new.raw"} {
		s.wantRefused("make another "+name, fleet.Invalid, "Choose another name", func() error {
			_, err := s.CreateVolume(t.Context(), chief, s.nfs, storage.NewVolume{Name: name, Format: "raw", SizeBytes: 1 << 20})
			return err
		})
	}
	s.wantRefused("rename another to it", fleet.Invalid, "Choose another name", func() error { _, err := s.RenameVolume(t.Context(), chief, other, "new.raw"); return err })
	for _, kind := range []string{"rbd", "logical"} {
		format := map[string]string{"rbd": fleet.FormatRBD, "logical": fleet.FormatLV}[kind]
		block := s.unusedVolume("block-" + kind)
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', (SELECT jsonb_agg(CASE WHEN v->>'name' = $2 THEN v || jsonb_build_object('format', $3::text) ELSE v END) FROM jsonb_array_elements(status->'volumes') v)) WHERE pool_id = $1`, s.nfs, block.Volume, format)
		s.wantRefused("rename a block volume", fleet.Conflict, "cannot rename", s.volumeRequests(block)[fleet.ActRename])
	}
}

// The test covers all job kinds that package fleet marks as stoppable: their jobs can be cancelled while they are
// running.
func TestRunningJobsOfStoppableKindsCanBeCancelled(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	if _, err := s.WipeVolume(t.Context(), chief, of, of.Volume); err != nil {
		t.Fatal(err)
	}
	id := fleet.TaskID(queryText(s, `SELECT task_id FROM jobs WHERE kind = 'volume.wipe'`))
	cancel := func() error { _, err := s.CancelTask(t.Context(), chief, id); return err }
	for _, kind := range fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool {
		return k.Type == fleet.TypeVolume && !k.Background && !k.CancelledAtOnce
	}) {
		s.execSQL(`UPDATE jobs SET kind = $2, state = 'running', attempt = 1, epoch = 1, stop = '', note = '', lease_until = now() + interval '1 minute' WHERE task_id = $1`, id, string(kind))
		s.execSQL(`UPDATE tasks SET kind = $2 WHERE id = $1`, id, string(kind))
		if !kind.Info().Stoppable {
			s.wantRefused("take back "+string(kind), fleet.Conflict, "", cancel)
			continue
		}
		if err := cancel(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if s.countRows("jobs WHERE state = 'running' AND note = 'being cancelled' AND stop LIKE 'Cancelled by %'") != 1 {
			t.Errorf("%s: the host is not told", kind)
		}
		s.wantRefused("take back "+string(kind)+" twice", fleet.Conflict, "already", cancel)
	}
	s.execSQL(`UPDATE jobs SET kind = 'volume.wipe', state = 'queued', attempt = 0, stop = '' WHERE task_id = $1`, id)
	s.execSQL(`UPDATE tasks SET kind = 'volume.wipe' WHERE id = $1`, id)
	if err := cancel(); err != nil || s.countRows("jobs WHERE state = 'cancelled'") != 1 {
		t.Errorf("what waits: %v", err)
	}
}
