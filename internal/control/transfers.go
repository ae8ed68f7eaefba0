package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// maxTransfers limits a host's concurrent transfers, as sender and receiver together.
const maxTransfers = 16

// maxBulkTransfers limits a host's concurrent transfers for the children of bulk tasks and of maintenance, so that guests,
// the hypervisor and other transfers keep a share of the host. An agent runs four of them at once; the others are ready
// to follow.
const maxBulkTransfers = 6

// Roles of the jobs of a transfer and of a migration.
const (
	roleReceive = "receive"
	roleSend    = "send"
)

// transferRoute describes the transfer of a file from one host to another. The zero value means that no transfer is
// needed.
type transferRoute struct {
	id             fleet.TransferID
	from, to       query.HostRef
	source         fleet.Volref
	bytesPerSecond int64
	checksum       string
}

// newTransferRoute returns the transfer for an image copy, or the zero value if the destination host can read the
// source file itself.
func newTransferRoute(o *imageCopyRequest) transferRoute {
	if o.from.ID == "" {
		return transferRoute{}
	}
	return transferRoute{id: fleet.NewID[fleet.TransferID](), from: o.from, to: o.host, source: o.source.Ref(), checksum: o.checksum()}
}

// setReceiveParams adds the parameters of the receiving side to a volume job, unless the transfer is zero.
func (b transferRoute) setReceiveParams(j *storage.VolumeJob) {
	if b.id != "" {
		j.Params.Transfer = &fleet.TransferParams{ID: b.id, Peer: b.from.ID, PeerName: b.from.Name, RateBytes: b.bytesPerSecond}
	}
}

// addSendStep adds the sender's job to the receiver's task, and records it as a step of the receiver's job.
func (b transferRoute) addSendStep(ctx context.Context, q *db.Queries, task fleet.TaskID, receiver fleet.JobID, to fleet.Volref) error {
	if b.id == "" {
		return nil
	}
	sender, err := b.addSenderJob(ctx, q, task, receiver, to)
	if err != nil {
		return err
	}
	return q.NameStep(ctx, db.NameStepParams{Role: roleReceive, TaskID: &task, Steps: []string{string(sender)}})
}

// addSenderJob adds the sender's job to the receiver's task. The job's subject is the destination volume, so other jobs
// can still read the source volume.
func (b transferRoute) addSenderJob(ctx context.Context, q *db.Queries, task fleet.TaskID, receiver fleet.JobID, to fleet.Volref) (fleet.JobID, error) {
	if err := checkTransferLimit(ctx, q, b.from.ID, b.to.ID); err != nil {
		return "", err
	}
	sender := fleet.NewID[fleet.JobID]()
	order := fleet.VolumeParams{
		Source: b.source.Volume, SourcePool: b.source.PoolID, Checksum: b.checksum,
		Transfer: &fleet.TransferParams{ID: b.id, Peer: b.to.ID, PeerName: b.to.Name, RateBytes: b.bytesPerSecond},
	}
	err := q.AddStep(ctx, db.AddStepParams{
		ID: sender, TaskID: &task, Role: roleSend, HostID: b.from.ID, Kind: fleet.VolumeSend, Subject: fleet.SubjectVolume(to), Args: fleet.JobArgs{Volume: &order},
	})
	if err == nil {
		err = q.AddTransfer(ctx, db.AddTransferParams{ID: b.id, SendJob: sender, ReceiveJob: receiver, FromHost: b.from.ID, ToHost: b.to.ID})
	}
	return sender, err
}

// delayChildTransfer returns a delayError if ctx belongs to a child of a bulk task and the two hosts have the maximum
// number of transfers of such children.
func delayChildTransfer(ctx context.Context, q *db.Queries, from, to fleet.HostID) error {
	if store.ChildTask(ctx) == "" {
		return nil
	}
	n, err := q.CountTransfers(ctx, db.CountTransfersParams{FromHost: from, ToHost: to})
	if busier := max(n.Sent, n.Received); err == nil && busier >= maxBulkTransfers {
		delay := &delayError{reason: fmt.Sprintf("waiting for one of %d transfers to end", busier)}
		if n.Sent >= maxBulkTransfers {
			delay.source = from
		}
		return delay
	}
	return err
}

func checkTransferLimit(ctx context.Context, q *db.Queries, from, to fleet.HostID) error {
	n, err := q.CountTransfers(ctx, db.CountTransfersParams{FromHost: from, ToHost: to})
	if busier := max(n.Sent, n.Received); err == nil && busier >= maxTransfers {
		err = fleet.Errorf(fleet.TooMany, "One of the two hosts has %d transfers in progress. Wait until some have ended.", busier)
	}
	return err
}
