package control

import (
	"context"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/hostpower"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// SettleMaintenance records, for each host that is entering maintenance, what the ended children of its task have done,
// and that the host has entered maintenance once the task has ended and no VM runs but those left running.
func (c *Control) SettleMaintenance(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "maintenance", func(q *db.Queries) error {
		if err := q.CancelStaleHostPower(ctx, staleHostPower); err != nil {
			return err
		}
		hosts, err := q.HostsToDrain(ctx)
		if err != nil {
			return err
		}
		for _, id := range hosts {
			if _, err := q.LockHost(ctx, id); err != nil {
				return err
			}
			if err := settleHost(ctx, q, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// settleHost does the work of SettleMaintenance for a locked host. While the host is offline, the state of its VMs is
// unknown, so it does not enter maintenance.
func settleHost(ctx context.Context, q *db.Queries, id fleet.HostID) error {
	row, err := q.GetHost(ctx, id)
	if err != nil {
		return err
	}
	host := store.HostViewFromRow(row)
	m := host.Maintenance
	if m == nil || m.EnteredAt != nil {
		return nil
	}
	changed, err := recordMaintenanceResults(ctx, q, m)
	if err != nil {
		return err
	}
	ended := true
	if m.TaskID != "" {
		state, err := q.TaskState(ctx, m.TaskID)
		if err != nil {
			return err
		}
		ended = state == "" || fleet.JobState(state).IsFinal()
	}
	if ended && host.Phase == fleet.HostOnline {
		remaining, err := hostpower.UndecidedVMs(ctx, q, id, *m)
		if err != nil {
			return err
		}
		moving, err := q.HostTransfers(ctx, id) // a VM may be on its way to the host
		if err != nil {
			return err
		}
		if len(remaining) == 0 && moving == 0 {
			m.EnteredAt, changed = &row.Now, true
			if err := store.Audit(ctx, q, fleet.SystemActor, "host.inMaintenance", fleet.SubjectHost(id), host.Name, "requested by "+m.By); err != nil {
				return err
			}
		}
	}
	if !changed {
		return nil
	}
	return q.SetMaintenance(ctx, db.SetMaintenanceParams{ID: id, Maintenance: m})
}

// MaintenanceProgress returns how far the maintenance of a host is. Without maintenance it only
// lists the VMs that a NoExecute taint could not move.
func (c *Control) MaintenanceProgress(ctx context.Context, a fleet.Actor, id fleet.HostID) (out maintenance.Progress, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return out, err
	}
	host, err := c.GetHost(ctx, a, id)
	if err != nil {
		return out, err
	}
	if slices.ContainsFunc(host.Spec.Taints, func(t fleet.Taint) bool { return t.Effect == fleet.NoExecute }) {
		stuck, err := c.store.StuckEvictions(ctx, id)
		if err != nil {
			return out, store.UserError(err)
		}
		for _, vm := range stuck {
			out.Tainted = append(out.Tainted, maintenance.Blocker{ID: vm.ID, Name: vm.Name, Managed: true, Reason: vm.Reason})
		}
	}
	if host.Maintenance == nil {
		return out, nil
	}
	m, failed := *host.Maintenance, map[fleet.Subject]string{}
	if m.TaskID != "" {
		task, err := store.GetTask(ctx, c.store.Queries, fleet.SystemActor, m.TaskID)
		switch {
		case err == nil:
			task = store.RedactTask(a, task)
			out.Task = &task
		case fleet.CodeOf(err) != fleet.NotFound:
			return out, err
		}
		children, err := c.store.EndedChildren(ctx, &m.TaskID)
		if err != nil {
			return out, store.UserError(err)
		}
		for _, t := range children {
			if failed[t.Subject] = t.Error; t.State == fleet.JobCancelled { // each job of the child has the same error
				failed[t.Subject], _, _ = strings.Cut(t.Error, ". ")
				failed[t.Subject] = strings.TrimSuffix(failed[t.Subject], ".") + "."
			}
		}
	}
	running, err := c.store.VMsRunningOn(ctx, id)
	if err != nil {
		return out, store.UserError(err)
	}
	for _, vm := range running {
		b := maintenance.Blocker{ID: vm.ID, Name: vm.Name, Managed: vm.Managed}
		if m.LeavesRunning(vm.ID) {
			out.Left = append(out.Left, b)
			continue
		}
		subject := fleet.SubjectVM(vm.ID)
		if !vm.Managed {
			subject = fleet.SubjectDiscoveredVM(id, vm.ID)
		}
		b.Reason = failed[subject]
		out.Remaining = append(out.Remaining, b)
	}
	return out, nil
}
