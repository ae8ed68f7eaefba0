package browse

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var foundOrders = orders[fleet.FoundVM]{
	"name": {[]column{textColumn("f.name"), textColumn("f.id"), textColumn("f.host_id")}, func(f fleet.FoundVM) []string {
		return []string{f.Name, string(f.ID), string(f.HostID)}
	}},
}

// ListFoundVMs returns one page of the domains that Quantix did not make. They are of no project: only global roles see them.
func (b *Browse) ListFoundVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.FoundVM], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.FoundVM]{}, err
	}
	return b.listFound(ctx, q, new(statement))
}

func (b *Browse) listFound(ctx context.Context, q fleet.Query, s *statement) (fleet.Page[fleet.FoundVM], error) {
	p, terms, err := foundOrders.asked(q, "name", fleet.FoundKeys)
	if err != nil {
		return fleet.Page[fleet.FoundVM]{}, err
	}
	for _, t := range terms {
		switch t.Key {
		case "name":
			s.not(t.Not, s.text("lower(f.name)", lower(t.Any)))
		case "id":
			s.not(t.Not, s.text("f.id", lower(t.Any)))
		case "host":
			ids, err := b.named(ctx, "hosts", t.Any)
			if err != nil {
				return fleet.Page[fleet.FoundVM]{}, err
			}
			s.not(t.Not, s.oneOf("f.host_id", ids))
		case "phase": // of a VM at one generation that the host has acted on
			s.not(t.Not, s.text("vm_phase('', f.status, 1, 1, NULL, "+fresh+")", t.Any))
		}
	}
	tail := p.apply(s)
	items, err := collect(ctx, b, `SELECT f.host_id, f.id, f.name, f.status, h.name, s.looked_at, now()
		FROM found_vms f JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id`+s.conditions()+tail, s,
		func(row pgx.CollectableRow) (fleet.FoundVM, error) {
			var r db.FoundVM
			var host string
			var seen *time.Time
			var now time.Time
			err := row.Scan(&r.HostID, &r.ID, &r.Name, &r.Status, &host, &seen, &now)
			return foundView(r, host, seen, now), err
		})
	return p.cut(items), err
}

// GetFoundVM returns one domain that Quantix did not make.
func (b *Browse) GetFoundVM(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID) (fleet.FoundVM, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.FoundVM{}, err
	}
	if err := store.CheckID(host, "VM"); err != nil {
		return fleet.FoundVM{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.FoundVM{}, err
	}
	r, err := b.store.GetFoundVM(ctx, db.GetFoundVMParams{HostID: host, ID: id})
	if err != nil {
		return fleet.FoundVM{}, store.NotFound(err, "VM")
	}
	return foundView(r.FoundVM, r.HostName, r.LookedAt, r.Now), nil
}

func foundView(r db.FoundVM, host string, seen *time.Time, now time.Time) fleet.FoundVM {
	f := fleet.FoundVM{ID: r.ID, HostID: r.HostID, HostName: host, Name: r.Name, Status: r.Status, SeenAt: seen}
	f.Phase = f.PhaseAt(seen, now)
	return f
}
