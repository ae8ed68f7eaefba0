package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// libraryFixture is a projectFixture with agents on both hosts.
type libraryFixture struct {
	*projectFixture
	agents map[fleet.HostID]fleet.Actor
	seq    map[fleet.HostID]int64
}

func newLibraryFixture(t *testing.T) *libraryFixture {
	s := &libraryFixture{newProjectFixture(t), map[fleet.HostID]fleet.Actor{}, map[fleet.HostID]int64{}}
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.agents[h] = s.agentSession(h)
		s.seq[h] = queryValue[int64](&hostFixture{t: t, pool: s.pool}, `SELECT number << 32 FROM host_sessions WHERE host_id = $1`, h)
	}
	s.markOnline()
	return s
}

func (s *libraryFixture) markOnline() {
	s.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL`)
}

// claimedWork claims the host's queued jobs and returns those of one kind.
func (s *libraryFixture) claimedWork(host fleet.HostID, kind fleet.JobKind) []wire.Work {
	s.t.Helper()
	claim, err := s.Claim(s.t.Context(), s.agents[host], wire.ClaimRequest{Max: 16}, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(claim.Jobs, func(w wire.Work) bool { return w.Kind != kind })
}

// finishVolume reports a volume job as done, and reports the volume in its pool. more is JSON of further properties of
// the volume.
func (s *libraryFixture) finishVolume(host fleet.HostID, w wire.Work, more string) {
	s.t.Helper()
	ref, _ := w.Subject.Volume()
	s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', COALESCE((SELECT jsonb_agg(v) FROM jsonb_array_elements(status->'volumes') v WHERE v->>'name' <> $3), '[]') ||
		(jsonb_build_object('name', $3::text, 'path', '/v/' || $3::text, 'format', 'qcow2', 'capacityBytes', 1048576) || $4::jsonb)) WHERE pool_id = $1 AND host_id = $2`, ref.PoolID, host, ref.Volume, more)
	var status fleet.PoolStatus
	if err := s.pool.QueryRow(s.t.Context(), `SELECT status FROM assignments WHERE pool_id = $1 AND host_id = $2`, ref.PoolID, host).Scan(&status); err != nil {
		s.t.Fatal(err)
	}
	s.finishJobWith(host, w, wire.Finish{Outcome: wire.Done, Pool: &status})
}

func (s *libraryFixture) finishJobWith(host fleet.HostID, w wire.Work, f wire.Finish) {
	s.t.Helper()
	s.seq[host]++
	f.Epoch, f.Seq = w.Epoch, s.seq[host]
	if _, _, err := s.Finish(s.t.Context(), s.agents[host], w.ID, f); err != nil {
		s.t.Fatal(err)
	}
	s.markOnline()
}

func (s *libraryFixture) getImage(a fleet.Actor, id fleet.ImageID) fleet.ImageView {
	s.t.Helper()
	v, err := s.GetImage(s.t.Context(), a, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// createFromImage creates a VM with a disk from the image.
func (s *libraryFixture) createFromImage(a fleet.Actor, project fleet.ProjectID, name string, d fleet.Disk) (fleet.VMView, error) {
	in := control.CreateVM{ProjectID: project, Name: name, Spec: smallSpec}
	in.Spec.Disks = []fleet.Disk{d}
	return s.CreateVM(s.t.Context(), a, in)
}

const someSHA256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
