package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
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
		return store.Audit(ctx, q, a, "template."+string(act), fleet.SubjectTemplate(v.ID), v.Name, fmt.Sprintf("version %d", version.Number))
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
	copies, ids, err := c.copiesOwnedBy(ctx, v, version.ID)
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
		return store.Audit(ctx, q, a, "template.version.delete", fleet.SubjectTemplate(v.ID), v.Name, fmt.Sprintf("version %d, %d files", version.Number, len(tasks)))
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
	copies, _, err := c.copiesOwnedBy(ctx, v, "")
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
		return store.Audit(ctx, q, a, "template.delete", fleet.SubjectTemplate(id), v.Name, fmt.Sprintf("%d versions, %d files", len(v.Versions), len(tasks)))
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

// getTemplateVersion returns the named version of a template that the actor may change, if the version allows the
// action.
func (c *Control) getTemplateVersion(ctx context.Context, a fleet.Actor, of TemplateVersion, act fleet.Action) (fleet.TemplateView, fleet.TemplateVersion, error) {
	v, err := c.getChangeableTemplate(ctx, a, of.TemplateID)
	if err != nil {
		return v, fleet.TemplateVersion{}, err
	}
	i := slices.IndexFunc(v.Versions, func(x fleet.TemplateVersion) bool { return x.ID == of.VersionID })
	if i < 0 {
		return v, fleet.TemplateVersion{}, fleet.Errorf(fleet.NotFound, "The template has no such version.")
	}
	if ok, why := v.Versions[i].Allows(act); !ok {
		return v, v.Versions[i], fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return v, v.Versions[i], nil
}

// copiesOwnedBy returns the copies of images made for the version, or for any version if version is empty, and the ids
// of their image versions.
func (c *Control) copiesOwnedBy(ctx context.Context, v fleet.TemplateView, version fleet.TemplateVersionID) (query.Copies, []string, error) {
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
				if images[d.ImageID], err = c.CopiesOf(ctx, fleet.SystemActor, image); err != nil {
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

// checkTemplateRemovable locks the template with its images. It refuses while a copy backs disks or is in use by a
// host's job.
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
		if work, err := unfinishedVolumeWork(ctx, q, o.PoolID, o.Volume, o.HostID); err != nil || work != "" {
			return store.FirstErrorOf(err, func() error {
				return fleet.Errorf(fleet.Conflict, "The file %sis in use: %s. Wait until that has ended.", o.Volume, work)
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
