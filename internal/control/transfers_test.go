package control_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// imageOnOneHost returns an image whose only copy is on the first host, in a local pool that is assigned to both hosts.
func (s *libraryFixture) imageOnOneHost() fleet.ImageID {
	s.t.Helper()
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at) SELECT 'pool', $1, $2, 'assign', jsonb_set(status, '{volumes}', '[]'), 1, now() FROM assignments WHERE pool_id = $1`, s.local, s.h2)
	s.addVolume(s.local, s.h1, `{"name":"only-here.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	id, version := s.publishImage(s.local, []fleet.HostID{s.h1}, "only-here.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	s.execSQL(`UPDATE hosts SET key_hash = decode(repeat(CASE id WHEN $1 THEN '11' ELSE '22' END, 32), 'hex')`, s.h1)
	return id
}

// claimOnlyJob returns the host's only job of the kind.
func (s *libraryFixture) claimOnlyJob(host fleet.HostID, kind fleet.JobKind) wire.Work {
	s.t.Helper()
	w := s.claimedWork(host, kind)
	if len(w) != 1 {
		s.t.Fatalf("the host has %d orders of %s", len(w), kind)
	}
	return w[0]
}

func (s *libraryFixture) meetTransfer(host fleet.HostID, w wire.Work, id fleet.TransferID, in wire.TransferState) wire.TransferPeerState {
	s.t.Helper()
	in.Job, in.Epoch = w.ID, w.Epoch
	out, err := s.ExchangeTransferData(s.t.Context(), s.agents[host], id, in)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestImageSentBetweenHosts(t *testing.T) {
	s := newLibraryFixture(t)
	id := s.imageOnOneHost()
	task, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.local, HostID: s.h2})
	if err != nil || task.Kind != fleet.VolumeReceive {
		t.Fatalf("%+v %v", task, err)
	}
	s.wantRefused("twice", fleet.Conflict, "A task uses the copy", func() error {
		_, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.local, HostID: s.h2})
		return err
	})
	in, out := s.claimOnlyJob(s.h2, fleet.VolumeReceive), s.claimOnlyJob(s.h1, fleet.VolumeSend)
	way := in.Args.Volume.Transfer
	if way == nil || way.Peer != s.h1 || way.PeerName != "h1" || in.Args.Volume.Checksum != "sha256:"+someSHA256 || in.Pool == nil || in.Pool.ID != s.local {
		t.Fatalf("the receiver gets %+v", in.Args.Volume)
	}
	if o := out.Args.Volume; o.Source != "only-here.qcow2" || o.SourcePool != s.local || o.Transfer.ID != way.ID || o.Transfer.Peer != s.h2 || len(out.Pools) != 1 || out.Pools[0].ID != s.local {
		t.Fatalf("the sender gets %+v with %+v", out.Args.Volume, out.Pools)
	}

	// Each of the two hosts gets the other host's key hash, and its ticket or addresses. All other actors are refused.
	ticket, next := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	if got := s.meetTransfer(s.h2, in, way.ID, wire.TransferState{}); got.Peer != s.h1 || got.KeyHash != strings.Repeat("11", 32) || got.Ticket != "" || !got.Begun {
		t.Errorf("the receiver hears %+v", got)
	}
	s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: ticket})
	if got := s.meetTransfer(s.h2, in, way.ID, wire.TransferState{Ticket: ticket, Listens: []string{"192.0.2.7:4000"}}); got.Ticket != ticket {
		t.Errorf("the receiver hears %+v", got)
	}
	if got := s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: ticket}); got.Online != ticket || !slices.Equal(got.Listens, []string{"192.0.2.7:4000"}) || got.Peer != s.h2 || got.KeyHash != strings.Repeat("22", 32) || got.RelayID != "" {
		t.Errorf("the sender hears %+v", got)
	}
	const version = `SELECT concat(xmin, ctid) FROM transfers`
	before := queryValue[string](&hostFixture{t: t, pool: s.pool}, version)
	s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: ticket})
	s.meetTransfer(s.h2, in, way.ID, wire.TransferState{Ticket: ticket, Listens: []string{"192.0.2.7:4000"}})
	if after := queryValue[string](&hostFixture{t: t, pool: s.pool}, version); after != before {
		t.Error("hosts that repeat their calls while they wait write to the database")
	}
	other := s.addHostWithMemory("h3", 1024)
	otherAgent := s.agentSession(other)
	s.markOnline()
	says := func(a fleet.Actor, word wire.TransferState) func() error {
		return func() error { _, err := s.ExchangeTransferData(t.Context(), a, way.ID, word); return err }
	}
	s.wantRefused("an agent of another host", fleet.Conflict, "no longer assigned to this agent", says(otherAgent, wire.TransferState{Job: in.ID, Epoch: in.Epoch}))
	s.wantRefused("an older epoch", fleet.Conflict, "no longer assigned to this agent", says(s.agents[s.h2], wire.TransferState{Job: in.ID, Epoch: in.Epoch - 1, Ticket: next}))
	s.wantRefused("the other's job", fleet.Conflict, "no longer assigned to this agent", says(s.agents[s.h2], wire.TransferState{Job: out.ID, Epoch: out.Epoch, Ticket: next}))
	for _, at := range []string{"127.0.0.1:1", "[fe80::1]:1", "portal:1", "192.0.2.7"} {
		s.wantRefused("listening at "+at, fleet.Malformed, "cannot connect", says(s.agents[s.h2], wire.TransferState{Job: in.ID, Epoch: in.Epoch, Ticket: next, Listens: []string{at}}))
	}
	s.wantRefused("no hash", fleet.Malformed, "SHA-256", says(s.agents[s.h1], wire.TransferState{Job: out.ID, Epoch: out.Epoch, Ticket: "12"}))
	s.wantRefused("a person", fleet.Unauthorized, "joined host", says(chief, wire.TransferState{Job: out.ID, Epoch: out.Epoch}))

	// Hosts that cannot connect to each other use the portal's relay. All other actors are refused at the relay.
	at := s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: ticket, Relay: true})
	if again := s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: ticket, Relay: true}); at.RelayID == "" || at.RelayTicket != ticket || again.RelayID != at.RelayID {
		t.Errorf("to meet at %+v, then %+v", at, again)
	}
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		if end, err := s.JoinRelay(t.Context(), s.agents[h], at.RelayID); err != nil || end.ID() != at.RelayID {
			t.Errorf("%v", err)
		}
	}
	s.wantRefused("another host at the relay", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), otherAgent, at.RelayID); return err })
	s.execSQL(`UPDATE transfers SET paired_at = now() - interval '31 seconds'`)
	s.wantRefused("late", fleet.NotFound, "was not requested", func() error { _, err := s.JoinRelay(t.Context(), s.agents[s.h1], at.RelayID); return err })
	if new := s.meetTransfer(s.h1, out, way.ID, wire.TransferState{Ticket: next, Relay: true}); new.RelayID == at.RelayID || new.RelayTicket != next {
		t.Errorf("another ticket meets at %+v", new)
	}

	s.finishVolume(s.h2, in, `{"sha256":"`+someSHA256+`"}`)
	if got := s.meetTransfer(s.h1, out, way.ID, wire.TransferState{}); !got.Received || got.PeerError != "" {
		t.Errorf("in the end the sender hears %+v", got)
	}
	s.finishJobWith(s.h1, out, wire.Finish{Outcome: wire.Done})
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("%+v %v", got, err)
	}
	if x := s.getImage(chief, id).Newest(); len(x.Copies) != 2 || x.Copies[0].State != fleet.CopyReady || x.Copies[1].State != fleet.CopyReady {
		t.Errorf("%+v", x.Copies)
	}
}

