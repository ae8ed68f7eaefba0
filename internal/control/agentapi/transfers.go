package agentapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/wire"
)

// TransferRelayTicket returns the relay ticket of a transfer between two hosts that cannot connect directly. It admits
// only these hosts.
func TransferRelayTicket(id fleet.PairID, from, to fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Transfer, Parties: [2]relay.Party{relay.Requester: {Host: from}, relay.Answerer: {Host: to}}}
}

// ExchangeTransferData stores what one host of a transfer sends and returns what it needs of the other: the other
// host's name and key, the sender's ticket, the receiver's addresses, and the portal whose relay they use if no direct
// connection works.
func (api *API) ExchangeTransferData(ctx context.Context, a fleet.Actor, id fleet.TransferID, in wire.TransferState) (out wire.TransferPeerState, err error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return out, err
	}
	if err := store.CheckID(id, "transfer"); err != nil {
		return out, err
	}
	if err := checkTransferState(in); err != nil {
		return out, err
	}
	if in.Ticket != "" {
		err := api.store.AnswerAtRelay(ctx, db.AnswerAtRelayParams{
			ID: id, Job: in.Job, HostID: a.HostID, Epoch: in.Epoch, Ticket: in.Ticket, Listens: in.Listens, Relay: in.Relay,
			Pair: string(fleet.NewID[fleet.PairID]()), Url: api.relayURL,
		})
		if err != nil {
			return out, store.UserError(err)
		}
	}
	m, err := api.store.Meeting(ctx, db.MeetingParams{ID: id, Job: in.Job, HostID: a.HostID, Epoch: in.Epoch})
	if errors.Is(err, pgx.ErrNoRows) {
		return out, fleet.Errorf(fleet.Conflict, "This job is no longer assigned to this agent.")
	}
	if err != nil {
		return out, store.UserError(err)
	}
	state, words := m.SendState, m.SendError
	if m.Sends {
		state, words = m.ReceiveState, m.ReceiveError
	}
	out = wire.TransferPeerState{
		Peer: m.Peer, PeerName: m.PeerName, KeyHash: hex.EncodeToString(m.PeerKey), Ticket: m.Ticket, Online: m.Heard, Listens: m.Listens,
		RelayTicket: m.Paired, RelayID: m.PairID, PortalURL: m.PairUrl, Begun: state != fleet.JobQueued, Received: m.ReceiveState == fleet.JobDone,
	}
	// A receiver that still asks has not received everything, even if the sender reports success.
	if state.IsFinal() && (state != fleet.JobDone || !m.Sends) {
		if out.PeerError = cmp.Or(words, "Its part was "+string(state)+"."); state == fleet.JobDone {
			out.PeerError = "It reports success, but this host has not received everything."
		}
	}
	return out, nil
}

// checkTransferState rejects malformed requests.
func checkTransferState(in wire.TransferState) error {
	if text, err := hex.DecodeString(in.Ticket); err != nil || len(text) != 0 && len(text) != 32 {
		return fleet.Errorf(fleet.Malformed, "The ticket must be a SHA-256 in hexadecimal.")
	}
	if len(in.Listens) > wire.MaxListens {
		return fleet.Errorf(fleet.Malformed, "A request may contain at most %d addresses.", wire.MaxListens)
	}
	for _, at := range in.Listens {
		a, err := netip.ParseAddrPort(at)
		if err != nil || !a.Addr().IsGlobalUnicast() || a.Addr().Zone() != "" {
			return fleet.Errorf(fleet.Malformed, "Other hosts cannot connect to the address %q.", at)
		}
	}
	return nil
}

