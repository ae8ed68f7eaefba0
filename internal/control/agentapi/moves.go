package agentapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// finishDiskMigration updates the VM's spec after a successful disk migration and queues the deletion of the old file.
// The deletion job fails if another VM or volume uses the file by then.
func finishDiskMigration(ctx context.Context, q *db.Queries, job db.Job, vm fleet.VMID, in wire.Finish) error {
	move := job.Args.Move
	if in.Outcome != wire.Done || move == nil {
		return nil
	}
	disk, err := json.Marshal(move.Disk)
	if err != nil {
		return err
	}
	moved, err := json.Marshal(move.To)
	if err != nil {
		return err
	}
	name, err := q.DiskMoved(ctx, db.DiskMovedParams{ID: vm, HostID: job.HostID, Disk: disk, Moved: moved})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := store.Audit(ctx, q, fleet.SystemActor, "vm.disk.moved", job.Subject, name, move.Disk.Volume+" is in its new pool, as "+move.To.Volume); err != nil {
		return err
	}
	_, err = store.JoinOrQueueJob(ctx, q, fleet.SystemActor, db.JoinQueueParams{
		HostID: job.HostID, Kind: fleet.VolumeDelete, Subject: fleet.SubjectVolume(move.Disk), SubjectName: move.Disk.Volume,
		Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeParams{LeftBy: job.ID}},
	})
	return err
}

// noteUndeletedOldVolume records in the disk migration's task that the old file could not be deleted.
func noteUndeletedOldVolume(ctx context.Context, q *db.Queries, job db.Job, of fleet.Volref, in wire.Finish) error {
	if job.Kind != fleet.VolumeDelete || in.Outcome == wire.Done || job.Args.Volume == nil || job.Args.Volume.LeftBy == "" {
		return nil
	}
	why := strings.TrimSuffix(cmp.Or(strings.TrimSpace(in.Error), "its host did not say why"), ".")
	return q.NoteLeftVolume(ctx, db.NoteLeftVolumeParams{ID: job.Args.Volume.LeftBy, PoolID: of.PoolID, Volume: of.Volume, Why: why})
}
