package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/network"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/template"
	"quantix/internal/vmcopy"
)

// TemplateVersion identifies a version of a template.
type TemplateVersion struct {
	TemplateID fleet.TemplateID
	VersionID  fleet.TemplateVersionID
}

// DeprecateTemplateVersion sets or clears the deprecated flag. No new VM is created from a deprecated version;
// existing VMs stay.
func (c *Control) DeprecateTemplateVersion(ctx context.Context, a fleet.Actor, of TemplateVersion, deprecated bool) error {
	act, by := fleet.ActOffer, ""
	if deprecated {
		act, by = fleet.ActDeprecate, a.Name
	}
	v, version, err := c.getTemplateVersion(ctx, a, of, act)
	if err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		n, err := q.DeprecateTemplateVersion(ctx, db.DeprecateTemplateVersionParams{ID: of.VersionID, TemplateID: of.TemplateID, By: by})
		switch {
		case err != nil:
			return err
		case n == 0:
			return fleet.Errorf(fleet.Conflict, "Somebody changed the version meanwhile. Reload the page and try again.")
		}
		return store.Audit(ctx, q, a, "template."+string(act), template.Subject(v.ID), v.Name, fmt.Sprintf("version %d", version.Number))
	})
}

// DeleteTemplateVersion deletes a version with its own images, and queues the deletion of their files, one task per
// file. confirm must be the template's name. The call is refused while the images back linked clones.
func (c *Control) DeleteTemplateVersion(ctx context.Context, a fleet.Actor, of TemplateVersion, confirm string) ([]fleet.TaskID, error) {
	v, version, err := c.getTemplateVersion(ctx, a, of, fleet.ActDelete)
	if err != nil {
		return nil, err
	}
	if err := checkConfirmation(confirm, v.Name, "the version"); err != nil {
		return nil, err
	}
	copies, ids, err := c.templateImageCopies(ctx, v, version.ID)
	if err != nil {
		return nil, err
	}
	var tasks []fleet.TaskID
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		tasks = nil
		if err := checkTemplateRemovable(ctx, q, v.ID, copies); err != nil {
			return err
		}
		if err := q.DeleteImageVersions(ctx, db.DeleteImageVersionsParams{Ids: ids, TemplateID: string(v.ID)}); err != nil {
			return err
		}
		if n, err := q.DeleteTemplateVersion(ctx, db.DeleteTemplateVersionParams{ID: version.ID, TemplateID: v.ID}); err != nil || n == 0 {
			return store.FirstErrorOf(err, func() error { return fleet.Errorf(fleet.NotFound, "The template has no such version.") })
		}
		if tasks, err = queueFileDeletions(ctx, q, a, copies); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "template.version.delete", template.Subject(v.ID), v.Name, fmt.Sprintf("version %d, %d files", version.Number, len(tasks)))
	})
	return tasks, hideInUseDetails(a, err)
}

// DeleteTemplate deletes a template with all its versions, under the conditions of DeleteTemplateVersion.
func (c *Control) DeleteTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID, confirm string) ([]fleet.TaskID, error) {
	v, err := c.getChangeableTemplate(ctx, a, id)
	if err != nil {
		return nil, err
	}
	if ok, why := v.Allows(fleet.ActDelete); !ok {
		return nil, fleet.Errorf(fleet.Conflict, "%s: %s", v.Name, why)
	}
	if err := checkConfirmation(confirm, v.Name, "the template with all its versions"); err != nil {
		return nil, err
	}
	copies, _, err := c.templateImageCopies(ctx, v, "")
	if err != nil {
		return nil, err
	}
	var tasks []fleet.TaskID
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		tasks = nil
		if err := checkTemplateRemovable(ctx, q, id, copies); err != nil {
			return err
		}
		if err := q.DeleteTemplate(ctx, id); err != nil {
			return err
		}
		if tasks, err = queueFileDeletions(ctx, q, a, copies); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "template.delete", template.Subject(id), v.Name, fmt.Sprintf("%d versions, %d files", len(v.Versions), len(tasks)))
	})
	return tasks, hideInUseDetails(a, err)
}

func checkConfirmation(confirm, name, what string) error {
	var checks fleet.Checks
	if confirm != name {
		checks.Add("confirm", "Type the template's name, %s, to delete %s.", name, what)
	}
	return checks.Err()
}

// getTemplateVersion returns a version and its template. It refuses if the actor may not change the template, or if the
// version does not allow the action.
func (c *Control) getTemplateVersion(ctx context.Context, a fleet.Actor, of TemplateVersion, act fleet.Action) (template.View, template.Version, error) {
	v, err := c.getChangeableTemplate(ctx, a, of.TemplateID)
	if err != nil {
		return v, template.Version{}, err
	}
	i := slices.IndexFunc(v.Versions, func(x template.Version) bool { return x.ID == of.VersionID })
	if i < 0 {
		return v, template.Version{}, fleet.Errorf(fleet.NotFound, "The template has no such version.")
	}
	if ok, why := v.Versions[i].Allows(act); !ok {
		return v, v.Versions[i], fleet.RefusalError(why)
	}
	return v, v.Versions[i], nil
}

