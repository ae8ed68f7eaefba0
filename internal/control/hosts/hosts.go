// Package hosts manages hosts, the join tokens of new ones, and the URL where agents reach the portal.
package hosts

import (
	"context"
	"maps"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Hosts manages hosts. Its exported methods are use cases of control.Control.
type Hosts struct {
	store    *store.Store
	queries  *query.Queries // reads the results of changes
	agents   *agentapi.API  // has the certificate of the authority, whose hash is part of join tokens
	agentURL string         // the URL that agents dial
}

// New returns Hosts that use the store, the queries and the agent API.
func New(s *store.Store, b *query.Queries, agents *agentapi.API, agentURL string) *Hosts {
	return &Hosts{store: s, queries: b, agents: agents, agentURL: agentURL}
}

// UpdateHost is the input of Hosts.UpdateHost. nil fields do not change.
type UpdateHost struct {
	Labels       map[string]string // the complete set
	Description  *string
	Taints       []string // the complete set
	IfGeneration int64    // expected generation; 0: not checked
}

// UpdateHost changes a host's labels, taints and description in the database. The machine does not change, and VMs stay
// on the host.
func (hs *Hosts) UpdateHost(ctx context.Context, a fleet.Actor, id fleet.HostID, in UpdateHost) (fleet.HostView, error) {
	err := hs.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		if in.IfGeneration != 0 && in.IfGeneration != h.Generation {
			return store.ChangedMeanwhileError("host", h.Generation, in.IfGeneration)
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
	return hs.queries.GetHost(ctx, a, id)
}

func auditHost(ctx context.Context, q *db.Queries, a fleet.Actor, action string, h db.Host) error {
	return store.Audit(ctx, q, a, action, fleet.Subject("host:"+string(h.ID)), h.Name, "")
}

// changeHost locks the host and calls do with it in the same transaction.
func (hs *Hosts) changeHost(ctx context.Context, a fleet.Actor, id fleet.HostID, do func(*db.Queries, db.Host) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return err
	}
	return hs.store.Tx(ctx, func(q *db.Queries) error {
		h, err := q.LockHost(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "host")
		}
		return do(q, h)
	})
}

// DeleteHost removes a host that has no VMs, or that is offline and has only VMs with a pending deletion; those VMs are
// removed too. The machine does not change: its domains, pools and agent stay. The portal no longer accepts the host's
// certificate.
func (hs *Hosts) DeleteHost(ctx context.Context, a fleet.Actor, id fleet.HostID) error {
	return hs.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		row, err := q.GetHost(ctx, id)
		if err != nil {
			return err
		}
		if ok, why := store.HostViewFromRow(row).Allows(fleet.ActDelete); !ok {
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

// ClearConflict clears the flag that a second agent used the host's identity. A person does so after checking both
// machines.
func (hs *Hosts) ClearConflict(ctx context.Context, a fleet.Actor, id fleet.HostID) error {
	return hs.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
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
