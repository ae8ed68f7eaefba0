package assign

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// maxRetriedHosts is the maximum number of hosts of one RetryAll.
const maxRetriedHosts = 200

// RetryAll queues the object's setup again on all hosts where it failed, with one task per host, in the order of host
// names. Offline hosts are only counted. Hosts where somebody stopped the object without Quantix are skipped.
func (n *AssignableType) RetryAll(ctx context.Context, s *store.Store, a fleet.Actor, id string) (fleet.RetryResult, error) {
	var out fleet.RetryResult
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		out = fleet.RetryResult{Tasks: []fleet.TaskID{}}
		rows, err := q.AssignmentsNotHealthy(ctx, db.AssignmentsNotHealthyParams{Noun: n.typ, ObjectID: id})
		if err != nil {
			return err
		}
		for _, r := range rows {
			ok, _, err := n.actionAllowed(db.AssignmentOnRow{Assigned: r.Assigned, HostName: r.HostName, Status: r.Status, LookedAt: r.LookedAt, FreshFor: r.FreshFor, Now: r.Now}, fleet.ActRetry)
			switch {
			case err != nil:
				return err
			case !fleet.IsReportFresh(fleet.NewReportTime(r.LookedAt, r.FreshFor), r.Now):
				out.Offline++
			case ok && len(out.Tasks) == maxRetriedHosts:
				out.More++
			case ok:
				task, err := o.queueJob(ctx, q, a, r.HostID, n.applyKind, n.releaseKind)
				if err != nil {
					return err
				}
				out.Tasks = append(out.Tasks, task)
			}
		}
		if len(out.Tasks) == 0 {
			return nothingToRetryError(n, out.Offline)
		}
		return o.Audit(ctx, q, a, "retry", fmt.Sprintf("on %d hosts where it failed", len(out.Tasks)))
	})
	return out, err
}

func nothingToRetryError(n *AssignableType, offline int) error {
	if offline == 0 {
		return fleet.Errorf(fleet.Conflict, "The %s has failed on none of its hosts, so there is nothing to try again.", n.typeLabel())
	}
	return fleet.Errorf(fleet.Conflict, "The %s has failed only on offline hosts (%d). These hosts retry automatically when they are online again.", n.typeLabel(), offline)
}
