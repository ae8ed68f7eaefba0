package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UpdateHost changes what is not nil.
type UpdateHost struct {
	Labels       map[string]string // nil: as it is; otherwise the whole set
	Description  *string
	Taints       []string // nil: as they are; otherwise all of them
	IfGeneration int64    // refuse where the host is at another generation; 0: do not ask
}

// UpdateHost changes a host's labels, taints and description. Nothing on the host changes by it, and no VM leaves it.
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
		if in.Taints != nil && !slices.Equal(in.Taints, h.Spec.Taints) {
			fleet.CheckTaints(&checks, "taints", in.Taints)
			h.Spec.Taints, changed = in.Taints, true
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
	return store.Audit(ctx, q, a, action, fleet.Subject("host:"+string(h.ID)), h.Name, "")
}

// changeHost runs do with the locked host.
func (c *Control) changeHost(ctx context.Context, a fleet.Actor, id fleet.HostID, do func(*db.Queries, db.Host) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		h, err := q.LockHost(ctx, id)
		if err != nil {
			return store.NotFound(err, "host")
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
		if ok, why := store.ViewOfHost(row).Allows(fleet.ActDelete); !ok {
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