func TestTransferCancelledOnBothHosts(t *testing.T) {
	s := newLibraryFixture(t)
	id := s.imageOnOneHost()
	ask := func() fleet.Task {
		t.Helper()
		task, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.local, HostID: s.h2})
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	state := func(task fleet.Task) fleet.JobState {
		t.Helper()
		got, err := s.GetTask(t.Context(), chief, task.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	task := ask()
	s.wantRefused("for a member", fleet.NotFound, "no such task", func() error { _, err := s.CancelTask(t.Context(), s.member, task.ID); return err })
	if got, err := s.CancelTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobCancelled || len(s.claimedWork(s.h1, fleet.VolumeSend)) != 0 {
		t.Fatalf("the cancelled queued task: %+v %v", got, err)
	}

	task = ask()
	in, out := s.claimOnlyJob(s.h2, fleet.VolumeReceive), s.claimOnlyJob(s.h1, fleet.VolumeSend)
	if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
		t.Fatal(err)
	}
	for h, w := range map[fleet.HostID]wire.Work{s.h1: out, s.h2: in} {
		answer, err := s.Progress(t.Context(), s.agents[h], w.ID, wire.Progress{Epoch: w.Epoch})
		if err != nil || !strings.Contains(answer.Stop, "Cancelled by") {
			t.Errorf("%+v %v", answer, err)
		}
		s.finishJobWith(h, w, wire.Finish{Outcome: wire.Cancelled, Error: answer.Stop})
	}
	if got := state(task); got != fleet.JobCancelled {
		t.Errorf("it is %s", got)
	}

	// If the job of one host fails, the job of the other host ends too: a queued job at once, a running job at its next
	// request to the portal.
	task = ask()
	in = s.claimOnlyJob(s.h2, fleet.VolumeReceive)
	s.finishJobWith(s.h2, in, wire.Finish{Outcome: wire.Failed, Error: "No space left on device"})
	if got := state(task); got != fleet.JobFailed || len(s.claimedWork(s.h1, fleet.VolumeSend)) != 0 {
		t.Errorf("it is %s", got)
	}
	task = ask()
	in, out = s.claimOnlyJob(s.h2, fleet.VolumeReceive), s.claimOnlyJob(s.h1, fleet.VolumeSend)
	s.finishJobWith(s.h1, out, wire.Finish{Outcome: wire.Failed, Error: "Input/output error"})
	if got := s.meetTransfer(s.h2, in, in.Args.Volume.Transfer.ID, wire.TransferState{}); !strings.Contains(got.PeerError, "Input/output") || got.Received {
		t.Errorf("the receiver hears %+v", got)
	}
	s.finishJobWith(s.h2, in, wire.Finish{Outcome: wire.Failed, Error: "The part of h1 did not end well"})
	if got := state(task); got != fleet.JobFailed {
		t.Errorf("it is %s", got)
	}
}

