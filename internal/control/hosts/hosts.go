// Package hosts manages hosts, the join tokens of new ones, and the URL where agents reach the portal.
package hosts

import (
	"context"
	"fmt"
	"strings"
	"time"

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

// UpdateHost is the input of Hosts.UpdateHost.
type UpdateHost struct {
	Spec         fleet.HostSpec
	ClusterID    fleet.ClusterID // empty: not changed
	IfGeneration int64           // expected generation; 0: not checked
}

// UpdateHost replaces a host's spec, and moves the host to the cluster. The machine does not change, and VMs stay on the
// host. A cluster whose baseline the host does not support is refused.
func (hs *Hosts) UpdateHost(ctx context.Context, a fleet.Actor, id fleet.HostID, in UpdateHost) (fleet.HostView, error) {
	err := hs.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		if in.IfGeneration != 0 && in.IfGeneration != h.Generation {
			return store.ChangedMeanwhileError("host", h.Generation, in.IfGeneration)
		}
		if in.ClusterID != "" && in.ClusterID != h.ClusterID {
			cluster, err := lockJoinedCluster(ctx, q, in.ClusterID, []fleet.HostID{id})
			if err != nil {
				return err
			}
			if err := setCluster(ctx, q, a, h, cluster); err != nil {
				return err
			}
		}
		return changeSpec(ctx, q, a, h, in.Spec)
	})
	if err != nil {
		return fleet.HostView{}, err
	}
	return hs.queries.GetHost(ctx, a, id)
}

// changeSpec checks and writes the locked host's new spec, unless it equals the old one.
func changeSpec(ctx context.Context, q *db.Queries, a fleet.Actor, h db.Host, to fleet.HostSpec) error {
	changes := h.Spec.Changes(to)
	if len(changes) == 0 {
		return nil
	}
	var checks fleet.Checks
	to.Check(&checks, "spec", store.HostView(h, db.Cluster{}, nil, nil, "", time.Time{}).Capacity)
	if err := checks.Err(); err != nil {
		return err
	}
	if err := q.ChangeHost(ctx, db.ChangeHostParams{ID: h.ID, Spec: to}); err != nil {
		return err
	}
	return store.Audit(ctx, q, a, "host.edit", fleet.Subject("host:"+string(h.ID)), h.Name, strings.Join(changes, ", "))
}

// CordonHost makes a host schedulable or cordons it. VMs on the host do not change.
func (hs *Hosts) CordonHost(ctx context.Context, a fleet.Actor, id fleet.HostID, act fleet.Action) error {
	return hs.changeHost(ctx, a, id, func(q *db.Queries, h db.Host) error {
		if ok, why := store.HostView(h, db.Cluster{}, nil, nil, "", time.Time{}).Allows(act); !ok {
			return fleet.RefusalError(why)
		}
		to := h.Spec
		to.Schedulable = act == fleet.ActUncordon
		return changeSpec(ctx, q, a, h, to)
	})
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
		online := row.SeenAt != nil && fleet.IsReportFresh(fleet.NewReportTime(row.SeenAt, row.FreshFor), row.Now)
		recycled, err := q.RecycledOnHost(ctx, db.RecycledOnHostParams{HostID: id, Online: online})
		if err != nil {
			return err
		}
		if recycled > 0 {
			return fleet.Errorf(fleet.Conflict, "%s in the recycle bin on this host. Purge or restore them first.", areVMs(recycled))
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

// areVMs returns "1 VM is" or "3 VMs are".
func areVMs(n int64) string {
	if n == 1 {
		return "1 VM is"
	}
	return fmt.Sprintf("%d VMs are", n)
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
