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
	"quantix/internal/template"
	"quantix/internal/vmcopy"
)

// TemplateSource is the source of a template version.
type TemplateSource struct {
	VMID     fleet.VMID `json:"vmId" doc:"The source VM; the template belongs to its project"`
	OfImages bool       `json:"ofImages,omitempty" doc:"Use the library images from which the VM's disks were made, not copies of the disks. The VM may then be running"`
	Note     string     `json:"note,omitempty" doc:"A note about the version"`
}

// NewTemplate is the input of AddTemplate. The template belongs to the VM's project. Other projects can use it only
// with a grant.
type NewTemplate struct {
	Name        string        `json:"name"`
	Description string        `json:"description,omitempty"`
	OS          fleet.OSFacts `json:"os,omitzero"`
	TemplateSource
}

// EditTemplate is the input of Control.EditTemplate. nil fields do not change.
type EditTemplate struct {
	Name        *string        `json:"name,omitempty"`
	Description *string        `json:"description,omitempty"`
	OS          *fleet.OSFacts `json:"os,omitempty"`
}

// AddTemplate makes a template from a VM. In the returned task the host copies the VM's disks to images. The task is
// zero for a VM without disks, or if the template uses existing images.
func (c *Control) AddTemplate(ctx context.Context, a fleet.Actor, in NewTemplate) (fleet.TemplateID, fleet.Task, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return "", fleet.Task{}, err
	}
	var checks fleet.Checks
	template.CheckName(&checks, "name", in.Name)
	fleet.CheckDescription(&checks, "description", in.Description)
	in.OS.Check(&checks, "os")
	in.checkFields(&checks)
	if err := checks.Err(); err != nil {
		return "", fleet.Task{}, err
	}
	id := fleet.NewID[fleet.TemplateID]()
	task, err := c.createTemplateVersion(ctx, a, in.TemplateSource, func(q *db.Queries, vm fleet.VMView) (db.Template, error) {
		n, err := q.CountProjectTemplates(ctx, string(vm.ProjectID))
		switch {
		case err != nil:
			return db.Template{}, err
		case n >= template.MaxPerProject:
			return db.Template{}, fleet.Errorf(fleet.Conflict, "The project has %d templates, which is the maximum. Delete some first.", n)
		}
		t := db.AddTemplateParams{ID: id, ProjectID: vm.ProjectID, Name: in.Name, Description: in.Description, Os: in.OS, CreatedBy: a.Name}
		if err := q.AddTemplate(ctx, t); err != nil {
			return db.Template{}, templateNameTakenError(err, in.Name, vm.ProjectName)
		}
		if _, err := q.GrantTemplate(ctx, db.GrantTemplateParams{TemplateID: id, ProjectID: &vm.ProjectID, GrantedBy: a.Name}); err != nil {
			return db.Template{}, err
		}
		return db.Template{ID: id, ProjectID: vm.ProjectID, Name: in.Name, Os: in.OS}, store.Audit(ctx, q, a, "template.create", template.Subject(id), in.Name, "from VM "+vm.Name)
	})
	if err != nil {
		return "", task, err
	}
	return id, task, nil
}

// AddTemplateVersion adds a version to a template and makes it the newest. The VM must be in the template's project.
func (c *Control) AddTemplateVersion(ctx context.Context, a fleet.Actor, id fleet.TemplateID, in TemplateSource) (fleet.Task, error) {
	v, err := c.getChangeableTemplate(ctx, a, id)
	if err != nil {
		return fleet.Task{}, err
	}
	var checks fleet.Checks
	if in.checkFields(&checks); checks.Err() != nil {
		return fleet.Task{}, checks.Err()
	}
	return c.createTemplateVersion(ctx, a, in, func(q *db.Queries, vm fleet.VMView) (db.Template, error) {
		t, err := q.LockTemplate(ctx, id)
		switch {
		case err != nil:
			return t, store.NotFoundError(err, "template")
		case vm.ProjectID != t.ProjectID:
			return t, fleet.Errorf(fleet.Conflict, "The template belongs to the project %s, and the VM %s to another project. Make a new template from the VM.", v.ProjectName, vm.Name)
		}
		return t, store.Audit(ctx, q, a, "template.version", template.Subject(id), t.Name, "from VM "+vm.Name)
	})
}

func (in TemplateSource) checkFields(c *fleet.Checks) {
	if in.VMID == "" {
		c.Add("vmId", "Choose the source VM.")
	}
	if len(in.Note) > 500 {
		c.Add("note", "A note has at most 500 bytes.")
	}
	fleet.CheckDescription(c, "note", in.Note)
}