// recordTransferJobEnd ends the other job of a transfer if one job failed. It also deletes a copy that was received for
// a failed migration.
func recordTransferJobEnd(ctx context.Context, q *db.Queries, job db.Job, in wire.Finish) error {
	rows, err := q.TransfersOf(ctx, string(job.ID))
	if err != nil {
		return err
	}
	switch {
	case job.Kind == fleet.VMReceive:
		return finishReceivedVM(ctx, q, job, rows, in)
	case job.Kind == fleet.VMMigrate && job.Args.Migrate != nil && job.Args.Migrate.Live == "":
		return finishMigration(ctx, q, job, rows, in)
	case job.Kind == fleet.VMMigrate && (in.Outcome == wire.Done || in.VM != nil && in.VM.Power == fleet.Absent):
		_, id := job.Subject.ResourceAndID()
		return deleteLeftDisks(ctx, q, db.TakeLeftParams{VMID: fleet.VMID(id), Job: job.ID})
	}
	if in.Outcome == wire.Done && job.Kind == fleet.VolumeReceive && job.Args.Volume != nil && job.Args.Volume.Transfer != nil && len(rows) == 1 {
		if err := noteTransferRate(ctx, q, job, rows[0].FromHost, job.Args.Volume.TakesBytes, job.Args.Volume.Transfer.RateBytes); err != nil {
			return err
		}
	}
	var others []string
	for _, r := range rows {
		switch {
		case in.Outcome != wire.Done:
			others = append(others, string(r.SendJob), string(r.ReceiveJob))
		case job.ID == r.ReceiveJob && r.SendKind == fleet.VMMigrate && r.SendState.IsFinal() && r.SendState != fleet.JobDone:
			if err := queueCopyDeletion(ctx, q, r, job.Args.Migrate); err != nil {
				return err
			}
		}
	}
	return cancelOtherJobs(ctx, q, job, others, in.Error)
}

// noteTransferRate records the rate of the job's transfer for later estimates, unless a limit determined the rate.
func noteTransferRate(ctx context.Context, q *db.Queries, job db.Job, from fleet.HostID, bytes, limit int64) error {
	if job.StartedAt == nil || bytes < minRatedBytes || limit != 0 {
		return nil
	}
	rate := float64(bytes) / max(time.Since(*job.StartedAt).Seconds(), 0.1)
	return q.NoteTransferRate(ctx, db.NoteTransferRateParams{FromHost: from, ToHost: job.HostID, BytesPerSecond: max(1, int64(rate))})
}

// minRatedBytes is the size of a transfer that is large enough to measure its rate.
const minRatedBytes = 64 << 20

func cancelOtherJobs(ctx context.Context, q *db.Queries, job db.Job, others []string, why string) error {
	others = slices.DeleteFunc(others, func(id string) bool { return id == string(job.ID) })
	if len(others) == 0 {
		return nil
	}
	return q.CancelUnbegun(ctx, db.CancelUnbegunParams{Ids: others, Error: "Not done: the job of the other host failed. " + why})
}

// queueCopyDeletion queues the deletion of a copy that is no longer needed: a disk, or the firmware state of order.
func queueCopyDeletion(ctx context.Context, q *db.Queries, r db.TransfersOfRow, order *fleet.MigrationParams) error {
	if ref, ok := r.Subject.Volume(); ok {
		return queueVolumeDeletion(ctx, q, r.ToHost, ref)
	}
	if order == nil || order.Firmware != r.ID {
		return nil
	}
	_, err := store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: r.ToHost, Kind: fleet.VMFirmwareDiscard, Subject: r.Subject, SubjectName: r.SubjectName, Args: fleet.JobArgs{Migrate: order},
	})
	return err
}

func queueVolumeDeletion(ctx context.Context, q *db.Queries, host fleet.HostID, ref fleet.Volref) error {
	_, err := store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: host, Kind: fleet.VolumeDelete, Subject: fleet.SubjectVolume(ref), SubjectName: ref.Volume,
		Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeParams{}},
	})
	return err
}

// finishMigration assigns a VM to its new host once the old host has sent all files and undefined the domain. The old
// disks stay until the new host has defined the VM. If the migration failed, the copies are deleted.
func finishMigration(ctx context.Context, q *db.Queries, job db.Job, parts []db.TransfersOfRow, in wire.Finish) error {
	order := job.Args.Migrate
	whole := order != nil && len(parts) == len(order.Transfers())
	for _, p := range parts {
		whole = whole && p.ReceiveState == fleet.JobDone
	}
	if whole && in.Outcome == wire.Done {
		went, err := reassignVM(ctx, q, job, *order)
		if err != nil || went {
			return err
		}
	}
	var others []string
	for _, p := range parts {
		others = append(others, string(p.ReceiveJob))
		if p.ReceiveState != fleet.JobDone {
			continue
		}
		if err := queueCopyDeletion(ctx, q, p, order); err != nil {
			return err
		}
	}
	return cancelOtherJobs(ctx, q, job, others, in.Error)
}

