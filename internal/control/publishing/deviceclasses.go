package publishing

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/deviceclass"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// GrantDeviceClass publishes a device class to a project, or to all projects if project is empty.
func (p *Publishing) GrantDeviceClass(
	ctx context.Context, a fleet.Actor, id fleet.DeviceClassID, project fleet.ProjectID,
) error {
	return p.changeGrant(ctx, a, deviceClassGrant(a, id), "grant", project)
}

// RevokeDeviceClass withdraws a device class. VMs keep their devices.
func (p *Publishing) RevokeDeviceClass(
	ctx context.Context, a fleet.Actor, id fleet.DeviceClassID, project fleet.ProjectID,
) error {
	return p.changeGrant(ctx, a, deviceClassGrant(a, id), "revoke", project)
}

func deviceClassGrant(a fleet.Actor, id fleet.DeviceClassID) grant {
	return grant{
		subject: fleet.SubjectOf(fleet.TypeDeviceClass, id), noun: "device class", audited: "device-class", id: string(id),
		lock: func(ctx context.Context, q *db.Queries) (string, error) {
			row, err := q.ShareLockDeviceClass(ctx, db.ShareLockDeviceClassParams{ID: id})
			return row.Name, err
		},
		insert: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.GrantDeviceClass(ctx, db.GrantDeviceClassParams{ClassID: id, ProjectID: project, GrantedBy: a.Name})
		},
		remove: func(ctx context.Context, q *db.Queries, project *fleet.ProjectID) (int64, error) {
			return q.RevokeDeviceClass(ctx, db.RevokeDeviceClassParams{ClassID: id, ProjectID: project})
		},
	}
}

// FillDeviceClassGrants fills in the grants of the classes that the actor may see. id is that of the only class, or empty
// for several.
func FillDeviceClassGrants(
	ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.DeviceClassID, classes []deviceclass.DeviceClass,
) error {
	of := map[fleet.DeviceClassID]*deviceclass.DeviceClass{}
	for i := range classes {
		of[classes[i].ID] = &classes[i]
	}
	rows, err := q.DeviceClassGrants(ctx, db.DeviceClassGrantsParams{
		ID: string(id), AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a),
	})
	for _, r := range rows {
		class := of[r.ClassID]
		if class == nil {
			continue // granted meanwhile
		}
		g := fleet.ProjectGrant{ProjectName: r.Project, At: r.GrantedAt}
		if r.ProjectID != nil {
			g.ProjectID = *r.ProjectID
		}
		if store.SeesHosts(a) {
			g.By = r.GrantedBy
		}
		class.Grants = append(class.Grants, g)
	}
	return err
}
