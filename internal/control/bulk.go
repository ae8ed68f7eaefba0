package control

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// KeepBulk keeps for a day what became of an action that the actor asked of many VMs.
func (c *Control) KeepBulk(ctx context.Context, a fleet.Actor, act fleet.Action, results fleet.BulkResults) (fleet.BulkID, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return "", err
	}
	if a.UserID == "" {
		return "", fleet.Errorf(fleet.Forbidden, "Only a person's outcome is kept.")
	}
	id := fleet.NewID[fleet.BulkID]()
	return id, dbError(c.q.AddBulk(ctx, db.AddBulkParams{ID: id, UserID: a.UserID, Action: act, Results: results}))
}

// GetBulk returns the outcome of a bulk action with its tasks as they stand now. Only who asked for it finds it.
func (c *Control) GetBulk(ctx context.Context, a fleet.Actor, id fleet.BulkID) (fleet.Bulk, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return fleet.Bulk{}, err
	}
	if err := checkID(id, "bulk action"); err != nil {
		return fleet.Bulk{}, err
	}
	row, err := c.q.GetBulk(ctx, db.GetBulkParams{ID: id, UserID: a.UserID})
	if err != nil {
		return fleet.Bulk{}, notFound(err, "bulk action")
	}
	b := fleet.Bulk{ID: row.ID, Action: row.Action, Results: row.Results, Tasks: map[fleet.JobID]fleet.Job{}}
	ids := []string{}
	for _, r := range row.Results {
		if r.Task != "" {
			ids = append(ids, string(r.Task))
		}
	}
	jobs, err := c.q.TasksByID(ctx, db.TasksByIDParams{Ids: ids, AllProjects: policy.AllProjects(a), Projects: projectsOf(a)})
	if err != nil {
		return fleet.Bulk{}, dbError(err)
	}
	for _, j := range jobs {
		b.Tasks[j.Job.ID] = jobOf(j.Job, j.HostName)
	}
	return b, nil
}
