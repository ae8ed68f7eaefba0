package control

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ImageSource is where a version of an image comes from: a file that lies in a pool, an address from which a host downloads it into the pool, or a
// disk of a VM that is off, which is copied into the pool with all that it stands on.
type ImageSource struct {
	PoolID fleet.PoolID `json:"poolId"`
	HostID fleet.HostID `json:"hostId,omitempty"` // of a local pool: on which
	Volume string       `json:"volume,omitempty"` // the file; of what is to come, its name: empty, one is made

	URL      string `json:"url,omitempty"`
	Checksum string `json:"checksum,omitempty" doc:"Of the download: as for a volume"`
	// ChecksumURL is the address of a file that has the checksum.
	ChecksumURL string `json:"checksumUrl,omitempty" doc:"Of the download: as for a volume"`

	VMID fleet.VMID `json:"vmId,omitempty"`
	Disk int        `json:"disk,omitempty" doc:"Which of the VM's disks, from 1; 0: the first"`
}

// NewImage asks for an entry of the library.
type NewImage struct {
	Name        string          `json:"name"`
	ProjectID   fleet.ProjectID `json:"projectId,omitempty"` // whose it is, and to whom it is published; empty: the fleet's, and published to nobody yet
	Description string          `json:"description,omitempty"`
	OS          fleet.OSFacts   `json:"os,omitzero"`
	Public      bool            `json:"public,omitempty"` // publish it to every project
	Source      ImageSource     `json:"source"`
}

// EditImage changes what is not nil.
type EditImage struct {
	Name        *string        `json:"name,omitempty"`
	Description *string        `json:"description,omitempty"`
	OS          *fleet.OSFacts `json:"os,omitempty"`
}

// AddImage makes an image with its first version. The task is what a host has to do for it.
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
	task, err = c.takeIn(ctx, a, id, in.Name, in.Source, func(q *db.Queries) error {
		var of *fleet.ProjectID
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFound(err, "project")
			}
			of = &in.ProjectID
		}
		err := q.AddImage(ctx, db.AddImageParams{ID: id, ProjectID: of, Name: in.Name, Description: in.Description, Os: in.OS, CreatedBy: a.Name})
		if err != nil {
			return imageNameTaken(err, in.Name)
		}
		if in.Public {
			of = nil
		}
		if in.Public || of != nil {
			if _, err := q.GrantImage(ctx, db.GrantImageParams{ImageID: id, ProjectID: of, GrantedBy: a.Name}); err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.create", fleet.SubjectImage(id), in.Name, in.Source.words())
	})
	return id, task, err
}

// AddImageVersion adds a version to an image, which is the newest from then on.
func (c *Control) AddImageVersion(ctx context.Context, a fleet.Actor, id fleet.ImageID, from ImageSource) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	v, err := c.GetImage(ctx, a, id)
	if err != nil {
		return fleet.Task{}, err
	}
	return c.takeIn(ctx, a, id, v.Name, from, func(q *db.Queries) error {
		image, err := q.LockImage(ctx, id)
		if err != nil {
			return store.NotFound(err, "image")
		}
		if err := noTemplates(image); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "image.version", fleet.SubjectImage(id), image.Name, from.words())
	})
}

func (s ImageSource) words() string {
	switch {
	case s.URL != "":
		at, _, _ := strings.Cut(s.URL, "?")
		return "from " + at
	case s.VMID != "":
		return fmt.Sprintf("from disk %d of VM %s", max(s.Disk, 1), s.VMID)
	}
	return "from the volume " + s.Volume
}

// EditImage changes what people say of an image.
func (c *Control) EditImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, in EditImage) error {
	return c.changeImage(ctx, a, id, func(q *db.Queries, image db.Image) error {
		if err := noTemplates(image); err != nil {
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
			return imageNameTaken(err, name)
		}
		return store.Audit(ctx, q, a, "image.edit", fleet.SubjectImage(id), name, strings.TrimSpace("name "+name+", "+os.Words()))
	})
}

// noTemplates refuses to change what a template decides.
func noTemplates(image db.Image) error {
	if image.TemplateID == nil {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The image %s belongs to a template: it is published, called and versioned as that is. Change the template.", image.Name)
}

// changeImage locks an image.
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
			return store.NotFound(err, "image")
		}
		return do(q, image)
	})
}

// GrantImage publishes an image to a project, or to all where project is empty.
func (c *Control) GrantImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID) error {
	return c.setImageGrant(ctx, a, id, project, "image.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantImage(ctx, db.GrantImageParams{ImageID: id, ProjectID: of, GrantedBy: a.Name})
	})
}

// RevokeImage takes an image from a project, or from all that have it by being any. What was made from it stays.
func (c *Control) RevokeImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID) error {
	return c.setImageGrant(ctx, a, id, project, "image.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeImage(ctx, db.RevokeImageParams{ImageID: id, ProjectID: of})
	})
}

