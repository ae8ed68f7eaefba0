package query

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var discoveredByName = sortOrder[fleet.DiscoveredVM]{
	[]sortColumn{textColumn("f.name"), textColumn("f.id"), textColumn("f.host_id")},
	func(f fleet.DiscoveredVM) []string { return []string{f.Name, string(f.ID), string(f.HostID)} },
}

var discoveredSortOrders = sortOrders[fleet.DiscoveredVM]{
	"name": discoveredByName,
	"host": discoveredByName.withFirstColumn(textColumn("h.name"), func(f fleet.DiscoveredVM) string { return f.HostName }),
}

// discoveredFilter are the conditions of fleet.DiscoveredKeys. vm_phase computes the state with the generation 1 for
// the spec and the host, so that no change appears pending.
var discoveredFilter = listFilter{
	"name":   lowerTextCondition("lower(f.name)"),
	"host":   rowNameCondition("f.host_id", "hosts"),
	"state":  exactTextCondition("vm_phase('', f.status, 1, 1, NULL, " + reportsFreshSQL + " OR " + poweredOffSQL + " AND f.status->>'power' = 'stopped')"),
	"vcpu":   numberCondition("(f.status->>'cpus')::bigint", 1),
	"memory": numberCondition("(f.status->>'memoryMiB')::bigint", mebibyte),
	"uuid":   lowerTextCondition("f.id"),

	"managed": managedCondition(false),
}

// managedCondition returns the condition of the filter key "managed" in a list of managed or unmanaged VMs. A list has
// only VMs of one kind, so a filter for the other kind is an error that names the right list.
func managedCondition(managed bool) filterCondition {
	return func(f filterScope, t filter.Term) error {
		for _, m := range t.Alternatives {
			value, _ := m.ExactText()
			if (value == "yes") != t.Not == managed {
				return nil
			}
		}
		var c fleet.Checks
		if managed {
			c.Add("filter", "This list has only VMs of Quantix. VMs that Quantix does not manage stand in the list of discovered VMs.")
		} else {
			c.Add("filter", "This list has only VMs that Quantix does not manage. VMs of Quantix stand in the list of VMs.")
		}
		return c.Err()
	}
}

// ListDiscoveredVMs returns one page of domains that Quantix does not manage. They belong to no project: only global
// roles see them.
func (b *Queries) ListDiscoveredVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.DiscoveredVM], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.DiscoveredVM]{}, err
	}
	return b.listDiscoveredVMs(ctx, a, q, new(statementBuilder))
}

func (b *Queries) listDiscoveredVMs(ctx context.Context, a fleet.Actor, q fleet.Query, s *statementBuilder) (fleet.Page[fleet.DiscoveredVM], error) {
	p, terms, err := discoveredSortOrders.parseQuery(q, "name", fleet.DiscoveredKeys)
	if err != nil {
		return fleet.Page[fleet.DiscoveredVM]{}, err
	}
	if _, err := b.applyFilter(ctx, s, a, discoveredFilter, terms); err != nil {
		return fleet.Page[fleet.DiscoveredVM]{}, err
	}
	tail := p.applyCursor(s)
	items, err := collectRows(ctx, b, `SELECT f.host_id, f.id, f.name, f.status, h.name, s.looked_at, s.fresh_for, maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at), now()
		FROM found_vms f JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id`+s.whereClause()+tail, s,
		func(row pgx.CollectableRow) (fleet.DiscoveredVM, error) {
			var r db.FoundVM
			var host string
			var m fleet.MaintenanceState
			var seen *time.Time
			var freshFor *time.Duration
			var now time.Time
			err := row.Scan(&r.HostID, &r.ID, &r.Name, &r.Status, &host, &seen, &freshFor, &m, &now)
			return DiscoveredVMView(r, host, fleet.NewReportTime(seen, freshFor), m, now), err
		})
	return p.buildPage(items), err
}

// GetDiscoveredVM returns one domain that Quantix does not manage.
func (b *Queries) GetDiscoveredVM(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID) (fleet.DiscoveredVM, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	if err := store.CheckID(host, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	r, err := b.store.GetDiscoveredVM(ctx, db.GetDiscoveredVMParams{HostID: host, ID: id})
	if err != nil {
		return fleet.DiscoveredVM{}, store.NotFoundError(err, "VM")
	}
	return DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now), nil
}

// DiscoveredVMView returns the view of a discovered VM's row at time now. m is the maintenance of its host.
func DiscoveredVMView(r db.FoundVM, host string, seen *fleet.ReportTime, m fleet.MaintenanceState, now time.Time) fleet.DiscoveredVM {
	if seen != nil {
		seen.PoweredOff = m == fleet.MaintenancePoweredOff
	}
	f := fleet.DiscoveredVM{HostMaintenance: m, ID: r.ID, HostID: r.HostID, HostName: host, Name: r.Name, Status: r.Status, SeenAt: seen}
	f.Phase = f.PhaseAt(seen, now)
	return f
}
