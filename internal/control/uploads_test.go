package control_test

import (
	"fmt"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// addUploader returns a user who uploads files.
func (s *projectFixture) addUploader(name string, role fleet.Role) fleet.Actor {
	a := s.addUser(name, role)
	a.Session = "browser"
	return a
}

func (s *projectFixture) createUpload(a fleet.Actor, name string) fleet.Upload {
	s.t.Helper()
	u, err := s.CreateUpload(s.t.Context(), a, s.nfs, control.NewUpload{Name: name, SizeBytes: 1 << 20, File: name + "/1048576/7", HostID: s.h1})
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

func TestCreateUploadResumesUnfinishedUpload(t *testing.T) {
	s := newProjectFixture(t)
	uploading := s.addUploader("sender", fleet.RoleOperator)
	order := func(in control.NewUpload) func() error {
		return func() error { _, err := s.CreateUpload(t.Context(), uploading, s.nfs, in); return err }
	}
	for says, bad := range map[string]control.NewUpload{
		"64 digits":          {Name: "a.raw", SizeBytes: 1, Checksum: "12"},
		"above 0":            {Name: "a.raw"},
		"letters, digits":    {Name: "../a", SizeBytes: 1},
		"disks of VMs":       {Name: "web-0123456789ab-1.qcow2", SizeBytes: 1},
		"incomplete volumes": {Name: "a.partial", SizeBytes: 1},
		"characters":         {Name: "a.raw", SizeBytes: 1, File: strings.Repeat("x", fleet.MaxFile+1)},
	} {
		s.wantRefused(says, fleet.Invalid, says, order(bad))
	}
	u := s.createUpload(uploading, "image.raw")
	s.auditActions("volume.upload")
	if again := s.createUpload(uploading, "image.raw"); again.ID != u.ID {
		t.Errorf("the same file is sent as %s, and again as %s", u.ID, again.ID)
	}
	s.wantRefused("the same name of another file", fleet.Invalid, "is being made", order(control.NewUpload{Name: "image.raw", SizeBytes: 1 << 20, HostID: s.h1}))
	other := s.addUploader("other", fleet.RoleOperator)
	s.wantRefused("the same file of another person", fleet.Invalid, "is being made", func() error {
		_, err := s.CreateUpload(t.Context(), other, s.nfs, control.NewUpload{Name: "image.raw", SizeBytes: 1 << 20, File: "image.raw/1048576/7", HostID: s.h1})
		return err
	})
	for i := range 7 {
		s.createUpload(uploading, fmt.Sprintf("more-%d.raw", i))
	}
	s.wantRefused("a ninth upload", fleet.TooMany, "Finish or cancel an upload", order(control.NewUpload{Name: "ninth.raw", SizeBytes: 1, HostID: s.h1}))
	s.createUpload(other, "of-another.raw")
}

func TestUploadAccessLimitedToOwnerAndHost(t *testing.T) {
	s := newProjectFixture(t)
	uploading := s.addUploader("sender", fleet.RoleOperator)
	u := s.createUpload(uploading, "image.raw")
	thief, viewer := s.addUploader("thief", fleet.RoleOperator), s.addUploader("looker", fleet.RoleViewer)
	for name, do := range map[string]func(a fleet.Actor) error{
		"look at":  func(a fleet.Actor) error { _, err := s.GetUpload(t.Context(), a, u.ID); return err },
		"continue": func(a fleet.Actor) error { _, err := s.ContinueUpload(t.Context(), a, u.ID); return err },
		"keep":     func(a fleet.Actor) error { return s.TouchUpload(t.Context(), a, u.ID) },
		"cancel":   func(a fleet.Actor) error { return s.CancelUpload(t.Context(), a, u.ID) },
	} {
		s.wantRefused(name+" another's", fleet.NotFound, "no such upload", func() error { return do(thief) })
		s.wantRefused(name+" it as a viewer", fleet.Forbidden, "do not have permission", func() error { return do(viewer) })
	}

	end, err := s.ContinueUpload(t.Context(), uploading, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.ContinueUpload(t.Context(), uploading, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	h1, h2 := s.agentSession(s.h1), s.agentSession(s.h2)
	for _, id := range []fleet.PairID{end.ID(), second.ID()} {
		s.wantRefused("another host", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h2, id); return err })
		if got, err := s.JoinRelay(t.Context(), h1, id); err != nil || got.ID() != id || got.Kind() != end.Kind() {
			t.Errorf("the host joins the relay as %v, %v", got, err)
		}
	}
	s.execSQL(`UPDATE upload_pairs SET at = now() - interval '31 seconds'`)
	s.wantRefused("late", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), h1, end.ID()); return err })

	// A host can finish only its own jobs.
	claim := s.claimUntil(h1, fleet.VolumeUpload)
	s.wantRefused("another host's result", fleet.NotFound, "no such job", func() error {
		_, _, err := s.Finish(t.Context(), h2, claim.ID, wire.Finish{Epoch: claim.Epoch, Outcome: wire.Done})
		return err
	})
	if now, err := s.GetUpload(t.Context(), uploading, u.ID); err != nil || now.State != fleet.JobRunning {
		t.Errorf("it is %+v, %v", now, err)
	}
}