// createTemplateVersion calls insertOrLock, which inserts or locks the template, and adds a version made from the VM to
// the template.
func (c *Control) createTemplateVersion(ctx context.Context, a fleet.Actor, in TemplateSource, insertOrLock func(*db.Queries, fleet.VMView) (db.Template, error)) (task fleet.Task, err error) {
	was, err := query.VMWithPools(ctx, c.Queries, a, in.VMID)
	if err != nil {
		return task, err
	}
	if err := policy.Check(a, policy.VMChange, was.ProjectID); err != nil {
		return task, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		task = fleet.Task{}
		if err := q.LockPools(ctx, sortedPoolIDs(was.Spec)); err != nil { // pools before VMs: the global lock order
			return err
		}
		vm, err := store.LockVM(ctx, q, a, in.VMID, policy.VMChange)
		switch {
		case err != nil:
			return err
		case vm.Generation != was.Generation:
			return fleet.Errorf(fleet.Conflict, "The VM %s was changed meanwhile. Check the VM and try again.", vm.Name)
		}
		allows := vmcopy.AllowsTemplate
		if in.OfImages {
			allows = vmcopy.AllowsTemplateOfImages
		}
		if ok, why := allows(vm); !ok {
			return fleet.RefusalError(why)
		}
		t, err := insertOrLock(q, vm)
		if err != nil {
			return err
		}
		task, err = addTemplateVersion(ctx, q, a, t, vm, in)
		return err
	})
	return store.RedactTask(a, task), err
}

// getChangeableTemplate returns a template that the actor may change: as a member of its project or as an
// administrator.
func (c *Control) getChangeableTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID) (template.View, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return template.View{}, err
	}
	v, err := c.GetTemplate(ctx, a, id)
	if err != nil {
		return v, err
	}
	return v, policy.CheckOwner(a, v.ProjectID) // empty if the actor does not see the template's project
}

// EditTemplate changes a template's name and description.
func (c *Control) EditTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID, in EditTemplate) error {
	v, err := c.getChangeableTemplate(ctx, a, id)
	if err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		t, err := q.LockTemplate(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "template")
		}
		var checks fleet.Checks
		if in.Name != nil && *in.Name != t.Name {
			t.Name = *in.Name
			template.CheckName(&checks, "name", t.Name)
		}
		if in.Description != nil {
			t.Description = *in.Description
			fleet.CheckDescription(&checks, "description", t.Description)
		}
		if in.OS != nil {
			t.Os = *in.OS
			t.Os.Check(&checks, "os")
		}
		if err := checks.Err(); err != nil {
			return err
		}
		if err := q.ChangeTemplate(ctx, db.ChangeTemplateParams{ID: id, Name: t.Name, Description: t.Description, Os: t.Os}); err != nil {
			return templateNameTakenError(err, t.Name, v.ProjectName)
		}
		if err := q.RenameTemplateImages(ctx, db.RenameTemplateImagesParams{TemplateID: &id, Name: t.Name, Os: t.Os}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "template.edit", template.Subject(id), t.Name, strings.TrimSpace("name "+t.Name+", "+t.Os.Text()))
	})
}

// GrantTemplate publishes a template with its images to a project, or to all projects if project is empty.
func (c *Control) GrantTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID, project fleet.ProjectID) error {
	return c.setTemplateGrant(ctx, a, id, project, "template.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantTemplate(ctx, db.GrantTemplateParams{TemplateID: id, ProjectID: of, GrantedBy: a.Name})
	})
}

// RevokeTemplate ends the publication of a template to a project, or the publication to all projects if project is
// empty. VMs created from it stay.
func (c *Control) RevokeTemplate(ctx context.Context, a fleet.Actor, id fleet.TemplateID, project fleet.ProjectID) error {
	return c.setTemplateGrant(ctx, a, id, project, "template.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeTemplate(ctx, db.RevokeTemplateParams{TemplateID: id, ProjectID: of})
	})
}

func (c *Control) setTemplateGrant(ctx context.Context, a fleet.Actor, id fleet.TemplateID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "template"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		images, err := q.LockTemplateImages(ctx, &id) // images before the template: the lock order of VM creation
		if err != nil {
			return err
		}
		t, err := q.LockTemplate(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "template")
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return store.Audit(ctx, q, a, action, template.Subject(id), t.Name, fmt.Sprintf("%s, with %d images", name, len(images)))
	})
}

func templateNameTakenError(err error, name, project string) error {
	return store.NameTakenError(err, "template_name_taken", "A template named %q exists in %s already. Add a version to it, or choose another name.", name, project)
}