func (c *Control) setImageGrant(ctx context.Context, a fleet.Actor, id fleet.ImageID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	return c.changeImage(ctx, a, id, func(q *db.Queries, image db.Image) error {
		if err := noTemplates(image); err != nil {
			return err
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			var err error
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFound(err, "project")
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

// DeleteImage takes an image out of the library with all its versions; confirm must be its name. files: the copies' files are deleted too, by a
// task for each. It is refused while disks stand on one as overlays. Members of a project delete its own, always with their files.
func (c *Control) DeleteImage(ctx context.Context, a fleet.Actor, id fleet.ImageID, confirm string, files bool) ([]fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return nil, err
	}
	v, err := c.GetImage(ctx, a, id)
	if err != nil {
		return nil, err
	}
	answers, member := a, !policy.May(a, policy.InfraChange, "")
	if member {
		if err := mayDelete(a, v); err != nil {
			return nil, err
		}
		answers, files = fleet.SystemActor, true // nobody else would ever delete them
		if v, err = c.GetImage(ctx, answers, id); err != nil {
			return nil, err
		}
	}
	if ok, why := v.Allows(fleet.ActDelete); !ok {
		return nil, inUse(a, fleet.Errorf(fleet.Conflict, "%s: %s", v.Name, why))
	}
	if confirm != v.Name {
		var checks fleet.Checks
		checks.Add("confirm", "Type the image's name, %s, to delete it with all its versions.", v.Name)
		return nil, checks.Err()
	}
	copies, err := c.CopiesOf(ctx, answers, v)
	if err != nil {
		return nil, err
	}
	var tasks []fleet.TaskID
	err = c.changeImage(ctx, answers, id, func(q *db.Queries, image db.Image) error {
		tasks = nil
		for _, copy := range copies {
			if err := noOverlays(ctx, q, Image{PoolID: copy.PoolID, Volume: copy.Volume, HostID: copy.HostID}); err != nil {
				return err
			}
		}
		if err := q.DeleteImage(ctx, id); err != nil {
			return err
		}
		for _, copy := range copies {
			if !files || copy.On == nil || member && copy.State == fleet.CopyChanged && v.Version(copy.VersionID).Format != "" {
				continue // what took the place of a copy is not the project's: who runs the hosts put it there
			}
			task, err := queueFileDeletion(ctx, q, a, copy)
			if err != nil {
				return err
			}
			tasks = append(tasks, task)
		}
		return store.Audit(ctx, q, a, "image.delete", fleet.SubjectImage(id), image.Name, fmt.Sprintf("%d copies, files deleted: %t", len(copies), files))
	})
	return tasks, inUse(a, err)
}

// mayDelete refuses who may not delete the image: those who run the hosts may, and of a project's own its members.
func mayDelete(a fleet.Actor, v fleet.ImageView) error {
	if v.ProjectID == "" {
		return policy.Check(a, policy.InfraChange, "")
	}
	return policy.Check(a, policy.VMChange, v.ProjectID)
}

// inUse says no more than that to those who see no hosts: VMs of others and their pools are none of theirs.
func inUse(a fleet.Actor, err error) error {
	if fleet.CodeOf(err) != fleet.Conflict || store.SeesHosts(a) {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "It cannot be deleted now: disks stand on it as overlays, a copy of it is at work, or its host does not answer. Try again later, or ask an administrator.")
}

// queueFileDeletion asks a host that has the copy to delete its file; the library has it no more. What else keeps the file keeps the copy in the library:
// without it nobody would delete the file any more.
func queueFileDeletion(ctx context.Context, q *db.Queries, a fleet.Actor, copy query.CopyOn) (fleet.TaskID, error) {
	if len(copy.On.Hosts) == 0 {
		return "", fleet.Errorf(fleet.Conflict, "The file in %s cannot be deleted now: no host that is heard has it. Delete the image alone, and the file later.", copy.Where())
	}
	use, err := usedNow(ctx, q, *copy.On)
	if err != nil {
		return "", err
	}
	if ok, why := use.Allows(fleet.ActDelete); !ok {
		return "", fleet.Errorf(fleet.Conflict, "The file %s in %s is not deleted: %s", copy.Volume, copy.Where(), why)
	}
	subject := fleet.SubjectVolume(copy.Ref())
	task, err := store.Queue(ctx, q, a, db.JoinQueueParams{
		HostID: copy.On.Hosts[0].ID, Kind: fleet.VolumeDelete, Subject: subject, SubjectName: copy.Volume, Args: fleet.JobArgs{DeleteDisks: true, Volume: &fleet.VolumeOrder{}},
	})
	if err != nil {
		return task, err
	}
	return task, store.Audit(ctx, q, a, string(fleet.VolumeDelete), subject, copy.Volume, "a copy of an image, in "+copy.Where())
}