// If the VM's host has no copy of the image, another host sends it a copy first, as part of the VM's task. Placement
// prefers hosts with a copy.
func TestMissingImageIsSentToHostBeforeVMCreation(t *testing.T) {
	s := newLibraryFixture(t)
	id := s.imageOnOneHost()
	s.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,memoryBytes}', to_jsonb(65536::bigint << 20)) WHERE id = $1`, s.h2)
	near, err := s.createFromImage(s.member, s.red, "near", fleet.Disk{PoolID: s.local, ImageID: id})
	if err != nil || s.getVM(near.ID).HostID != s.h1 {
		t.Fatalf("%+v %v", near, err)
	}
	in := control.CreateVM{ProjectID: s.red, HostID: s.h2, Name: "far", Spec: smallSpec}
	in.Spec.Disks = []fleet.Disk{{PoolID: s.local, ImageID: id}}
	far, err := s.CreateVM(t.Context(), s.member, in)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.claimedWork(s.h2, fleet.VMApply); len(w) != 0 {
		t.Fatalf("the VM is created before its image is sent: %+v", w)
	}
	// Put the receive job back into the queue, because claimedWork has claimed it with the host's other jobs.
	s.execSQL(`UPDATE jobs SET state = 'queued', epoch = 0, attempt = 0 WHERE kind = 'volume.receive'`)
	w, out := s.claimOnlyJob(s.h2, fleet.VolumeReceive), s.claimOnlyJob(s.h1, fleet.VolumeSend)
	if w.Args.Volume.Transfer.ID != out.Args.Volume.Transfer.ID {
		t.Error("they are two transfers")
	}
	s.finishVolume(s.h2, w, `{"sha256":"`+someSHA256+`"}`)
	s.finishJobWith(s.h1, out, wire.Finish{Outcome: wire.Done})
	s.finishJobWith(s.h2, s.claimOnlyJob(s.h2, fleet.VMApply), wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	if got := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT state FROM tasks WHERE subject = $1 AND kind = 'vm.apply'`, fleet.SubjectVM(far.ID)); got != "done" {
		t.Errorf("the VM's task is %s", got)
	}
}
