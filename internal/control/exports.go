package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/export"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/vmcopy"
)

// NewExport is the input of ExportVM.
type NewExport struct {
	Format string       `json:"format" enum:"ova,qcow2" doc:"ova: the whole VM as an OVA archive; qcow2: one disk as an image"`
	Disk   int          `json:"disk,omitempty" doc:"For qcow2: the number of the VM's disk, from 1; 0: the first disk"`
	PoolID fleet.PoolID `json:"poolId,omitempty" doc:"The pool of the file until it is downloaded or deleted; empty: the disk's pool. Only those who may change infrastructure can name another pool"`
}

// ExportVM asks the host of a VM that is off to export the VM to a file in a pool, for download. Project members may
// not change pools, so the portal creates the file as the system actor; the pool must be one that the VM uses.
func (c *Control) ExportVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in NewExport) (export.File, error) {
	none := export.File{}
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return none, err
	}
	if err := policy.Check(a, policy.VMChange, vm.ProjectID); err != nil {
		return none, err
	}
	var checks fleet.Checks
	switch {
	case !slices.Contains(export.Formats, in.Format):
		checks.Add("format", "A VM is exported as ova, or a disk of it as qcow2.")
	case in.Format == fleet.FormatOVA && in.Disk != 0:
		checks.Add("disk", "An OVA archive holds all disks.")
	case in.Format != fleet.FormatOVA && (in.Disk < 0 || max(in.Disk, 1) > len(vm.Spec.Disks)):
		checks.Add("disk", "The VM has %d disks.", len(vm.Spec.Disks))
	}
	if err := checks.Err(); err != nil {
		return none, err
	}
	if in.Format != fleet.FormatOVA {
		in.Disk = max(in.Disk, 1)
	}
	if ok, why := vmcopy.AllowsExport(vm); !ok {
		return none, fleet.Errorf(fleet.Conflict, "%s cannot be exported now: %s", vm.Name, why)
	}
	own := vm.Spec.Disks[max(in.Disk, 1)-1].PoolID
	if in.PoolID == "" {
		in.PoolID = own
	}
	uses := slices.ContainsFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.PoolID == in.PoolID })
	if !uses && !policy.May(a, policy.InfraChange, "") {
		checks.Add("poolId", "Choose a pool that the VM uses.")
		return none, checks.Err()
	}
	exportID := fleet.NewID[fleet.ExportID]()
	var host fleet.HostID
	task, err := storage.QueueVolumeJobWithPoolActor(ctx, c.store, fleet.SystemActor, a, in.PoolID, func(q *db.Queries, pool assign.AssignableObject) (storage.VolumeJob, error) {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return storage.VolumeJob{}, err
		}
		if ok, why := vmcopy.AllowsExport(vm); !ok || max(in.Disk, 1) > len(vm.Spec.Disks) {
			return storage.VolumeJob{}, fleet.Errorf(fleet.Conflict, "%s cannot be exported now: %s", vm.Name, why)
		}
		j, err := exportJob(ctx, q, vm, exportID, in)
		if err != nil {
			return j, err
		}
		spec, err := storage.ReadPoolSpec(ctx, q, in.PoolID)
		if err != nil {
			return j, err
		}
		if !spec.Kind.Info().FilePool {
			return j, fleet.Errorf(fleet.Conflict, "The pool is a block pool, which cannot store files. Choose a file pool.")
		}
		if j.Host, err = storage.FindHostForVolumeJob(ctx, q, fleet.SystemActor, j, storage.HostChoice{Named: vm.HostID}); err != nil {
			return j, redactHostNames(a, err)
		}
		host = j.Host.ID
		return j, store.Audit(ctx, q, a, "vm.export", fleet.SubjectVM(id), vm.Name, fmt.Sprintf("as %s, %s in pool %s", in.Format, j.Ref.Volume, pool.Name))
	}, func(q *db.Queries, task fleet.TaskID) error {
		if err := q.LockExports(ctx, string(vm.ProjectID)); err != nil {
			return err
		}
		n, err := q.AddExport(ctx, db.AddExportParams{
			ID: exportID, VMID: id, ProjectID: vm.ProjectID, TaskID: task, PoolID: in.PoolID, HostID: host, Volume: exportName(vm, exportID, in), Format: in.Format, Disk: int32(in.Disk),
			CreatedBy: a.Name, Life: export.Lifetime, Most: export.MaxPerProject,
		})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.TooMany, "The project has %d exports, which is the maximum. Delete some first.", export.MaxPerProject)
		}
		return err
	})
	if err != nil {
		return none, err
	}
	out, err := c.GetExport(ctx, a, exportID)
	out.TaskID = task.ID
	return out, err
}

