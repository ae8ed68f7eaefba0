package control

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImageSource is the source of an image version: a file in a pool, a URL that a host downloads, or a disk of a VM that
// is off. The copy of a disk contains the data of the disk's complete backing chain.
type ImageSource struct {
	PoolID fleet.PoolID `json:"poolId"`
	HostID fleet.HostID `json:"hostId,omitempty"` // the file's host, for a local pool
	Volume string       `json:"volume,omitempty"` // the file's name; empty for a new file: generated

	URL      string `json:"url,omitempty"`
	Checksum string `json:"checksum,omitempty" doc:"For a download: as for a volume"`
	// ChecksumURL is the URL of a file that contains the checksum.
	ChecksumURL string `json:"checksumUrl,omitempty" doc:"For a download: as for a volume"`

	VMID fleet.VMID `json:"vmId,omitempty"`
	Disk int        `json:"disk,omitempty" doc:"The number of the VM's disk, from 1; 0: the first disk"`
}

// NewImage is the input of AddImage.
type NewImage struct {
	Name string `json:"name"`
	// ProjectID is the project that owns the image and that the image is published to. If empty, the image is global.
	ProjectID   fleet.ProjectID `json:"projectId,omitempty"`
	Description string          `json:"description,omitempty"`
	OS          fleet.OSFacts   `json:"os,omitzero"`
	Public      bool            `json:"public,omitempty"` // publish to every project
	Source      ImageSource     `json:"source"`
}

// EditImage is the input of Control.EditImage. nil fields do not change.
type EditImage struct {
	Name        *string        `json:"name,omitempty"`
	Description *string        `json:"description,omitempty"`
	OS          *fleet.OSFacts `json:"os,omitempty"`
}

// AddImage adds an image with its first version. In the returned task a host downloads, copies or verifies the
// version's file.
func (c *Control) AddImage(ctx context.Context, a fleet.Actor, in NewImage) (id fleet.ImageID, task fleet.Task, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return "", task, err
	}
	var checks fleet.Checks
	fleet.CheckImageName(&checks, "name", in.Name)
	fleet.CheckDescription(&checks, "description", in.Description)
	in.OS.Check(&checks, "os")
	if err := checks.Err(); err != nil {
		return "", task, err
	}
	id = fleet.NewID[fleet.ImageID]()
	task, err = c.addVersionFromSource(ctx, a, id, in.Name, in.Source, func(q *db.Queries) error {
		var of *fleet.ProjectID
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &in.ProjectID
		}
		err := q.AddImage(ctx, db.AddImageParams{ID: id, ProjectID: of, Name: in.Name, Description: in.Description, Os: in.OS, CreatedBy: a.Name})
		if err != nil {
			return imageNameTakenError(err, in.Name)
		}
		if in.Public {
			of = nil
		}
		if in.Public || of != nil {
			if _, err := q.GrantImage(ctx, db.GrantImageParams{ImageID: id, ProjectID: of, GrantedBy: a.Name}); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.create", fleet.SubjectImage(id), in.Name, in.Source.auditDetail())
	})
	return id, task, err
}

// AddImageVersion adds a version to an image and makes it the newest.
func (c *Control) AddImageVersion(ctx context.Context, a fleet.Actor, id fleet.ImageID, from ImageSource) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	v, err := c.GetImage(ctx, a, id)
	if err != nil {
		return fleet.Task{}, err
	}
	return c.addVersionFromSource(ctx, a, id, v.Name, from, func(q *db.Queries) error {
		image, err := q.LockImage(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "image")
		}
		if err := checkNotTemplateImage(image); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.version", fleet.SubjectImage(id), image.Name, from.auditDetail())
	})
}

func (s ImageSource) auditDetail() string {
	switch {
	case s.URL != "":
		at, _, _ := strings.Cut(s.URL, "?")
		return "from " + at
	case s.VMID != "":
		return fmt.Sprintf("from disk %d of VM %s", max(s.Disk, 1), s.VMID)
	}
	return "from the volume " + s.Volume
}

// EditImage changes an image's name and description.
func (c *Control) EditImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, in EditImage) error {
	return c.changeImage(ctx, a, id, func(q *db.Queries, image db.Image) error {
		if err := checkNotTemplateImage(image); err != nil {
			return err
		}
		name, description, os := image.Name, image.Description, image.Os
		var checks fleet.Checks
		if in.Name != nil && *in.Name != image.Name {
			name = *in.Name
			fleet.CheckImageName(&checks, "name", name)
		}
		if in.Description != nil {
			description = *in.Description
			fleet.CheckDescription(&checks, "description", description)
		}
		if in.OS != nil {
			os = *in.OS
			os.Check(&checks, "os")
		}
		if err := checks.Err(); err != nil {
			return err
		}
		if err := q.ChangeImage(ctx, db.ChangeImageParams{ID: id, Name: name, Description: description, Os: os}); err != nil {
			return imageNameTakenError(err, name)
		}
		return store.Audit(ctx, q, a, "image.edit", fleet.SubjectImage(id), name, strings.TrimSpace("name "+name+", "+os.Text()))
	})
}

// checkNotTemplateImage refuses changes to an image that belongs to a template.
func checkNotTemplateImage(image db.Image) error {
	if image.TemplateID == nil {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The image %s belongs to a template, which determines its name, versions and projects. Change the template.", image.Name)
}

// changeImage locks the image and calls do with it in the same transaction.
func (c *Control) changeImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, do func(*db.Queries, db.Image) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "image"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		image, err := q.LockImage(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "image")
		}
		return do(q, image)
	})
}

