package assign

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/wire"
)

// SecurityGroupType is the resource type of security groups. Hosts execute them as libvirt network filters. A group is
// assigned automatically to the hosts of its member NICs.
var SecurityGroupType = registerAssignableType(AssignableType{
	typ: string(fleet.TypeSecurityGroup), applyKind: fleet.SecurityGroupApply, releaseKind: fleet.SecurityGroupRelease,
	lockObject: func(ctx context.Context, q *db.Queries, id string) (AssignableObject, error) {
		g, err := q.LockSecurityGroup(ctx, fleet.SecurityGroupID(id))
		return AssignableObject{Name: g.Name, generation: g.Revision, changeRefusal: groupAssignedByNICsText}, err
	},
	checkHostsFit: func(context.Context, *db.Queries, AssignableObject, []string) error {
		return fleet.Errorf(fleet.Conflict, groupAssignedByNICsText)
	},
	checkUnusedOnHost: func(context.Context, *db.Queries, AssignableObject, fleet.HostID) error {
		return fleet.Errorf(fleet.Conflict, groupAssignedByNICsText)
	},
	actionAllowed: func(db.AssignmentOnRow, fleet.Action) (bool, string, error) {
		return false, groupAssignedByNICsText, nil
	},
	markDeleted: func(ctx context.Context, q *db.Queries, id string) error {
		return q.MarkSecurityGroupDeleted(ctx, fleet.SecurityGroupID(id))
	},
	deleteRow: func(ctx context.Context, q *db.Queries, id string) error {
		return q.DeleteSecurityGroup(ctx, fleet.SecurityGroupID(id))
	},
	observedStatus: func(in wire.Finish) any {
		switch {
		case in.SecurityGroup != nil:
			return in.SecurityGroup
		case in.Outcome != wire.Done: // also the result of an agent too old to know the job kind
			return secgroup.Status{Error: in.Error}
		}
		return secgroup.Status{Active: true}
	},
})

const groupAssignedByNICsText = "Quantix assigns a security group to exactly the hosts that have NICs in it. Add a NIC to the group, or remove its NICs."

// securityGroupOnHost identifies a security group on one host for a job.
type securityGroupOnHost struct {
	id       fleet.SecurityGroupID
	name     string
	project  *fleet.ProjectID
	revision int64
	host     fleet.HostID
}

func (g securityGroupOnHost) queueJob(ctx context.Context, q *db.Queries, a fleet.Actor, kind fleet.JobKind) error {
	_, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
		HostID: g.host, ProjectID: g.project, Kind: kind, Subject: fleet.SubjectOf(fleet.TypeSecurityGroup, g.id), SubjectName: g.name, Generation: g.revision,
	})
	return err
}

// AssignAndReleaseSecurityGroups assigns security groups to the hosts of their member NICs and releases them on other
// hosts. It updates member addresses and queues jobs for hosts with outdated groups. It locks no row that host reports
// write.
func AssignAndReleaseSecurityGroups(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	moved, err := q.RefreshMembers(ctx, secgroup.MaxNICAddresses)
	if err != nil {
		return err
	}
	if len(moved) > 0 {
		if err := q.ReviseSecurityGroups(ctx, store.ToStrings(moved)); err != nil {
			return err
		}
	}
	if err := assignSecurityGroups(ctx, q, a); err != nil {
		return err
	}
	if err := QueueSecurityGroupUpdates(ctx, q, a, ""); err != nil {
		return err
	}
	return q.EndSecurityGroups(ctx)
}

// assignSecurityGroups assigns and releases groups according to their member NICs.
func assignSecurityGroups(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	rows, err := q.MisplacedSecurityGroups(ctx)
	if err != nil {
		return err
	}
	typ := SecurityGroupType.typ
	for _, r := range rows {
		g := securityGroupOnHost{r.ID, r.Name, r.ProjectID, r.Revision, fleet.HostID(r.HostID)}
		hosts, object := []string{r.HostID}, string(r.ID)
		kind, opposite := fleet.SecurityGroupApply, fleet.SecurityGroupRelease
		if r.Wanted {
			_, err = q.Assign(ctx, db.AssignParams{Noun: typ, ObjectID: object, Hosts: hosts})
		} else {
			kind, opposite = opposite, kind
			err = q.Release(ctx, db.ReleaseParams{Noun: typ, ObjectID: object, Hosts: hosts})
		}
		if err != nil {
			return err
		}
		err = q.CancelWaiting(ctx, db.CancelWaitingParams{
			Subject: fleet.SubjectOf(fleet.TypeSecurityGroup, r.ID), HostID: g.host, Kinds: []string{string(opposite)}, Error: "Not done: the opposite was requested before this task started.",
		})
		if err != nil {
			return err
		}
		if err := g.queueJob(ctx, q, a, kind); err != nil {
			return err
		}
	}
	return nil
}

// QueueSecurityGroupUpdates queues a job on each host that has an outdated revision of the given group, unless the host
// has an unfinished job for it. If group is empty, all groups are checked.
func QueueSecurityGroupUpdates(ctx context.Context, q *db.Queries, a fleet.Actor, group fleet.SecurityGroupID) error {
	rows, err := q.OutdatedSecurityGroups(ctx, string(group))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := (securityGroupOnHost{r.ID, r.Name, r.ProjectID, r.Revision, r.HostID}).queueJob(ctx, q, a, fleet.SecurityGroupApply); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSecurityGroup deletes a group that the transaction has locked and that nothing uses. Its row is deleted with
// the last assignment.
func DeleteSecurityGroup(ctx context.Context, q *db.Queries, id fleet.SecurityGroupID) error {
	if err := q.DeleteSecurityGroup(ctx, id); err != nil {
		return err
	}
	return q.MarkSecurityGroupDeleted(ctx, id) // no effect if the group had no assignments and is deleted already
}

// UsableSecurityGroups reports which groups the project's NICs and rules may use: the project's own and global groups,
// or only global ones if project is empty. It locks the groups until the transaction ends.
func UsableSecurityGroups(ctx context.Context, q *db.Queries, project fleet.ProjectID, ids []fleet.SecurityGroupID) (map[fleet.SecurityGroupID]bool, error) {
	held := map[fleet.SecurityGroupID]bool{}
	if len(ids) == 0 {
		return held, nil
	}
	rows, err := q.LockSecurityGroups(ctx, store.ToStrings(slices.Compact(slices.Sorted(slices.Values(ids)))))
	for _, r := range rows {
		held[r.ID] = r.ProjectID == nil || project != "" && *r.ProjectID == project
	}
	return held, err
}