// exportName returns an unused name for the export's file.
func exportName(vm fleet.VMView, id fleet.ExportID, in NewExport) string {
	part := ""
	if in.Disk > 0 {
		part = fmt.Sprintf("-disk%d", in.Disk)
	}
	return fmt.Sprintf("%s%s-%s.%s", vm.Name, part, id[len(id)-6:], in.Format)
}

// exportJob returns the job that exports the VM: an archive of all disks, or a copy of one disk.
func exportJob(ctx context.Context, q *db.Queries, vm fleet.VMView, id fleet.ExportID, in NewExport) (storage.VolumeJob, error) {
	j := storage.VolumeJob{
		Kind: fleet.VolumeExport, Ref: fleet.Volref{PoolID: in.PoolID, Volume: exportName(vm, id, in)}, AuditByCaller: true, Project: &vm.ProjectID,
	}
	networks := make([]string, len(vm.Spec.NICs))
	for i, n := range vm.Spec.NICs {
		networks[i] = n.Network
		if n.Bridge != "" {
			networks[i] = n.Bridge
		}
	}
	e := fleet.ExportParams{Appliance: export.Appliance(vm, networks)}
	for i, d := range vm.Spec.Disks {
		if in.Disk > 0 && i+1 != in.Disk {
			continue
		}
		spec, err := storage.ReadPoolSpec(ctx, q, d.PoolID)
		switch {
		case err != nil:
			return j, err
		case !spec.Kind.Info().FilePool:
			return j, fleet.Errorf(fleet.Conflict, "Disk %d of %s is in a block pool, from which nothing can be exported. Move the disk to a file pool first.", i+1, vm.Name)
		}
		if err := checkDiskIdle(ctx, q, vm, d.Ref()); err != nil {
			return j, err
		}
		e.Disks = append(e.Disks, d.Ref())
		// Reserve an upper estimate of the space. The host measures the disk before it starts.
		j.Params.TakesBytes += min(vm.DiskBytes(d), 2*allocatedBytes(vm, d.Ref())+1<<30)
	}
	if in.Disk == 0 {
		j.Params.Export = &e
		return j, nil
	}
	j.Kind, j.Params.Source, j.Params.Flatten = fleet.VolumeCopy, e.Disks[0].Volume, true
	if e.Disks[0].PoolID != in.PoolID {
		j.Params.SourcePool = e.Disks[0].PoolID
	}
	return j, nil
}

// allocatedBytes returns the disk's allocated bytes as reported by its host.
func allocatedBytes(vm fleet.VMView, disk fleet.Volref) int64 {
	if vm.Status != nil {
		for _, d := range vm.Status.Disks {
			if d.Volume != nil && *d.Volume == disk {
				return d.AllocBytes
			}
		}
	}
	return 0
}

