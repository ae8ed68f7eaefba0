package alarms

import (
	"context"
	"encoding/json"
	"time"

	"quantix/internal/alarm"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/quota"
)

const (
	// softLimitsRead is up to how many projects with soft limits are counted at each evaluation. More of them are counted
	// at softLimitInterval, because a count reads all VMs of a project.
	softLimitsRead    = 100
	softLimitInterval = time.Minute
)

// softLimits has the last result of projectsAboveSoftLimits. Only evaluations use it, which never run at the same time.
type softLimits struct {
	readAt time.Time
	found  []query.AlarmFinding
}

// projectsAboveSoftLimits returns a finding for each soft limit that a project exceeds.
func (f *findings) projectsAboveSoftLimits(ctx context.Context) ([]query.AlarmFinding, error) {
	last := &f.alarms.softLimits
	projects, err := f.q.SoftLimitedProjects(ctx)
	if err != nil || len(projects) > softLimitsRead && time.Since(last.readAt) < softLimitInterval {
		return last.found, err
	}
	ids := make([]fleet.ProjectID, len(projects))
	for i, p := range projects {
		ids[i] = p.ProjectID
	}
	rows, err := f.q.ProjectUses(ctx, store.ToStrings(ids))
	if err != nil {
		return nil, err
	}
	used := make(map[fleet.ProjectID]quota.Usage, len(rows))
	for _, r := range rows {
		var u quota.Usage
		if err := json.Unmarshal(r.Used, &u); err != nil {
			return nil, err
		}
		used[r.ProjectID] = u
	}
	var out []query.AlarmFinding
	for _, p := range projects {
		for _, l := range quota.Lines(p.Limits, used[p.ProjectID], quota.Usage{}) {
			if l.Soft == nil || l.Used <= *l.Soft {
				continue
			}
			id, subject := p.ProjectID, fleet.SubjectOf(fleet.TypeProject, p.ProjectID)
			cause := l.Label + ": above the soft limit"
			if l.Pool != "" {
				cause = l.Label + " in a pool: above the soft limit"
			}
			text := cause + " (" + l.Unit.Text(l.Used) + " of " + l.Unit.Text(*l.Soft) + ")"
			out = append(out, query.AlarmFinding{
				Finding: alarm.Finding{Key: alarm.Key{Subject: subject, Cause: cause}, SubjectName: p.Name, ProjectID: &id, Text: text, Plain: cause, Count: 1},
				Scope:   alarm.Object{Subject: subject, ProjectID: &id},
			})
		}
	}
	*last = softLimits{time.Now(), out}
	return out, nil
}
