package control_test

import (
	"context"
	"sync"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/relay"
)

// chiefWithSession returns the administrator chief with a browser session.
func chiefWithSession() fleet.Actor {
	a := chief
	a.Session = "session"
	return a
}

// downloadVolume requests a volume's file.
func (s *projectFixture) downloadVolume(of storage.VolumeID) (relay.End, error) {
	end, _, err := s.DownloadVolume(s.t.Context(), chiefWithSession(), of)
	return end, err
}

func TestVolumeDownloadSentToRequester(t *testing.T) {
	m := newMoveFixture(t)
	of := m.unusedVolume("data.raw")
	of.HostID = m.h1
	end, err := m.downloadVolume(of)
	if err != nil {
		t.Fatal(err)
	}
	m.auditActions("volume.read")
	work := m.claimJobs()
	if len(work) != 1 || work[0].Kind != fleet.VolumeRead || work[0].Args.Pair != end.ID() || work[0].Args.Volume.Source != of.Volume || work[0].Pool == nil || work[0].Pool.ID != m.nfs {
		t.Fatalf("the host is asked %+v", work)
	}
	if m.countRows("tasks") != 0 {
		t.Error("the download has a task")
	}
	// The volume is in use during the transfer, so every change is refused.
	for _, act := range destructiveActions {
		m.wantRefused(string(act)+" what is being sent", fleet.Conflict, "send volume", m.volumeRequests(storage.VolumeID{PoolID: of.PoolID, Volume: of.Volume})[act])
	}
	if err := m.cloneRequest(chief, m.nfs, of.Volume)(); err != nil {
		t.Errorf("a VM created from the volume: %v", err)
	}
	if _, err := m.JoinRelay(t.Context(), m.agent, end.ID()); err != nil {
		t.Errorf("the host cannot join the relay: %v", err)
	}
	other := fleet.Actor{HostID: m.h2, Name: "host h2", Session: m.agent.Session}
	m.wantRefused("another host", fleet.CodeOf(func() error { _, err := m.JoinRelay(t.Context(), other, end.ID()); return err }()), "", func() error {
		_, err := m.JoinRelay(t.Context(), other, end.ID())
		return err
	})
	m.execSQL(`UPDATE volume_reads SET at = now() - interval '1 minute'`)
	if _, err := m.JoinRelay(t.Context(), m.agent, end.ID()); err == nil {
		t.Error("the host can join the relay long afterwards")
	}
	m.execSQL(`DELETE FROM jobs WHERE kind = 'volume.read'`)
	if m.countRows("volume_reads") != 0 {
		t.Error("an ended download is still stored")
	}
	m.wantRefused("without a session", fleet.Unauthorized, "Sign in", func() error { _, _, err := m.DownloadVolume(t.Context(), chief, of); return err })
}

// If the person stops waiting, the host's job is cancelled.
func TestAbandonedDownloadCancelsItsJob(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	end, err := s.downloadVolume(of)
	if err != nil {
		t.Fatal(err)
	}
	otherUser := chiefWithSession()
	otherUser.UserID = "somebody"
	for _, who := range []fleet.Actor{otherUser, chiefWithSession()} {
		if err := s.AbandonRelay(t.Context(), who, end.ID()); err != nil {
			t.Fatal(err)
		}
		want := 1
		if who.UserID == chief.UserID {
			want = 0
		}
		if n := s.countRows("jobs WHERE kind = 'volume.read' AND state = 'queued'"); n != want {
			t.Errorf("after %s stopped waiting, %d jobs are queued", who.UserID, n)
		}
	}
}

// Concurrent download requests do not exceed the limit of transfers.
func TestConcurrentTransfersDoNotExceedLimit(t *testing.T) {
	s := newProjectFixture(t)
	var wait sync.WaitGroup
	reads, uploads := make(chan error, 12), make(chan error, 16)
	for n := range 12 {
		of := s.unusedVolume("data-" + string(rune('a'+n)) + ".raw")
		wait.Go(func() { _, err := s.downloadVolume(of); reads <- err })
	}
	for n := range 16 {
		wait.Go(func() {
			_, err := s.CreateUpload(t.Context(), chief, s.nfs, control.NewUpload{Name: "sent-" + string(rune('a'+n)) + ".raw", SizeBytes: 1 << 20, HostID: s.h1})
			uploads <- err
		})
	}
	wait.Wait()
	close(reads)
	close(uploads)
	for what, c := range map[string]struct {
		errs chan error
		most int
	}{"downloads": {reads, 4}, "uploads": {uploads, 8}} {
		open := 0
		for err := range c.errs {
			if err == nil {
				open++
			} else if fleet.CodeOf(err) != fleet.TooMany {
				t.Errorf("%s: %v", what, err)
			}
		}
		if open != c.most {
			t.Errorf("%d %s are open, want %d", open, what, c.most)
		}
	}
}

// Each pool has its own lock. Requests for volumes of two pools therefore take a further common lock before they count
// the host's transfers.
func TestTransferLimitCountsAllPools(t *testing.T) {
	s := newProjectFixture(t)
	of := s.unusedVolume("data.raw")
	for what, open := range map[string]func() error{
		"an upload": func() error {
			_, err := s.CreateUpload(t.Context(), chief, s.local, control.NewUpload{Name: "sent.raw", SizeBytes: 1 << 20, HostID: s.h1})
			return err
		},
		"a download": func() error { _, err := s.downloadVolume(of); return err },
	} {
		tx, err := s.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }() // no effect after a commit
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('transfers of ' || $1::text, 0))", string(chief.UserID)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- open() }()
		const waits = "pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
		for s.countRows(waits) == 0 {
			select {
			case err := <-done:
				t.Fatalf("%s did not wait: %v", what, err)
			default:
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