func exportFromRow(a fleet.Actor, r db.Export, state fleet.JobState, progress int32, note, errText string) export.File {
	e := export.File{
		ID: r.ID, VMID: r.VMID, ProjectID: r.ProjectID, TaskID: r.TaskID, Format: r.Format, Disk: int(r.Disk), Volume: r.Volume, PoolID: r.PoolID, HostID: r.HostID,
		State: state, Progress: int(progress), Note: note, Error: errText, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
	if !store.SeesHosts(a) {
		e.HostID = ""
	}
	return e
}

// GetExport returns an export. The person must be allowed to change VMs of its project, because the file has the full
// content of disks.
func (c *Control) GetExport(ctx context.Context, a fleet.Actor, id fleet.ExportID) (export.File, error) {
	none := export.File{}
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return none, err
	}
	if err := store.CheckID(id, "export"); err != nil {
		return none, err
	}
	r, err := c.store.GetExport(ctx, id)
	if err != nil {
		return none, store.NotFoundError(err, "export")
	}
	if !policy.May(a, policy.VMChange, r.Export.ProjectID) {
		return none, fleet.Errorf(fleet.NotFound, "There is no such export.")
	}
	return exportFromRow(a, r.Export, r.State, r.Progress, r.Note, r.Error), nil
}

// ListExports returns a VM's exports, newest first.
func (c *Control) ListExports(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]export.File, error) {
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return nil, err
	}
	if err := policy.Check(a, policy.VMChange, vm.ProjectID); err != nil {
		return nil, err
	}
	rows, err := c.store.ListExports(ctx, id)
	out := make([]export.File, len(rows))
	for i, r := range rows {
		out[i] = exportFromRow(a, r.Export, r.State, r.Progress, r.Note, r.Error)
	}
	return out, store.UserError(err)
}

// DeleteExport deletes an export and queues the deletion of its file. An export in progress is refused; its task must
// be cancelled first.
func (c *Control) DeleteExport(ctx context.Context, a fleet.Actor, id fleet.ExportID) error {
	e, err := c.GetExport(ctx, a, id)
	if err != nil {
		return err
	}
	if !e.State.IsFinal() {
		return fleet.Errorf(fleet.Conflict, "The export is being made. Cancel its task first, or wait until the task has ended.")
	}
	return c.store.Tx(ctx, func(q *db.Queries) error { return removeExport(ctx, q, a, id) })
}

// removeExport deletes the export's row and queues the deletion of its file. An unknown export is no error.
func removeExport(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.ExportID) error {
	rows, err := q.DropExport(ctx, id)
	if err != nil || len(rows) == 0 {
		return err
	}
	e := rows[0]
	subject := fleet.SubjectVolume(fleet.Volref{PoolID: e.PoolID, Volume: e.Volume})
	if _, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
		HostID: e.HostID, Kind: fleet.VolumeDelete, Subject: subject, SubjectName: e.Volume, ProjectID: &e.ProjectID, Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeParams{}},
	}); err != nil {
		return err
	}
	return store.Audit(ctx, q, a, string(fleet.VolumeDelete), subject, e.Volume, "an export of a VM")
}

// DeleteStaleExports deletes expired exports whose task has ended.
func (c *Control) DeleteStaleExports(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "end exports", func(q *db.Queries) error {
		ids, err := q.StaleExports(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := removeExport(ctx, q, a, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// DownloadExport works like DownloadVolume for an export's file, for people who may read the export.
func (c *Control) DownloadExport(ctx context.Context, a fleet.Actor, id fleet.ExportID) (end relay.End, host, name string, err error) {
	e, err := c.GetExport(ctx, a, id)
	if err != nil {
		return end, "", "", err
	}
	if ok, why := e.AllowsDownload(); !ok {
		return end, "", "", fleet.RefusalError(why)
	}
	r, err := c.store.GetExport(ctx, id)
	if err != nil {
		return end, "", "", store.NotFoundError(err, "export")
	}
	end, host, err = c.downloadVolume(ctx, fleet.SystemActor, a, storage.VolumeID{PoolID: r.Export.PoolID, Volume: r.Export.Volume, HostID: r.Export.HostID})
	if fleet.CodeOf(err) == fleet.NotFound {
		err = fleet.Errorf(fleet.Conflict, "The export file was not found: the host has not reported it yet, or it was deleted. Try again in a moment, or export the VM again.")
	}
	if err != nil {
		return end, "", "", err
	}
	if !store.SeesHosts(a) {
		host = "of the file"
	}
	return end, host, e.Volume, nil
}
