package recycling

import (
	"context"

	"quantix/db"
	"quantix/internal/bin"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func settings(ctx context.Context, q *db.Queries, project fleet.ProjectID) (bin.ProjectSettings, error) {
	row, err := q.BinSettings(ctx, string(project))
	if err != nil {
		return bin.ProjectSettings{}, store.UserError(err)
	}
	out := bin.ProjectSettings{Fleet: bin.Settings{Days: int(row.Days), Counted: row.Counted}, Own: bin.Overrides{Counted: row.OwnCounted}}
	out.Settings = out.Fleet
	if row.OwnDays != nil {
		out.Own.Days = new(int(*row.OwnDays))
		out.Days = *out.Own.Days
	}
	if row.OwnCounted != nil {
		out.Counted = *row.OwnCounted
	}
	return out, nil
}

// BinSettings returns the settings of the recycle bin that apply to a project; without a project, those of the fleet.
func (r *Recycling) BinSettings(ctx context.Context, a fleet.Actor, project fleet.ProjectID) (bin.ProjectSettings, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return bin.ProjectSettings{}, store.UnknownProjectError(err)
	}
	return settings(ctx, r.store.Queries, project)
}

// SetFleetBin changes the settings of the recycle bin for the fleet. VMs in the recycle bin keep the time of their purge.
func (r *Recycling) SetFleetBin(ctx context.Context, a fleet.Actor, to bin.Settings) error {
	return r.set(ctx, a, "", bin.Overrides{Days: &to.Days, Counted: &to.Counted})
}

// SetProjectBin changes a project's own settings of the recycle bin. VMs in the recycle bin keep the time of their purge.
func (r *Recycling) SetProjectBin(ctx context.Context, a fleet.Actor, project fleet.ProjectID, to bin.Overrides) (bin.ProjectSettings, error) {
	if err := r.set(ctx, a, project, to); err != nil {
		return bin.ProjectSettings{}, err
	}
	return r.BinSettings(ctx, a, project)
}

// set stores settings of a project, or of the fleet if project is empty.
func (r *Recycling) set(ctx context.Context, a fleet.Actor, project fleet.ProjectID, to bin.Overrides) error {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return err
	}
	var checks fleet.Checks
	params := db.SetBinSettingsParams{Counted: to.Counted}
	if to.Days != nil {
		bin.CheckDays(&checks, *to.Days)
		params.Days = new(int32(*to.Days))
	}
	if err := checks.Err(); err != nil {
		return err
	}
	return r.store.Tx(ctx, func(q *db.Queries) error {
		subject, name := fleet.Subject(""), "fleet"
		if project != "" {
			var err error
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFoundError(err, "project")
			}
			subject, params.ProjectID = fleet.Subject("project:"+string(project)), (*string)(&project)
		}
		if err := q.SetBinSettings(ctx, params); err != nil {
			return err
		}
		if err := q.CountRecycledVMs(ctx, string(project)); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "bin.settings", subject, name, to.Text())
	})
}
