package control

import (
	"context"
	"errors"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
)

// EvictVMs migrates VMs away from hosts with NoExecute taints that they do not tolerate: live if they run, cold if they
// are off. At most maxBulkTransfers VMs of a host migrate at a time. For a VM that cannot migrate it records the reason.
// No VM is stopped.
func (c *Control) EvictVMs(ctx context.Context, a fleet.Actor) error {
	var due []db.VMsOnTaintedHostsRow
	err := c.store.RunPass(ctx, a, "evict VMs", func(q *db.Queries) (err error) {
		due, err = beginEvictions(ctx, q)
		return err
	})
	if err != nil || len(due) == 0 {
		return err
	}
	space, err := c.readMaintenanceSpace(ctx, a, false)
	if err != nil {
		return err
	}
	for _, r := range due { // an error of one VM does not stop the others
		err = errors.Join(err, c.evictVM(ctx, a, r, space))
	}
	return err
}

// beginEvictions records an attempt for each VM that is due, and returns these VMs. It forgets attempts for VMs that no
// taint evicts any more, and records the errors of failed migrations.
func beginEvictions(ctx context.Context, q *db.Queries) (due []db.VMsOnTaintedHostsRow, err error) {
	rows, err := q.VMsOnTaintedHosts(ctx)
	if err != nil {
		return nil, err
	}
	evicted := []string{}
	leaving := map[fleet.HostID]int{}
	for _, r := range rows {
		if r.Leaves {
			leaving[r.HostID]++
		}
	}
	for _, r := range rows {
		if len(fleet.VMPlacement{Tolerations: r.Tolerations}.Untolerated(r.HostSpec.Taints, fleet.NoExecute)) == 0 {
			continue
		}
		evicted = append(evicted, string(r.ID))
		switch {
		case r.Leaves:
		case r.Due && leaving[r.HostID] < maxBulkTransfers:
			leaving[r.HostID]++
			due = append(due, r)
			err = q.BeginEviction(ctx, db.BeginEvictionParams{VMID: r.ID, HostID: r.HostID})
		case r.Tries > 0 && r.Reason == "" && r.LastError != "":
			err = q.RefuseEviction(ctx, db.RefuseEvictionParams{VMID: r.ID, Reason: "The migration failed: " + r.LastError, Failed: true})
		}
		if err != nil {
			return nil, err
		}
	}
	return due, q.ForgetEvictions(ctx, evicted)
}

// evictVM requests the migration of a VM to the best host, or records why there is none.
func (c *Control) evictVM(ctx context.Context, a fleet.Actor, r db.VMsOnTaintedHostsRow, space *maintenance.Space) error {
	vm, err := query.VMWithPools(ctx, c.Queries, a, r.ID)
	if fleet.CodeOf(err) == fleet.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	plans, err := c.planMigrations(ctx, a, []fleet.VMView{vm}, false)
	if err != nil {
		return err
	}
	moves := maintenanceMigrations(vm, plans[0])
	space.AddPools(moves)
	best, reason, _ := takeBest(space, moves, vm.Spec, "")
	if best != nil {
		_, err := c.MigrateVM(ctx, a, r.ID, MigrateVM{HostID: best.HostID, PoolID: best.PoolID})
		switch code := fleet.CodeOf(err); {
		case err == nil || code == fleet.TooMany: // too many transfers: the next attempt follows
			return store.UserError(c.store.ClearEviction(ctx, r.ID))
		case code == "" || code == fleet.Unavailable:
			return err
		}
		reason = joinFieldErrors(err).Error()
	}
	return store.UserError(c.store.RefuseEviction(ctx, db.RefuseEvictionParams{VMID: r.ID, Reason: reason}))
}