// templateImageCopies returns the copies of images that were made for the given version, or for all versions if version is
// empty, and the ids of the image versions.
func (c *Control) templateImageCopies(ctx context.Context, v template.View, version fleet.TemplateVersionID) (query.Copies, []string, error) {
	var out query.Copies
	ids := []string{}
	images := map[fleet.ImageID]query.Copies{}
	for _, x := range v.Versions {
		for _, d := range x.Disks {
			if !d.Own || version != "" && x.ID != version || slices.Contains(ids, string(d.VersionID)) {
				continue
			}
			ids = append(ids, string(d.VersionID))
			if _, read := images[d.ImageID]; !read {
				image, err := c.GetImage(ctx, fleet.SystemActor, d.ImageID)
				if err != nil {
					return nil, nil, err
				}
				if images[d.ImageID], err = c.CopiesOfImage(ctx, fleet.SystemActor, image); err != nil {
					return nil, nil, err
				}
			}
			for _, o := range images[d.ImageID] {
				if o.VersionID == d.VersionID {
					out = append(out, o)
				}
			}
		}
	}
	return out, ids, nil
}

// checkTemplateRemovable locks the template with its images. It refuses while one of the copies backs disks or has an
// unfinished job.
func checkTemplateRemovable(ctx context.Context, q *db.Queries, id fleet.TemplateID, copies query.Copies) error {
	if _, err := q.LockTemplateImages(ctx, &id); err != nil {
		return err
	}
	if _, err := q.LockTemplate(ctx, id); err != nil {
		return store.NotFoundError(err, "template")
	}
	for _, o := range copies {
		if err := checkNoOverlays(ctx, q, ImageFile{PoolID: o.PoolID, Volume: o.Volume, HostID: o.HostID}); err != nil {
			return err
		}
		if work, err := storage.UnfinishedVolumeJobVerb(ctx, q, o.PoolID, o.Volume, o.HostID); err != nil || work != "" {
			return store.FirstErrorOf(err, func() error {
				return fleet.Errorf(fleet.Conflict, "The file %s is in use: %s. Wait until that task has ended.", o.Volume, work)
			})
		}
	}
	return nil
}