// finishReceivedVM assigns a VM to the host that received the running VM. If the host did not receive the VM, the VM
// stays with the old host.
func finishReceivedVM(ctx context.Context, q *db.Queries, job db.Job, parts []db.TransfersOfRow, in wire.Finish) error {
	if job.Args.Migrate == nil || len(parts) != 1 {
		return nil
	}
	if _, id := job.Subject.ResourceAndID(); in.VM != nil && (in.Outcome == wire.Done || in.VM.Power == fleet.Absent) {
		// A report that is being stored would bring the sighting back.
		if err := q.RequestFullReports(ctx, []string{string(job.HostID)}); err != nil {
			return err
		}
		if err := q.ForgetSighting(ctx, db.ForgetSightingParams{VMID: fleet.VMID(id), HostID: job.HostID}); err != nil {
			return err
		}
	}
	if in.Outcome != wire.Done {
		return cancelOtherJobs(ctx, q, job, []string{string(parts[0].SendJob)}, in.Error)
	}
	source := job
	source.ID, source.HostID = parts[0].SendJob, parts[0].FromHost
	went, err := reassignVM(ctx, q, source, *job.Args.Migrate)
	if err != nil || !went {
		return err
	}
	_, id := job.Subject.ResourceAndID()
	bytes, err := q.VMMemoryBytes(ctx, fleet.VMID(id))
	if err != nil {
		return err
	}
	for _, d := range job.Args.Migrate.Disks {
		bytes += d.TakesBytes
	}
	return noteTransferRate(ctx, q, job, source.HostID, bytes, job.Args.Migrate.RateBytes)
}

// migratedNote is the note of a migration's job that succeeded. It names the portal's relay if that was used.
func migratedNote(ctx context.Context, q *db.Queries, job db.Job) (string, error) {
	note := "now on " + job.Args.Migrate.ToName
	relayed, err := q.IsRelayed(ctx, string(job.ID))
	if relayed {
		note += ", " + fleet.RelayedNote
	}
	return note, err
}

// reassignVM assigns the migrated VM to the new host. It returns false if the VM was deleted or reassigned in between.
func reassignVM(ctx context.Context, q *db.Queries, job db.Job, order fleet.MigrationParams) (bool, error) {
	_, text := job.Subject.ResourceAndID()
	id := fleet.VMID(text)
	disks, err := json.Marshal(append([]fleet.MigratingDisk{}, order.Disks...))
	if err != nil {
		return false, err
	}
	vm, err := q.VMLeft(ctx, db.VMLeftParams{ID: id, FromHost: job.HostID, ToHost: order.To, Disks: disks, Generation: order.Generation})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		err = q.NoteLeft(ctx, db.NoteLeftParams{VMID: id, HostID: job.HostID, Disks: disks})
	}
	if err == nil {
		err = moveQueuedJobsToHost(ctx, q, hostChange{subject: job.Subject, from: job.HostID, to: order.To, toName: order.ToName, ownJob: job.ID})
	}
	if err == nil {
		_, err = store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
			HostID: order.To, ProjectID: &vm.ProjectID, Kind: fleet.VMApply, Subject: job.Subject, SubjectName: vm.Name, Generation: vm.Generation,
		})
	}
	if err != nil {
		return false, err
	}
	return true, store.Audit(ctx, q, fleet.SystemActor, "vm.left", job.Subject, vm.Name, fmt.Sprintf("is on %s now, %s copied", order.ToName, fleet.CountWithUnit(len(order.Disks), "disk")))
}

// queueOldDiskDeletion queues the deletion of a VM's old disks after its new host has defined the VM.
func queueOldDiskDeletion(ctx context.Context, q *db.Queries, job db.Job, vm fleet.VMID, in wire.Finish) error {
	if in.Outcome != wire.Done || !job.Kind.Info().AppliesSpec || in.VM == nil || in.VM.Power == fleet.Absent {
		return nil
	}
	return deleteLeftDisks(ctx, q, db.TakeLeftParams{VMID: vm, Applied: true, Job: job.ID})
}

// DeleteStrandedDisks queues the deletion of the disks that TakeStrandedDisks returns.
func DeleteStrandedDisks(ctx context.Context, q *db.Queries) error {
	left, err := q.TakeStrandedDisks(ctx)
	for _, l := range left {
		if err := queueVolumeDeletion(ctx, q, l.HostID, fleet.Volref{PoolID: l.PoolID, Volume: l.Volume}); err != nil {
			return err
		}
	}
	return err
}

// deleteLeftDisks queues the deletion of the disks that TakeLeft returns.
func deleteLeftDisks(ctx context.Context, q *db.Queries, of db.TakeLeftParams) error {
	left, err := q.TakeLeft(ctx, of)
	for _, l := range left {
		if err := queueVolumeDeletion(ctx, q, l.HostID, fleet.Volref{PoolID: l.PoolID, Volume: l.Volume}); err != nil {
			return err
		}
	}
	return err
}
