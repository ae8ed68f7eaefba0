package store

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/fleet"
)

// NameDeviceClasses sets the names of the device classes in the specs. Classes that the actor may not see get no name.
func NameDeviceClasses(ctx context.Context, q *db.Queries, a fleet.Actor, specs ...*fleet.VMSpec) error {
	var ids []string
	for _, s := range specs {
		for _, d := range s.DeviceClasses {
			ids = append(ids, string(d.ClassID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := q.DeviceClassNames(ctx, db.DeviceClassNamesParams{Ids: ids, AllClasses: SeesHosts(a), Projects: VisibleProjects(a)})
	if err != nil {
		return UserError(err)
	}
	names := map[fleet.DeviceClassID]string{}
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	for _, s := range specs {
		s.DeviceClasses = slices.Clone(s.DeviceClasses)
		for i, d := range s.DeviceClasses {
			s.DeviceClasses[i].ClassName = names[d.ClassID]
		}
	}
	return nil
}