// queueFileDeletions removes the copies from the library and queues the deletion of their files.
func queueFileDeletions(ctx context.Context, q *db.Queries, a fleet.Actor, copies query.Copies) ([]fleet.TaskID, error) {
	tasks := []fleet.TaskID{}
	for _, o := range copies {
		if o.On == nil {
			continue
		}
		task, err := queueFileDeletion(ctx, q, a, o)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// addTemplateVersion adds a version made from the VM to the template. Both must be locked.
func addTemplateVersion(ctx context.Context, q *db.Queries, a fleet.Actor, t db.Template, vm fleet.VMView, in TemplateSource) (task fleet.Task, err error) {
	versions, err := q.TemplateVersions(ctx, t.ID)
	switch {
	case err != nil:
		return task, err
	case len(versions) >= template.MaxVersions:
		return task, fleet.Errorf(fleet.Conflict, "The template has %d versions, which is the maximum. Delete some first.", len(versions))
	}
	number := 1
	if len(versions) > 0 {
		number = int(versions[len(versions)-1].Number) + 1
	}
	bare := vmcopy.WithoutIdentity(vm.Spec)
	// Keep only rules about VM labels. Other rules name hosts or VMs, which do not apply to a new VM.
	bare.Rules = slices.DeleteFunc(slices.Clone(bare.Rules), func(r fleet.PlacementRule) bool { return r.Of != fleet.RuleVMLabels })
	spec, err := network.StoredSpec(ctx, q, vm.ProjectID, bare)
	if err != nil {
		return task, err
	}
	version := newTemplateVersion{template: t, number: number, vm: vm, disks: spec.Disks}
	if in.OfImages {
		err = version.useImagesOfVM(ctx, q, a)
	} else {
		task, err = version.copyDisksToImages(ctx, q, a)
	}
	if err != nil {
		return task, err
	}
	_, err = q.AddTemplateVersion(ctx, db.AddTemplateVersionParams{
		ID: fleet.NewID[fleet.TemplateVersionID](), TemplateID: t.ID, Spec: spec, Source: "VM " + vm.Name, Note: in.Note, CreatedBy: a.Name,
	})
	return task, err
}

// newTemplateVersion is a template version that is being made from a VM. The template and the VM are locked.
type newTemplateVersion struct {
	template db.Template
	number   int
	vm       fleet.VMView
	disks    []fleet.Disk // the version's disks; get their images
}

// useImagesOfVM makes the version refer to the library images that the VM's disks were made from.
func (v newTemplateVersion) useImagesOfVM(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	var ids []string
	for i, d := range v.vm.Spec.Disks {
		v.disks[i].ImageID, v.disks[i].VersionID = d.ImageID, d.VersionID
		ids = append(ids, string(d.ImageID))
	}
	rows, err := q.LockImages(ctx, db.LockImagesParams{Ids: ids, ProjectID: string(v.vm.ProjectID)})
	if err != nil {
		return err
	}
	for i, d := range v.vm.Spec.Disks {
		k := slices.IndexFunc(rows, func(r db.LockImagesRow) bool { return r.ID == d.ImageID })
		if k < 0 || !rows[k].Open && !policy.May(a, policy.InfraChange, "") {
			return fleet.Errorf(fleet.Conflict, "The image of disk %d is not in the library any more, or not published to the project. Make the template from copies of the VM's disks.", i+1)
		}
		version, err := q.GetImageVersion(ctx, d.VersionID)
		if err != nil || version.ImageVersion.ImageID != d.ImageID {
			return fleet.Errorf(fleet.Conflict, "The image of disk %d no longer has that version. Make the template from copies of the VM's disks.", i+1)
		}
	}
	return nil
}

// copyDisksToImages queues one task with a copy job per disk. Each copy is in the disk's pool and has no backing file.
func (v newTemplateVersion) copyDisksToImages(ctx context.Context, q *db.Queries, a fleet.Actor) (task fleet.Task, err error) {
	t := v.template
	own, err := q.LockTemplateImages(ctx, &t.ID)
	if err != nil {
		return task, err
	}
	shot, err := newTempSnapshot(ctx, q, v.vm)
	if err != nil {
		return task, err
	}
	for i := range v.disks {
		name := fmt.Sprintf("%s disk %d", t.Name, i+1)
		k := slices.IndexFunc(own, func(r db.LockTemplateImagesRow) bool { return r.Name == name })
		if k >= 0 {
			v.disks[i].ImageID = own[k].ID
		} else {
			v.disks[i].ImageID = fleet.NewID[fleet.ImageID]()
			err := q.AddTemplateImage(ctx, db.AddTemplateImageParams{ID: v.disks[i].ImageID, ProjectID: &t.ProjectID, TemplateID: &t.ID, Name: name, Os: t.Os, CreatedBy: a.Name})
			if err != nil {
				return task, err
			}
		}
		if task, err = v.copyDiskToImage(ctx, q, a, i, shot, task); err != nil {
			return task, err
		}
	}
	if err := shot.queueTakeJob(ctx, q, a, task.ID, t.Name); err != nil {
		return task, err
	}
	return task, shot.makeCopiesWait(ctx, q, task.ID)
}

// diskRole is the role of the job that makes the n-th disk.
func diskRole(n int) string { return fmt.Sprintf("disk-%02d", n) }

// copyDiskToImage queues a copy of the VM's disk i as a version of the image v.disks[i].ImageID. The job copies from
// the temporary snapshot unless it is zero. The job is added to the task, or to a new task if task is zero.
func (v newTemplateVersion) copyDiskToImage(ctx context.Context, q *db.Queries, a fleet.Actor, i int, shot tempSnapshot, task fleet.Task) (fleet.Task, error) {
	t, vm, disk := v.template, v.vm, v.vm.Spec.Disks[i]
	j, err := diskImageJob(ctx, q, vm, i, t.Name)
	if err != nil {
		return task, err
	}
	spec, err := storage.ReadPoolSpec(ctx, q, disk.PoolID)
	if err != nil {
		return task, err
	}
	if !spec.Kind.Info().FilePool {
		return task, fleet.Errorf(fleet.Conflict, "Disk %d is in a block pool, which cannot store images. Move the disk to a file pool first.", i+1)
	}
	j.Ref.Volume = fleet.DefaultCopyName(fmt.Sprintf("%s disk %d", t.Name, i+1), v.number, "qcow2")
	if j.Ref.Volume, err = unusedFileName(ctx, q, j.Ref, vm.HostID, spec.Shared); err != nil {
		return task, err
	}
	j.Params.TakesBytes, j.Params.Snapshot = vm.DiskBytes(disk), shot.snapshotRef()
	if j.Host, err = storage.FindHostForVolumeJob(ctx, q, fleet.SystemActor, j, storage.HostChoice{Named: vm.HostID}); err != nil {
		return task, redactHostNames(a, err)
	}
	version := fleet.ImageVersion{ImageID: v.disks[i].ImageID, Source: fmt.Sprintf("disk %d of VM %s", i+1, vm.Name)}
	if v.disks[i].VersionID, err = addPendingVersion(ctx, q, a, version, j, spec.Shared); err != nil {
		return task, err
	}
	subject, args := fleet.SubjectVolume(j.Ref), fleet.JobArgs{Volume: &j.Params}
	if task.ID != "" {
		return task, q.AddStep(ctx, db.AddStepParams{
			ID: fleet.NewID[fleet.JobID](), TaskID: &task.ID, Role: diskRole(i + 1), HostID: j.Host.ID, Kind: j.Kind, Subject: subject, Args: args,
		})
	}
	id, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{HostID: j.Host.ID, Kind: j.Kind, Subject: subject, SubjectName: j.Ref.Volume, ProjectID: &vm.ProjectID, Args: args})
	if err != nil {
		return task, err
	}
	if len(vm.Spec.Disks) > 1 || shot.id != "" {
		if err := q.NameStep(ctx, db.NameStepParams{Role: diskRole(i + 1), TaskID: &id, Steps: []string{}}); err != nil {
			return task, err
		}
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}
