package control

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/publishing"
	"quantix/internal/control/store"
	"quantix/internal/firstboot"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// FirstBootDetails is a VM's first-boot data as shown to people who may change the VM.
type FirstBootDetails struct {
	fleet.VMFirstBoot
	Content fleet.FirstBoot `json:"content"`
	SetAt   time.Time       `json:"setAt"`
	SetBy   string          `json:"setBy"`
}

// CustomizationInput is the input for a new or changed customization spec.
type CustomizationInput struct {
	ProjectID    fleet.ProjectID `json:"projectId,omitempty"` // of a new spec; empty: fleet-wide
	Public       bool            `json:"public,omitempty" doc:"publish a new fleet-wide spec to all projects"`
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	FirstBoot    fleet.FirstBoot `json:"firstBoot"`
	IfGeneration int64           `json:"ifGeneration,omitempty"` // expected generation; 0: not checked
}

func customizationLabel(id fleet.CustomizationID) string { return "customization " + string(id) }

func (in CustomizationInput) checkFields() error {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	fleet.CheckDescription(&checks, "description", in.Description)
	firstboot.Check(&checks, "firstBoot", in.FirstBoot, true)
	names := firstboot.UserVariables(in.FirstBoot)
	if len(names) > firstboot.MaxVars {
		checks.Add("firstBoot", "At most %d variables.", firstboot.MaxVars)
	}
	return checks.Err()
}

// CreateCustomization stores a new customization spec. No VM changes.
func (c *Control) CreateCustomization(ctx context.Context, a fleet.Actor, in CustomizationInput) (fleet.Customization, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Customization{}, err
	}
	if err := policy.CheckOwner(a, in.ProjectID); err != nil {
		return fleet.Customization{}, err
	}
	if in.Public && in.ProjectID != "" {
		var checks fleet.Checks
		checks.Add("public", "Only fleet-wide specs are published. Leave out the project, or do not publish the spec.")
		return fleet.Customization{}, checks.Err()
	}
	id := fleet.NewID[fleet.CustomizationID]()
	boot, key, sealed, err := c.sealCustomization(id, in, fleet.FirstBoot{})
	if err != nil {
		return fleet.Customization{}, err
	}
	add := db.AddCustomizationParams{
		ID: id, Name: in.Name, Description: in.Description, Kind: boot.Kind, Variables: firstboot.UserVariables(boot), ByKey: key, Sealed: sealed, ChangedBy: a.Name,
	}
	if add.Variables == nil {
		add.Variables = []string{}
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFoundError(err, "project")
			}
			add.ProjectID = &in.ProjectID
		}
		if err := q.AddCustomizationsAlone(ctx, string(in.ProjectID)); err != nil {
			return err
		}
		n, err := q.CountCustomizations(ctx, (*string)(add.ProjectID))
		if err != nil {
			return err
		}
		if n >= fleet.MaxCustomizations {
			return fleet.Errorf(fleet.Conflict, "There are %d customization specs, which is the maximum. Delete some first.", n)
		}
		if err := q.AddCustomization(ctx, add); err != nil {
			return customizationNameTakenError(err, in.Name)
		}
		detail := boot.Kind.Text()
		if in.Public {
			detail += ", published to all projects"
			_, err = q.GrantCustomization(ctx, db.GrantCustomizationParams{CustomizationID: id, GrantedBy: a.Name})
			if err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "customization.create", fleet.SubjectOf(fleet.TypeCustomization, id), in.Name, detail)
	})
	if err != nil {
		return fleet.Customization{}, err
	}
	return c.GetCustomization(ctx, a, id)
}

// sealCustomization checks and encrypts the input. Passwords that the input leaves unchanged come from old.
func (c *Control) sealCustomization(id fleet.CustomizationID, in CustomizationInput, old fleet.FirstBoot) (boot fleet.FirstBoot, key string, sealed []byte, err error) {
	in.FirstBoot = in.FirstBoot.WithoutBOM().WithUnchangedPasswords(old)
	if err := in.checkFields(); err != nil {
		return boot, "", nil, err
	}
	if boot, err = firstboot.HashPasswords(in.FirstBoot); err != nil {
		return boot, "", nil, err
	}
	key, sealed, err = secretSealer{c.opts.Vault}.sealJSON(customizationLabel(id), boot)
	return boot, key, sealed, err
}

func customizationNameTakenError(err error, name string) error {
	return store.NameTakenError(err, "customization_name_taken", "A customization spec named %q exists already. Choose another name.", name)
}

// UpdateCustomization changes a spec. VMs created with it do not change.
func (c *Control) UpdateCustomization(ctx context.Context, a fleet.Actor, id fleet.CustomizationID, in CustomizationInput) (fleet.Customization, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Customization{}, err
	}
	err := c.lockCustomization(ctx, a, id, func(q *db.Queries, row db.Customization) error {
		if in.IfGeneration != 0 && in.IfGeneration != row.Generation {
			return store.ChangedMeanwhileError("customization spec", row.Generation, in.IfGeneration)
		}
		var had fleet.FirstBoot
		err := secretSealer{c.opts.Vault}.openJSON(customizationLabel(id), row.ByKey, row.Sealed, &had)
		if err != nil && fleet.CodeOf(err) != fleet.Conflict {
			return err
		}
		boot, key, sealed, err := c.sealCustomization(id, in, had)
		if err != nil {
			return err
		}
		to := db.ChangeCustomizationParams{
			ID: id, Name: in.Name, Description: in.Description, Kind: boot.Kind, Variables: firstboot.UserVariables(boot), ByKey: key, Sealed: sealed, ChangedBy: a.Name,
		}
		if to.Variables == nil {
			to.Variables = []string{}
		}
		if err := q.ChangeCustomization(ctx, to); err != nil {
			return customizationNameTakenError(err, in.Name)
		}
		return store.Audit(ctx, q, a, "customization.edit", fleet.SubjectOf(fleet.TypeCustomization, id), in.Name, boot.Kind.Text())
	})
	if err != nil {
		return fleet.Customization{}, err
	}
	return c.GetCustomization(ctx, a, id)
}