// claimUntil claims the host's jobs repeatedly until one of them has the kind, and returns that job.
func (s *projectFixture) claimUntil(host fleet.Actor, kind fleet.JobKind) wire.Work {
	s.t.Helper()
	for range 20 {
		claim, err := s.Claim(s.t.Context(), host, wire.ClaimRequest{Max: 1}, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, w := range claim.Jobs {
			if w.Kind == kind {
				return w
			}
		}
	}
	s.t.Fatalf("no host was requested %s", kind)
	return wire.Work{}
}

func TestAbandonedUploadsAreCancelled(t *testing.T) {
	s := newProjectFixture(t)
	uploading := s.addUploader("sender", fleet.RoleOperator)
	h1 := s.agentSession(s.h1)
	stale, old, fresh := s.createUpload(uploading, "stale.raw"), s.createUpload(uploading, "old.raw"), s.createUpload(uploading, "fresh.raw")
	for range 3 {
		s.claimUntil(h1, fleet.VolumeUpload)
	}
	waiting := s.createUpload(uploading, "waiting.raw")
	s.execSQL(`UPDATE uploads SET heard_at = now() - interval '25 hours' WHERE id = ANY ($1)`, []string{string(stale.ID), string(waiting.ID)})
	s.execSQL(`UPDATE uploads SET created_at = now() - interval '8 days' WHERE id = $1`, string(old.ID))
	if err := s.CancelStaleUploads(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	for name, u := range map[string]fleet.Upload{"stale": stale, "old": old, "waiting": waiting} {
		now, err := s.GetUpload(t.Context(), uploading, u.ID)
		if err != nil || now.State != fleet.JobCancelled || !strings.Contains(now.Error, "Nobody continued the upload") || now.EndedError() == nil {
			t.Errorf("the %s one is %+v, %v", name, now, err)
		}
	}
	if now, err := s.GetUpload(t.Context(), uploading, fresh.ID); err != nil || now.State.IsFinal() {
		t.Errorf("the fresh one is %+v, %v", now, err)
	}
	// The portal queues the deletion of partial files, except for uploads that the host has not begun.
	if n := s.countRows("jobs WHERE kind = 'volume.delete' AND subject LIKE '%.raw.partial'"); n != 2 {
		t.Errorf("%d jobs delete partial files, want one per begun upload", n)
	}
	s.wantRefused("the name while the removal runs", fleet.Conflict, "still removing", func() error {
		_, err := s.CreateUpload(t.Context(), uploading, s.nfs, control.NewUpload{Name: "stale.raw", SizeBytes: 1, HostID: s.h1})
		return err
	})
	s.wantRefused("continue an ended upload", fleet.Invalid, "Nobody continued the upload", func() error { _, err := s.ContinueUpload(t.Context(), uploading, stale.ID); return err })
}

// When an upload ends, a job may still be queued that asks the host to connect for the next bytes. This job must not
// block the volume: a VM can use the volume at once.
func TestEndedUploadDoesNotBlockVolume(t *testing.T) {
	s := newProjectFixture(t)
	uploading, h1 := s.addUploader("sender", fleet.RoleOperator), s.agentSession(s.h1)
	u := s.createUpload(uploading, "sent.raw")
	claim := s.claimUntil(h1, fleet.VolumeUpload)
	if _, err := s.ContinueUpload(t.Context(), uploading, u.ID); err != nil {
		t.Fatal(err)
	}
	sent := s.unusedVolume("sent.raw")
	s.wantRefused("a VM of a volume that is being uploaded", fleet.Conflict, "in use: upload", s.cloneRequest(chief, s.nfs, "sent.raw"))
	if work := s.volumeOn(sent).VolumeUse().Work; work != fleet.VolumeUpload.Info().Verb {
		t.Errorf("at work: %q", work)
	}
	if _, _, err := s.Finish(t.Context(), h1, claim.ID, wire.Finish{Epoch: claim.Epoch, Seq: s.nextSeq(), Outcome: wire.Done}); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("jobs WHERE kind = 'upload.open' AND state = 'queued'"); n != 1 {
		t.Fatalf("%d connection jobs remain", n)
	}
	if done, err := s.GetUpload(t.Context(), uploading, u.ID); err != nil || done.SizeBytes != u.SizeBytes || done.Note != "uploaded "+fleet.FormatBytes(u.SizeBytes) {
		t.Errorf("the finished upload is %+v, %v", done, err)
	}
	if work := s.volumeOn(sent).VolumeUse().Work; work != "" {
		t.Errorf("at work, afterwards: %q", work)
	}
	if err := s.cloneRequest(chief, s.nfs, "sent.raw")(); err != nil {
		t.Errorf("a VM of what was sent: %v", err)
	}
	if _, err := s.CloneVolume(t.Context(), chief, sent, "copy.raw", false); err != nil {
		t.Errorf("a copy of what was sent: %v", err)
	}
}

// An upload job has no attempt limit: it waits for its client, however often the host's agent restarts.
func TestUploadJobHasNoAttemptLimit(t *testing.T) {
	s := newProjectFixture(t)
	u := s.createUpload(s.addUploader("sender", fleet.RoleOperator), "image.raw")
	h1 := s.agentSession(s.h1)
	for range 8 {
		s.claimUntil(h1, fleet.VolumeUpload)
		s.execSQL(`UPDATE jobs SET lease_until = now() - interval '1 second' WHERE state = 'running'`)
		if err := s.RecoverExpiredJobs(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.countRows("jobs WHERE kind = 'volume.upload' AND state = 'queued'"); n != 1 {
		t.Errorf("the upload %s has ended", u.ID)
	}
}

// The partial file of a paused upload cannot be deleted, and is no orphan on any host of the shared pool. While a host
// has yet to delete a partial file, no host can create a file of that name, because the deletion would remove the new
// file.
func TestPartialUploadKeptByOtherHostsOfSharedPool(t *testing.T) {
	s := newProjectFixture(t)
	uploading := s.addUploader("sender", fleet.RoleOperator)
	h1 := s.agentSession(s.h1)
	u := s.createUpload(uploading, "image.raw")
	s.claimUntil(h1, fleet.VolumeUpload)
	for _, h := range []fleet.HostID{s.h1, s.h2} { // the file looks abandoned, because no bytes arrived for a while
		s.addVolume(s.nfs, h, `{"name":"image.raw.partial","path":"/mnt/nfs/image.raw.partial","format":"raw","unfinished":true}`)
	}
	half := storage.VolumeID{PoolID: s.nfs, Volume: "image.raw.partial"}
	s.wantRefused("delete the partial file of a paused upload", fleet.Conflict, "has not ended: upload volume", func() error {
		_, err := s.DeleteVolume(t.Context(), chief, half, half.Volume)
		return err
	})
	if v, err := s.VolumeOn(t.Context(), chief, half); err != nil || v.Orphan {
		t.Errorf("it is shown as an orphan: %+v %v", v, err)
	}
	if err := s.CancelUpload(t.Context(), uploading, u.ID); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"upload": func() error {
			_, err := s.CreateUpload(t.Context(), uploading, s.nfs, control.NewUpload{Name: "image.raw", SizeBytes: 1 << 20, HostID: s.h2})
			return err
		},
		"create": func() error {
			_, err := s.CreateVolume(t.Context(), chief, s.nfs, storage.NewVolume{Name: "image.raw", Format: "raw", SizeBytes: 1 << 20, HostID: s.h2})
			return err
		},
	} {
		s.wantRefused(name+" on the other host while the first is to remove it", fleet.Conflict, "still removing", ask)
	}
	s.execSQL(`UPDATE jobs SET state = 'done', ended_at = now(), epoch = 1 WHERE kind = 'volume.delete'`)
	if _, err := s.CreateUpload(t.Context(), uploading, s.nfs, control.NewUpload{Name: "image.raw", SizeBytes: 1 << 20, HostID: s.h2}); err != nil {
		t.Errorf("after that: %v", err)
	}
}