// GrantImage publishes an image to a project, or to all projects if project is empty.
func (c *Control) GrantImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID) error {
	return c.setImageGrant(ctx, a, id, project, "image.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantImage(ctx, db.GrantImageParams{ImageID: id, ProjectID: of, GrantedBy: a.Name})
	})
}

// RevokeImage withdraws an image from a project, or ends its publication to all projects if project is empty. Clones
// and disks made from the image stay.
func (c *Control) RevokeImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID) error {
	return c.setImageGrant(ctx, a, id, project, "image.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeImage(ctx, db.RevokeImageParams{ImageID: id, ProjectID: of})
	})
}

func (c *Control) setImageGrant(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	return c.changeImage(ctx, a, id, func(q *db.Queries, image db.Image) error {
		if err := checkNotTemplateImage(image); err != nil {
			return err
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			var err error
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return store.Audit(ctx, q, a, action, fleet.SubjectImage(id), image.Name, name)
	})
}

// DeleteImage removes an image with all its versions from the library; confirm must be its name. If files is set, it
// also queues the deletion of each copy's file, one task per file. DeleteImage is refused while a copy backs disks.
// Members may delete images of their projects; the files are then always deleted.
func (c *Control) DeleteImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, confirm string, files bool) ([]fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return nil, err
	}
	v, err := c.GetImage(ctx, a, id)
	if err != nil {
		return nil, err
	}
	actor, member := a, !policy.May(a, policy.InfraChange, "")
	if member {
		if err := checkImageDeletable(a, v); err != nil {
			return nil, err
		}
		actor, files = fleet.SystemActor, true // members may not delete files in pools later
		if v, err = c.GetImage(ctx, actor, id); err != nil {
			return nil, err
		}
	}
	if ok, why := v.Allows(fleet.ActDelete); !ok {
		return nil, hideInUseDetails(a, fleet.Errorf(fleet.Conflict, "%s: %s", v.Name, why))
	}
	if confirm != v.Name {
		var checks fleet.Checks
		checks.Add("confirm", "Type the image's name, %s, to delete it with all its versions.", v.Name)
		return nil, checks.Err()
	}
	copies, err := c.CopiesOfImage(ctx, actor, v)
	if err != nil {
		return nil, err
	}
	var tasks []fleet.TaskID
	err = c.changeImage(ctx, actor, id, func(q *db.Queries, image db.Image) error {
		tasks = nil
		for _, copy := range copies {
			if err := checkNoOverlays(ctx, q, ImageFile{PoolID: copy.PoolID, Volume: copy.Volume, HostID: copy.HostID}); err != nil {
				return err
			}
		}
		if err := q.DeleteImage(ctx, id); err != nil {
			return err
		}
		for _, copy := range copies {
			if !files || copy.On == nil || member && copy.State == fleet.CopyChanged && v.Version(copy.VersionID).Format != "" {
				continue // an administrator replaced the copy's file, so the file is not the project's
			}
			task, err := queueFileDeletion(ctx, q, a, copy)
			if err != nil {
				return err
			}
			tasks = append(tasks, task)
		}
		return store.Audit(ctx, q, a, "image.delete", fleet.SubjectImage(id), image.Name, fmt.Sprintf("%d copies, files deleted: %t", len(copies), files))
	})
	return tasks, hideInUseDetails(a, err)
}

// checkImageDeletable refuses actors who may not delete the image. Administrators may delete any image, members those
// of their projects.
func checkImageDeletable(a fleet.Actor, v fleet.ImageView) error {
	if v.ProjectID == "" {
		return policy.Check(a, policy.InfraChange, "")
	}
	return policy.Check(a, policy.VMChange, v.ProjectID)
}

// hideInUseDetails hides the details of err from actors who see no hosts, because err may name VMs and pools of other
// projects.
func hideInUseDetails(a fleet.Actor, err error) error {
	if fleet.CodeOf(err) != fleet.Conflict || store.SeesHosts(a) {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "The image cannot be deleted now: disks are backed by it, a task uses a copy of it, or a host with a copy is offline. Try again later, or ask an administrator.")
}

// queueFileDeletion asks a host to delete a copy's file. It returns an error if the file is in use or no online host
// has it. The caller then keeps the copy in the library, because nothing would delete the file later.
func queueFileDeletion(ctx context.Context, q *db.Queries, a fleet.Actor, copy query.CopyWithVolume) (fleet.TaskID, error) {
	if len(copy.On.Hosts) == 0 {
		return "", fleet.Errorf(fleet.Conflict, "The file in %s cannot be deleted now: no online host has it. Delete the image alone, and the file later.", copy.LocationText())
	}
	use, err := storage.CurrentVolumeUse(ctx, q, *copy.On)
	if err != nil {
		return "", err
	}
	if ok, why := use.Allows(fleet.ActDelete); !ok {
		return "", fleet.Errorf(fleet.Conflict, "The file %s in %s is not deleted: %s", copy.Volume, copy.LocationText(), why)
	}
	subject := fleet.SubjectVolume(copy.Ref())
	task, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
		HostID: copy.On.Hosts[0].ID, Kind: fleet.VolumeDelete, Subject: subject, SubjectName: copy.Volume, Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeParams{}},
	})
	if err != nil {
		return task, err
	}
	return task, store.Audit(ctx, q, a, string(fleet.VolumeDelete), subject, copy.Volume, "a copy of an image, in "+copy.LocationText())
}