// DeleteCustomization removes a spec. VMs created with it do not change.
func (c *Control) DeleteCustomization(ctx context.Context, a fleet.Actor, id fleet.CustomizationID) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	return c.lockCustomization(ctx, a, id, func(q *db.Queries, row db.Customization) error {
		if err := q.DeleteCustomization(ctx, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "customization.delete", fleet.SubjectOf(fleet.TypeCustomization, id), row.Name, row.Kind.Text())
	})
}

// lockCustomization locks a spec that the actor may change, and calls do with it in the same transaction.
func (c *Control) lockCustomization(ctx context.Context, a fleet.Actor, id fleet.CustomizationID, do func(*db.Queries, db.Customization) error) error {
	if err := store.CheckID(id, "customization spec"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		if _, err := getCustomization(ctx, q, a, id); err != nil {
			return err
		}
		row, err := q.LockCustomization(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "customization spec")
		}
		if err := policy.CheckOwner(a, customizationProject(row)); err != nil {
			return err
		}
		return do(q, row)
	})
}

func customizationProject(row db.Customization) fleet.ProjectID {
	if row.ProjectID == nil {
		return ""
	}
	return *row.ProjectID
}

// getCustomization returns a spec that the actor sees.
func getCustomization(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.CustomizationID) (db.GetCustomizationRow, error) {
	all, projects := policy.SeesAllProjects(a), store.VisibleProjects(a)
	row, err := q.GetCustomization(ctx, db.GetCustomizationParams{ID: id, AllProjects: all, Projects: projects})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, fleet.Errorf(fleet.NotFound, "There is no such customization spec.")
	}
	return row, err
}

// GetCustomization returns one spec. Its content is included only for people who may change it.
func (c *Control) GetCustomization(ctx context.Context, a fleet.Actor, id fleet.CustomizationID) (fleet.Customization, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Customization{}, err
	}
	if err := store.CheckID(id, "customization spec"); err != nil {
		return fleet.Customization{}, err
	}
	row, err := getCustomization(ctx, c.store.Queries, a, id)
	if err != nil {
		return fleet.Customization{}, store.UserError(err)
	}
	out := customizationFromRow(row.Customization, row.ProjectName)
	one := []fleet.Customization{out}
	if err := publishing.FillCustomizationGrants(ctx, c.store.Queries, a, id, one); err != nil {
		return out, store.UserError(err)
	}
	out = one[0]
	if refused := policy.CheckOwner(a, out.ProjectID); refused != nil {
		return out, nil //nolint:nilerr // people who may not change the spec see it without content
	}
	var boot fleet.FirstBoot
	if err := (secretSealer{c.opts.Vault}).openJSON(customizationLabel(id), row.Customization.ByKey, row.Customization.Sealed, &boot); err != nil {
		if fleet.CodeOf(err) == fleet.Conflict {
			out.Unreadable, err = err.Error(), nil // an unreadable spec can still be deleted
		}
		return out, err
	}
	boot = boot.WithoutPasswordHashes()
	out.FirstBoot = &boot
	return out, nil
}

// ListCustomizations returns the specs of the actor's projects and those published to them by name, without their content.
func (c *Control) ListCustomizations(ctx context.Context, a fleet.Actor) ([]fleet.Customization, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	all, projects := policy.SeesAllProjects(a), store.VisibleProjects(a)
	const most = 5000
	rows, err := c.store.ListCustomizations(ctx, db.ListCustomizationsParams{AllProjects: all, Projects: projects, Most: most})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]fleet.Customization, 0, len(rows))
	for _, row := range rows {
		out = append(out, customizationFromRow(row.Customization, row.ProjectName))
	}
	err = publishing.FillCustomizationGrants(ctx, c.store.Queries, a, "", out)
	return out, store.UserError(err)
}

func customizationFromRow(row db.Customization, project string) fleet.Customization {
	return fleet.Customization{
		ID: row.ID, ProjectID: customizationProject(row), ProjectName: project, Name: row.Name, Description: row.Description, Kind: row.Kind,
		Variables: row.Variables, Generation: row.Generation, ChangedAt: row.ChangedAt, ChangedBy: row.ChangedBy,
	}
}

// openCustomization returns the content of a spec that a VM of the project may use: the project's own, or one that is
// published to the project. Actors who may change infrastructure may use any fleet-wide spec.
func (s secretSealer) openCustomization(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, id fleet.CustomizationID) (fleet.FirstBoot, error) {
	var out fleet.FirstBoot
	none := func() error {
		var checks fleet.Checks
		checks.Add("firstBoot.customizationId", "There is no such customization spec, or none that VMs of the project may use. Choose another.")
		return checks.Err()
	}
	if !fleet.IsID(string(id)) {
		return out, none()
	}
	usable := db.GetCustomizationParams{ID: id, AllProjects: policy.May(a, policy.InfraChange, ""), Projects: []string{string(project)}}
	row, err := q.GetCustomization(ctx, usable)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, none()
	}
	if err != nil {
		return out, err
	}
	if of := customizationProject(row.Customization); of != "" && of != project {
		return out, none()
	}
	err = s.openJSON(customizationLabel(id), row.Customization.ByKey, row.Customization.Sealed, &out)
	return out, err
}
