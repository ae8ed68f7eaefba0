package control

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// diskJobs returns the kind and, by disk index, the parameters of the volume jobs that make the VM's disks before the
// VM is defined. snap is the snapshot to copy from; nil: the current state.
func (p plannedSource) diskJobs(vm fleet.VMView, snap *fleet.SnapshotRef) (fleet.JobKind, map[int]fleet.VolumeParams) {
	out := map[int]fleet.VolumeParams{}
	if p.file != nil {
		return fleet.VolumeConvert, p.conversionJobs(vm)
	}
	if p.vm == nil {
		return "", nil
	}
	for i, d := range vm.Spec.Disks {
		from := p.disks[i]
		order := fleet.VolumeParams{Source: from.Volume, Flatten: true, TakesBytes: d.SizeBytes, Snapshot: snap}
		if from.PoolID != d.PoolID {
			order.SourcePool = from.PoolID
		}
		out[i] = order
	}
	return fleet.VolumeCopy, out
}

// snapshotToCopy returns the snapshot to copy from: the requested one, or a temporary one of a running source VM. The
// zero value means that the disks themselves are copied.
func (p plannedSource) snapshotToCopy(ctx context.Context, q *db.Queries, task fleet.TaskID) (tempSnapshot, error) {
	switch {
	case p.vm == nil:
		return tempSnapshot{}, nil
	case p.snapshotID != "":
		return tempSnapshot{id: p.snapshotID, vm: *p.vm, queued: true}, nil
	}
	return sharedTempSnapshot(ctx, q, *p.vm, task)
}

// queueDiskJobs adds the jobs that make the disks to the VM's creation task. The definition waits for them. It also
// marks the disks as created, so that the host reports a disk whose job failed as missing instead of creating an empty
// one.
func (p plannedSource) queueDiskJobs(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, task fleet.TaskID) error {
	shot, err := p.snapshotToCopy(ctx, q, task)
	if err != nil {
		return err
	}
	if err := shot.queueTakeJob(ctx, q, a, task, vm.Name); err != nil {
		return err
	}
	kind, orders := p.diskJobs(vm, shot.snapshotRef())
	if len(orders) == 0 {
		return nil
	}
	created := db.AddCreatedDisksParams{VMID: vm.ID}
	var ids []string
	for i, d := range vm.Spec.Disks {
		order, ok := orders[i]
		if !ok {
			continue
		}
		id := fleet.NewID[fleet.JobID]()
		err := q.AddStep(ctx, db.AddStepParams{
			ID: id, TaskID: &task, Role: diskRole(i + 1), HostID: vm.HostID, Kind: kind, Subject: fleet.SubjectVolume(d.Ref()), Args: fleet.JobArgs{Volume: &order},
		})
		if err != nil {
			return err
		}
		ids = append(ids, string(id))
		created.Pools, created.Volumes = append(created.Pools, string(d.PoolID)), append(created.Volumes, d.Volume)
	}
	if err := q.AddCreatedDisks(ctx, created); err != nil {
		return err
	}
	if err := shot.makeCopiesWait(ctx, q, task); err != nil {
		return err
	}
	if err := q.NameStep(ctx, db.NameStepParams{Role: roleVM, TaskID: &task, Steps: ids}); err != nil {
		return err
	}
	return q.WaitFor(ctx, db.WaitForParams{Others: ids, TaskID: &task, Kind: fleet.VMApply})
}

// cancelDiskCopies cancels the queued copies for disks of a VM that is about to be deleted. It refuses while a host
// runs a copy, because the copied file would stay behind.
func cancelDiskCopies(ctx context.Context, q *db.Queries, vm fleet.VMView) error {
	var subjects []string
	for _, d := range vm.Spec.Disks {
		subjects = append(subjects, string(fleet.SubjectVolume(d.Ref())))
	}
	rows, err := q.CopiesOfDisks(ctx, subjects)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.State == fleet.JobRunning {
			return fleet.Errorf(fleet.Conflict, "A disk of the VM is being copied. Wait until the copy has ended.")
		}
		err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{Subject: r.Subject, Kinds: []string{string(fleet.VolumeCopy), string(fleet.VolumeConvert)}, Error: "Not done: the deletion of the VM was requested."})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkDiskIdle refuses a disk that an unfinished job makes or changes. Jobs that only read the disk are allowed.
func checkDiskIdle(ctx context.Context, q *db.Queries, vm fleet.VMView, disk fleet.Volref) error {
	rows, err := q.VolumesAtWork(ctx, string(disk.PoolID))
	for _, r := range rows {
		about, _ := r.Subject.Volume()
		switch {
		case r.HostID != vm.HostID:
		case about.IsVolumeOrPartialFile(disk.Volume), r.Source == disk.Volume && r.Kind == fleet.VolumeRename:
			return fleet.Errorf(fleet.Conflict, "The disk %s is in use: %s. Wait until that task has ended.", disk.Volume, r.Kind.Info().Verb)
		}
	}
	return err
}
