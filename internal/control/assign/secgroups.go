package assign

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// SecurityGroups are what hosts execute as libvirt's network filters. Nobody assigns one: it is on the hosts that have cards in it.
var SecurityGroups = &Assignable{
	typ: string(fleet.TypeSecurityGroup), apply: fleet.SecurityGroupApply, release: fleet.SecurityGroupRelease,
	lock: func(ctx context.Context, q *db.Queries, id string) (Object, error) {
		g, err := q.LockSecurityGroup(ctx, fleet.SecurityGroupID(id))
		return Object{Name: g.Name, generation: g.Revision, leaving: followsNICs}, err
	},
	fits: func(context.Context, *db.Queries, Object, []string) error {
		return fleet.Errorf(fleet.Conflict, followsNICs)
	},
	free: func(context.Context, *db.Queries, Object, fleet.HostID) error {
		return fleet.Errorf(fleet.Conflict, followsNICs)
	},
	allows: func(db.AssignmentOnRow, fleet.Action) (bool, string, error) { return false, followsNICs, nil },
	markDelete: func(ctx context.Context, q *db.Queries, id string) error {
		return q.MarkSecurityGroupDeleted(ctx, fleet.SecurityGroupID(id))
	},
	drop: func(ctx context.Context, q *db.Queries, id string) error {
		return q.DeleteSecurityGroup(ctx, fleet.SecurityGroupID(id))
	},
	status: func(in wire.Finish) any {
		switch {
		case in.SecurityGroup != nil:
			return in.SecurityGroup
		case in.Outcome != wire.Done: // also of an agent that is too old to know the work
			return fleet.SecurityGroupStatus{Error: in.Error}
		}
		return fleet.SecurityGroupStatus{Active: true}
	},
}

const followsNICs = "A security group is on the hosts that have network cards in it, and on no others. Put a card into it, or take the cards out."

// onHost is a group on a host, as work is queued for it.
type onHost struct {
	id       fleet.SecurityGroupID
	name     string
	project  *fleet.ProjectID
	revision int64
	host     fleet.HostID
}

func (g onHost) queue(ctx context.Context, q *db.Queries, a fleet.Actor, kind fleet.JobKind) error {
	_, err := store.Queue(ctx, q, a, db.JoinQueueParams{
		HostID: g.host, ProjectID: g.project, Kind: kind, Subject: fleet.SubjectOf(fleet.TypeSecurityGroup, g.id), SubjectName: g.name, Generation: g.revision,
	})
	return err
}

// SettleSecurityGroups brings groups to where cards are in them and takes them from where none is any more, keeps the addresses of their
// members, and has hosts take what is newer than what they have. It holds no row that a host's report writes.
func SettleSecurityGroups(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	moved, err := q.RefreshMembers(ctx, fleet.MaxNICAddresses)
	if err != nil {
		return err
	}
	if len(moved) > 0 {
		if err := q.ReviseSecurityGroups(ctx, store.Texts(moved)); err != nil {
			return err
		}
	}
	if err := placeSecurityGroups(ctx, q, a); err != nil {
		return err
	}
	if err := PushSecurityGroups(ctx, q, a, ""); err != nil {
		return err
	}
	return q.EndSecurityGroups(ctx)
}

// placeSecurityGroups assigns and releases groups as cards come and go.
func placeSecurityGroups(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	rows, err := q.MisplacedSecurityGroups(ctx)
	if err != nil {
		return err
	}
	noun := SecurityGroups.typ
	for _, r := range rows {
		g := onHost{r.ID, r.Name, r.ProjectID, r.Revision, fleet.HostID(r.HostID)}
		hosts, object := []string{r.HostID}, string(r.ID)
		kind, contrary := fleet.SecurityGroupApply, fleet.SecurityGroupRelease
		if r.Wanted {
			_, err = q.Assign(ctx, db.AssignParams{Noun: noun, ObjectID: object, Hosts: hosts})
		} else {
			kind, contrary = contrary, kind
			err = q.Release(ctx, db.ReleaseParams{Noun: noun, ObjectID: object, Hosts: hosts})
		}
		if err != nil {
			return err
		}
		err = q.CancelWaiting(ctx, db.CancelWaitingParams{
			Subject: fleet.SubjectOf(fleet.TypeSecurityGroup, r.ID), HostID: g.host, Kinds: []string{string(contrary)}, Error: "Not done: the contrary was asked for before its turn came.",
		})
		if err != nil {
			return err
		}
		if err := g.queue(ctx, q, a, kind); err != nil {
			return err
		}
	}
	return nil
}

// PushSecurityGroups has hosts take what is newer than what they have, where nothing is on its way: of one group, or of all where it is empty.
func PushSecurityGroups(ctx context.Context, q *db.Queries, a fleet.Actor, of fleet.SecurityGroupID) error {
	rows, err := q.OutdatedSecurityGroups(ctx, string(of))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := (onHost{r.ID, r.Name, r.ProjectID, r.Revision, r.HostID}).queue(ctx, q, a, fleet.SecurityGroupApply); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSecurityGroup deletes a group that the transaction has locked and that nothing needs; its row goes with the last of its hosts.
func DeleteSecurityGroup(ctx context.Context, q *db.Queries, id fleet.SecurityGroupID) error {
	if err := q.DeleteSecurityGroup(ctx, id); err != nil {
		return err
	}
	return q.MarkSecurityGroupDeleted(ctx, id) // of one that was on no host nothing is left to mark
}

// HeldSecurityGroups are those of the groups that cards and rules of a project may name: its own and the fleet's, or the fleet's alone where
// the project is empty. They stay until the transaction ends.
func HeldSecurityGroups(ctx context.Context, q *db.Queries, project fleet.ProjectID, ids []fleet.SecurityGroupID) (map[fleet.SecurityGroupID]bool, error) {
	held := map[fleet.SecurityGroupID]bool{}
	if len(ids) == 0 {
		return held, nil
	}
	rows, err := q.LockSecurityGroups(ctx, store.Texts(slices.Compact(slices.Sorted(slices.Values(ids)))))
	for _, r := range rows {
		held[r.ID] = r.ProjectID == nil || project != "" && *r.ProjectID == project
	}
	return held, err
}
