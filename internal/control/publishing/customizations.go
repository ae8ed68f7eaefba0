package publishing

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// GrantCustomization publishes a fleet-wide customization spec to a project, or to all projects if project is empty.
func (p *Publishing) GrantCustomization(
	ctx context.Context, a fleet.Actor, id fleet.CustomizationID, project fleet.ProjectID,
) error {
	return p.changeGrant(ctx, a, customizationGrant(a, id), "grant", project)
}

// RevokeCustomization withdraws a customization spec. VMs created with it do not change.
func (p *Publishing) RevokeCustomization(
	ctx context.Context, a fleet.Actor, id fleet.CustomizationID, project fleet.ProjectID,
) error {
	return p.changeGrant(ctx, a, customizationGrant(a, id), "revoke", project)
}

func customizationGrant(a fleet.Actor, id fleet.CustomizationID) grant {
	return grant{
		subject: fleet.SubjectOf(fleet.TypeCustomization, id), noun: "customization spec", audited: "customization",
		id: string(id),
		lock: func(ctx context.Context, q *db.Queries) (string, error) {
			row, err := q.LockCustomization(ctx, id)
			if err != nil || row.ProjectID == nil {
				return row.Name, err
			}
			owner, err := q.ProjectName(ctx, *row.ProjectID)
			if err != nil {
				return "", err
			}
			return "", fleet.Errorf(
				fleet.Conflict, "The spec belongs to the project %s. Only fleet-wide specs are published.", owner)
		},
		insert: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.GrantCustomization(
				ctx, db.GrantCustomizationParams{CustomizationID: id, ProjectID: project, GrantedBy: a.Name})
		},
		remove: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.RevokeCustomization(ctx, db.RevokeCustomizationParams{CustomizationID: id, ProjectID: project})
		},
	}
}

// FillCustomizationGrants fills in the grants of the specs that the actor may see. id is that of the only spec, or empty
// for several.
func FillCustomizationGrants(
	ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.CustomizationID, specs []fleet.Customization,
) error {
	of := map[fleet.CustomizationID]*fleet.Customization{}
	for i := range specs {
		specs[i].Grants = []fleet.ProjectGrant{}
		of[specs[i].ID] = &specs[i]
	}
	rows, err := q.CustomizationGrants(ctx, db.CustomizationGrantsParams{
		ID: string(id), AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a),
	})
	for _, r := range rows {
		spec := of[r.CustomizationID]
		if spec == nil {
			continue // granted meanwhile
		}
		g := fleet.ProjectGrant{ProjectName: r.Project, At: r.GrantedAt}
		if r.ProjectID != nil {
			g.ProjectID = *r.ProjectID
		}
		if store.SeesHosts(a) {
			g.By = r.GrantedBy
		}
		spec.Grants = append(spec.Grants, g)
	}
	return err
}
