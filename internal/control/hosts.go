package control

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UpdateHost changes what is not nil.
type UpdateHost struct {
	Labels       map[string]string // nil: as it is; otherwise the whole set
	Description  *string
	IfGeneration int64 // refuse where the host is at another generation; 0: do not ask
}

var hostOrders = orders[fleet.HostView]{
	"name": {[]column{textColumn("h.name"), textColumn("h.id")}, func(v fleet.HostView) []string { return []string{v.Name, string(v.ID)} }},
	"created": {[]column{timeColumn("h.created_at"), textColumn("h.id")}, func(v fleet.HostView) []string {
		return []string{stamp(v.CreatedAt), string(v.ID)}
	}},
}

// hostPhaseSQL is fleet.Host.Phase in SQL, for filters and the tree. It leaves the host's status closed: an inventory is much to read.
var hostPhaseSQL = "CASE WHEN s.seen_at IS NULL OR h.status IS NULL THEN 'pending' WHEN s.conflict <> '' THEN 'conflict' WHEN NOT " + heard +
	" THEN 'unknown' WHEN s.blind_since IS NULL AND " + fresh + " THEN 'online' ELSE 'degraded' END"

// ListHosts returns one page of hosts. What their VMs use comes from the counters, up to five seconds old. Sorts: name, created.
func (c *Control) ListHosts(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.HostView], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	p, err := hostOrders.page(q, "name")
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	terms, err := fleet.ParseFilter(fleet.HostKeys, q.Filter)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	var s statement
	for _, t := range terms {
		switch t.Key {
		case "phase":
			s.not(t.Not, s.text("("+hostPhaseSQL+")", t.Any))
		case "name":
			s.not(t.Not, s.text("h.name", lower(t.Any)))
		case "label":
			s.not(t.Not, s.labels("(h.spec->'labels')", t.Any))
		}
	}
	tail := p.apply(&s)
	sums, err := c.counted(ctx)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	items, err := collect(ctx, c, `SELECT h.id, h.name, h.spec, h.generation, h.created_at, h.status, s.seen_at, s.looked_at, COALESCE(s.conflict, ''), now()
		FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id`+s.conditions()+tail, &s, func(row pgx.CollectableRow) (fleet.HostView, error) {
		var r db.Host
		var seen, looked *time.Time
		var conflict string
		var now time.Time
		err := row.Scan(&r.ID, &r.Name, &r.Spec, &r.Generation, &r.CreatedAt, &r.Status, &seen, &looked, &conflict, &now)
		v := hostView(r, seen, looked, conflict, now)
		sum := sums.hosts[r.ID]
		v.VMs, v.Leaving, v.CommittedCPUs, v.CommittedMiB = sum.vms, sum.leaving, sum.cpus, sum.memoryMiB
		return v, err
	})
	return p.cut(items), err
}

func hostView(r db.Host, seen, looked *time.Time, conflict string, now time.Time) fleet.HostView {
	h := fleet.Host{
		ID: r.ID, Name: r.Name, Spec: r.Spec, Generation: r.Generation, Status: r.Status, SeenAt: seen, LookedAt: looked, Conflict: conflict, CreatedAt: r.CreatedAt,
	}
	return fleet.HostView{Host: h, Phase: h.Phase(now)}
}

// GetHost returns one host.
func (c *Control) GetHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (fleet.HostView, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.HostView{}, err
	}
	if err := checkID(id, "host"); err != nil {
		return fleet.HostView{}, err
	}
	r, err := c.q.GetHost(ctx, id)
	if err != nil {
		return fleet.HostView{}, notFound(err, "host")
	}
	return viewOfHost(r), nil
}

func viewOfHost(r db.GetHostRow) fleet.HostView {
	v := hostView(r.Host, r.SeenAt, r.LookedAt, r.Conflict, r.Now)
	v.VMs, v.Leaving, v.CommittedCPUs, v.CommittedMiB, v.Load = int(r.Vms), int(r.Leaving), int(r.Cpus), r.MemoryMib, r.Load
	return v
}

// UpdateHost changes a host's labels and description. Nothing on the host changes by it.
func (c *Control) UpdateHost(ctx context.Context, a fleet.Actor, id fleet.HostID, in UpdateHost) (fleet.HostView, error) {
	err := c.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		if in.IfGeneration != 0 && in.IfGeneration != h.Generation {
			return changedMeanwhile("host", h.Generation, in.IfGeneration)
		}
		var checks fleet.Checks
		changed := false
		if in.Labels != nil && !maps.Equal(in.Labels, h.Spec.Labels) {
			fleet.CheckLabels(&checks, "labels", in.Labels)
			h.Spec.Labels, changed = in.Labels, true
		}
		if in.Description != nil && *in.Description != h.Spec.Description {
			fleet.CheckDescription(&checks, "description", *in.Description)
			h.Spec.Description, changed = *in.Description, true
		}
		if err := checks.Err(); err != nil || !changed {
			return err
		}
		if err := q.ChangeHost(ctx, db.ChangeHostParams{ID: id, Spec: h.Spec}); err != nil {
			return err
		}
		return auditHost(ctx, q, a, "host.edit", h)
	})
	if err != nil {
		return fleet.HostView{}, err
	}
	return c.GetHost(ctx, a, id)
}

func auditHost(ctx context.Context, q *db.Queries, a fleet.Actor, action string, h db.Host) error {
	return audit(ctx, q, a, action, fleet.Subject("host:"+string(h.ID)), h.Name, "")
}

// changeHost runs do with the locked host.
func (c *Control) changeHost(ctx context.Context, a fleet.Actor, id fleet.HostID, do func(*db.Queries, db.Host) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := checkID(id, "host"); err != nil {
		return err
	}
	return c.tx(ctx, func(q *db.Queries) error {
		h, err := q.LockHost(ctx, id)
		if err != nil {
			return notFound(err, "host")
		}
		return do(q, h)
	})
}

// DeleteHost forgets a host that has no VMs, or is not heard and has only VMs whose deletion was asked for: those go with it.
// Nothing on the machine is touched: its domains, pools and agent stay as they are, and its certificate is worth nothing from
// then on.
func (c *Control) DeleteHost(ctx context.Context, a fleet.Actor, id fleet.HostID) error {
	return c.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		row, err := q.GetHost(ctx, id)
		if err != nil {
			return err
		}
		if ok, why := viewOfHost(row).Allows(fleet.ActDelete); !ok {
			vms, err := q.VMsOnHost(ctx, id)
			if err != nil {
				return err
			}
			if len(vms) > 3 {
				vms[3] = "others"
			}
			return fleet.Errorf(fleet.Conflict, "%s %s has %s.", why, h.Name, strings.Join(vms, ", "))
		}
		if err := q.ForgetVMs(ctx, id); err != nil {
			return err
		}
		if err := q.DropHost(ctx, id); err != nil {
			return err
		}
		return auditHost(ctx, q, a, "host.delete", h)
	})
}

// ClearConflict takes back the mark that a second agent showed the host's identity, once a person has looked into it.
func (c *Control) ClearConflict(ctx context.Context, a fleet.Actor, id fleet.HostID) error {
	return c.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		n, err := q.ClearConflict(ctx, id)
		if err != nil || n == 0 {
			return err
		}
		if err := q.AnnounceHost(ctx, string(id)); err != nil {
			return err
		}
		return auditHost(ctx, q, a, "host.clearConflict", h)
	})
}
