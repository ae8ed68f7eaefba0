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
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// DiskImage is the input of ImageOfDisk.
type DiskImage struct {
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	OS          fleet.OSFacts `json:"os,omitzero"`
}

// ImageOfDisk makes an image from a disk of a VM that is off, in the disk's pool. The image has no backing file,
// belongs to the VM's project and is published only to that project. The host inspects the new file and reports its
// checksum.
func (c *Control) ImageOfDisk(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref, in DiskImage) (fleet.ImageID, fleet.Task, error) {
	none := fleet.Task{}
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return "", none, err
	}
	if err := policy.Check(a, policy.VMChange, vm.ProjectID); err != nil {
		return "", none, err
	}
	var checks fleet.Checks
	fleet.CheckImageName(&checks, "name", in.Name)
	fleet.CheckDescription(&checks, "description", in.Description)
	in.OS.Check(&checks, "os")
	if err := checks.Err(); err != nil {
		return "", none, err
	}
	if disk, err = revealPools(ctx, c, a, id, disk); err != nil {
		return "", none, err
	}
	at := func(vm fleet.VMView) int {
		return slices.IndexFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == disk })
	}
	noDisk := fleet.Errorf(fleet.Conflict, "The VM has no disk %q any more. Reload and try again.", disk.Volume)
	if at(vm) < 0 {
		return "", none, noDisk
	}
	image := fleet.NewID[fleet.ImageID]()
	decide := func(q *db.Queries, pool assign.AssignableObject) (storage.VolumeJob, error) {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return storage.VolumeJob{}, err
		}
		i := at(vm)
		if i < 0 {
			return storage.VolumeJob{}, noDisk
		}
		if ok, why := vm.AllowsImage(disk); !ok {
			return storage.VolumeJob{}, fleet.RefusalError(why)
		}
		if err := createProjectImage(ctx, q, a, vm.ProjectID, image, in); err != nil {
			return storage.VolumeJob{}, err
		}
		j, err := diskImageJob(ctx, q, vm, i, in.Name)
		if err != nil {
			return j, err
		}
		spec, err := storage.ReadPoolSpec(ctx, q, disk.PoolID)
		if err != nil {
			return j, err
		}
		if !spec.Kind.Info().FilePool {
			return j, fleet.Errorf(fleet.Conflict, "The disk is in a block pool, which cannot store images. Move the disk to a file pool first.")
		}
		if j.Ref.Volume, err = unusedFileName(ctx, q, j.Ref, vm.HostID, spec.Shared); err != nil {
			return j, err
		}
		if j.Host, err = storage.FindHostForVolumeJob(ctx, q, fleet.SystemActor, j, storage.HostChoice{Named: vm.HostID}); err != nil {
			return j, redactHostNames(a, err)
		}
		version := fleet.ImageVersion{ImageID: image, Source: fmt.Sprintf("disk %d of VM %s", i+1, vm.Name)}
		if _, err := addPendingVersion(ctx, q, a, version, j, spec.Shared); err != nil {
			return j, err
		}
		return j, store.Audit(ctx, q, a, "image.create", fleet.SubjectImage(image), in.Name, fmt.Sprintf("from disk %d of VM %s", i+1, vm.Name))
	}
	task, err := storage.QueueVolumeJobWithPoolActor(ctx, c.store, fleet.SystemActor, a, disk.PoolID, decide, func(*db.Queries, fleet.TaskID) error { return nil })
	return image, task, err
}

// createProjectImage makes an image owned by a project.
func createProjectImage(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, id fleet.ImageID, in DiskImage) error {
	n, err := q.CountProjectImages(ctx, string(project))
	switch {
	case err != nil:
		return err
	case n >= fleet.MaxProjectImages:
		return fleet.Errorf(fleet.Conflict, "The project has %d images, which is the maximum. Delete some first.", n)
	}
	if err := q.AddImage(ctx, db.AddImageParams{ID: id, ProjectID: &project, Name: in.Name, Description: in.Description, Os: in.OS, CreatedBy: a.Name}); err != nil {
		return imageNameTakenError(err, in.Name)
	}
	_, err = q.GrantImage(ctx, db.GrantImageParams{ImageID: id, ProjectID: &project, GrantedBy: a.Name})
	return err
}

// diskImageJob returns the job that makes an image of the VM's disk i, in the disk's pool.
func diskImageJob(ctx context.Context, q *db.Queries, vm fleet.VMView, i int, name string) (storage.VolumeJob, error) {
	disk := vm.Spec.Disks[i]
	work, err := storage.UnfinishedVolumeJobVerb(ctx, q, disk.PoolID, disk.Volume, vm.HostID)
	if err == nil && work != "" {
		err = fleet.Errorf(fleet.Conflict, "The disk is in use (%s). Wait until that task has ended.", work)
	}
	return storage.VolumeJob{
		Kind: fleet.VolumeCopy, Ref: fleet.Volref{PoolID: disk.PoolID, Volume: fleet.DefaultCopyName(name, 1, "qcow2")}, AuditByCaller: true, Project: &vm.ProjectID,
		Params: fleet.VolumeParams{Source: disk.Volume, Flatten: true, TakesBytes: disk.SizeBytes},
	}, err
}

// redactHostNames replaces err with a sentence without host names for actors who do not see hosts.
func redactHostNames(a fleet.Actor, err error) error {
	if err == nil || store.SeesHosts(a) || fleet.CodeOf(err) != fleet.Invalid && fleet.CodeOf(err) != fleet.Conflict {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "The disk's pool cannot store an image now: the pool has too little free space, or its host does not answer. Ask an administrator.")
}
